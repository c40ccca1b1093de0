"""What the demonstration says follows from its numbers."""

import sys
from types import SimpleNamespace

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
def results(task):
    return _demo.run_methods(*task)


@pytest.fixture
def result(results):
    return results["open"]["SVM"]


def changed(result, params=None, **measures):
    names = {"na": "normalized_accuracy", "aks": "accuracy_known", "aus": "accuracy_unknown"}
    changes = {names[name]: value for name, value in measures.items()}
    return SimpleNamespace(
        measures=result.measures | changes,
        evaluation=result.evaluation,
        fitted=SimpleNamespace(params=params or {"C": 1.0}),
    )


def pair(scenario, svm, open_set):
    return {scenario: {"SVM": svm, "OpenSetSVC": open_set}}


def test_withholding_digits_pays(results):
    for method in ("SVM", "OpenSetSVC"):
        closed, opened = (results[scenario][method] for scenario in ("closed", "open"))
        for measure, margin in (("accuracy_unknown", 0), ("normalized_accuracy", 0.05)):
            assert opened.measures[measure] > closed.measures[measure] + margin
        assert opened.bounded.all() or method == "SVM"


@pytest.mark.parametrize(
    ("na", "words"),
    [(0.9, "OpenSetSVC is ahead"), (0.8, "the SVM is ahead"), (0.8501, "NA 0.850 for both")],
)
@pytest.mark.parametrize(("scenario", "how"), _demo.TUNED.items())
def test_verdict_follows_the_numbers(result, na, words, scenario, how):
    (sentence,) = _demo.verdict(pair(scenario, changed(result, na=0.85), changed(result, na=na)))
    assert sentence.startswith(how)
    assert sentence.endswith(f"{words}.")


def test_verdict_says_when_both_are_one_machine(result):
    svm = changed(result)
    same = changed(result, {"C": 1.0, "lam": 0.0})
    assert "one machine" in _demo.verdict(pair("open", svm, same))[1]
    other = changed(result, {"C": 1.0, "lam": 0.1})
    assert len(_demo.verdict(pair("open", svm, other))) == 1


def test_verdict_counts(task, result):
    _, y, split = task
    n_known = np.isin(y[split.test], split.known).sum()
    n_unknown = len(split.test) - n_known
    right = (n_known - 2) / n_known
    svm = changed(result, aus=1 - 20 / n_unknown, aks=right)
    open_set = changed(result, aus=1 - 5 / n_unknown, aks=right)
    sentence = _demo.verdict(pair("open", svm, open_set))[0]
    assert "the SVM takes 20 for a known digit and OpenSetSVC 5, 15 fewer" in sentence
    assert f"the SVM names {n_known - 2} correctly and OpenSetSVC as many" in sentence


def test_no_picture_without_matplotlib(results, task, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openset.plots", None)
    monkeypatch.chdir(tmp_path)
    X, y, split = task
    assert not _demo._save_picture(results, X[split.train], y[split.train])
    assert list(tmp_path.iterdir()) == []
