"""What the demonstration says follows from its numbers."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openset.cli import _demo
from openset.evaluation import draw_split


@pytest.fixture(scope="module")
def task():
    X, y = load_digits(return_X_y=True)
    return X / 16, y, draw_split(y, _demo.N_KNOWN, random_state=_demo.SEED)


@pytest.fixture(scope="module")
def found(task):
    return _demo.run_methods(*task)


def test_regions_are_bounded_and_noise_is_rejected(found):
    assert found["OpenSetSVC"].result.bounded.all()
    assert found["OpenSetSVC"].noise_rejected == 1000
    for result, _ in found.values():  # every baseline has its threshold searched, and is tuned well
        assert "threshold" in result.fitted.params or "lam" in result.fitted.params
        assert result.measures["normalized_accuracy"] > 0.75


def test_sentences_repeat_the_numbers(found, task):
    _, y, split = task
    n_unknown = int((~np.isin(y[split.test], split.known)).sum())
    first, *others = _demo.verdict(found)
    ours = found["OpenSetSVC"].result
    assert f"rejects {ours.measures['accuracy_unknown']:.1%} of {n_unknown} images" in first
    for sentence, name in zip(others, ("logistic regression", "SVM"), strict=True):
        answers = found[name].result.evaluation.answers
        truth = found[name].result.evaluation.truth
        fooled = np.sum((answers != -1) & ~np.isin(truth, split.known))
        assert f"The {name} with a threshold takes {fooled} unseen digits" in sentence
        assert f"accepts {1000 - found[name].noise_rejected} of 1000" in sentence


def test_images_in_the_terminal():
    image = np.zeros((8, 8))
    image[0, 0] = image[1, 0] = image[2, 1] = image[5, 7] = 1.0
    lines = _demo._terminal([image], ["unknown"]).splitlines()
    assert lines[:5] == ["█", " ▀", "       ▄", "", "unknown"]


def test_no_picture_without_matplotlib(task, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.chdir(tmp_path)
    X, y, split = task
    assert not _demo._save_picture(X, y, y, split.known)
    assert list(tmp_path.iterdir()) == []
