"""What the demonstration says follows from its numbers."""

import sys

import numpy as np
import pytest

from openset.study.demonstration import Demonstration, images_as_text


@pytest.fixture(scope="module")
def demonstration():
    return Demonstration()


def test_regions_are_bounded_and_noise_is_rejected(demonstration):
    ours, noise_rejected = demonstration.results["OpenSetSVC"]
    assert ours.bounded.all()
    assert noise_rejected == 1000
    for result, _ in demonstration.results.values():  # every baseline is tuned, and well
        assert "threshold" in result.fitted.params or "lam" in result.fitted.params
        assert result.measures["normalized_accuracy"] > 0.75


def test_sentences_repeat_the_numbers(demonstration):
    y, split = demonstration.y, demonstration.split
    n_unknown = int((~np.isin(y[split.test], split.known)).sum())
    first, *others = demonstration.verdict()
    ours, _ = demonstration.results["OpenSetSVC"]
    assert f"rejects {ours.measures['accuracy_unknown']:.1%} of {n_unknown} images" in first
    for sentence, name in zip(others, ("logistic regression", "SVM"), strict=True):
        result, noise_rejected = demonstration.results[name]
        answers, truth = result.evaluation.answers, result.evaluation.truth
        fooled = np.sum((answers != -1) & ~np.isin(truth, split.known))
        assert f"The {name} with a threshold takes {fooled} unseen digits" in sentence
        assert f"accepts {1000 - noise_rejected} of 1000" in sentence


def test_images_in_the_terminal():
    image = np.zeros((8, 8))
    image[0, 0] = image[1, 0] = image[2, 1] = image[5, 7] = 1.0
    lines = images_as_text([image], ["unknown"]).splitlines()
    assert lines[:5] == ["█", " ▀", "       ▄", "", "unknown"]


def test_no_picture_without_matplotlib(demonstration, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert not demonstration.save_picture(tmp_path / "digits.png")
    assert list(tmp_path.iterdir()) == []
