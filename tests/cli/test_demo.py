import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import load_digits

from openset.cli import _demo


@pytest.fixture(scope="module")
def task():
    return _demo.make_task()


@pytest.fixture
def outcome():
    return _demo.Outcome("m", "open", {"C": 1.0}, 0.9, 0.8, 0.85, 0.847, 6, 0.1)


def test_task(task):
    y = load_digits().target
    assert task.known.size == 6
    np.testing.assert_array_equal(np.unique(task.y_train), task.known)
    n_known = np.isin(y, task.known).sum()
    assert abs(task.y_train.size - n_known / 2) <= 1
    assert task.is_known.sum() == n_known - task.y_train.size
    assert (~task.is_known).sum() == y.size - n_known
    assert task.X_train.min() >= 0 and task.X_train.max() == 1


def test_no_sample_is_in_both_parts(task):
    rows = np.concatenate([task.X_train, task.X_test])
    expected = np.unique(load_digits().data / 16, axis=0).shape[0]
    assert rows.shape[0] == 1797
    assert np.unique(rows, axis=0).shape[0] == expected


def test_outcome_agrees_with_counting(task):
    class Oracle:
        """Knows the known digits by heart and accepts every second unknown one."""

        scenario, best_params_ = "closed", {"gamma": 1.0}
        unknown_label_ = -1
        bounded_ = np.array([True, True, False, True, True, True])

        def fit(self, X, y):
            return self

        def predict(self, X):
            y = np.where(task.is_known, task.y_test, -1)
            y[np.flatnonzero(~task.is_known)[::2]] = task.known[0]
            return y

    o = _demo.evaluate("oracle", Oracle(), task)
    n_unknown = (~task.is_known).sum()
    assert o.aks == 1
    assert o.aus == pytest.approx((n_unknown // 2) / n_unknown)
    assert o.na == pytest.approx((o.aks + o.aus) / 2)
    assert o.hna == pytest.approx(2 / (1 / o.aks + 1 / o.aus))
    assert o.n_bounded == 5
    assert (o.scenario, o.params) == ("closed", {"gamma": 1.0})


@pytest.mark.parametrize(
    ("na", "words"),
    [(0.9, "OpenSetSVC is ahead"), (0.8, "the SVM is ahead"), (0.8501, "NA 0.850 for both")],
)
@pytest.mark.parametrize(("scenario", "how"), _demo.TUNED.items())
def test_verdict_follows_the_numbers(task, outcome, na, words, scenario, how):
    svm = dataclasses.replace(outcome, scenario=scenario)
    open_set = dataclasses.replace(svm, na=na)
    (sentence,) = _demo.verdict([(svm, open_set)], task)
    assert sentence.startswith(how)
    assert sentence.endswith(f"{words}.")


def test_verdict_says_when_both_are_one_machine(task, outcome):
    open_set = dataclasses.replace(outcome, params={"C": 1.0, "lam": 0.0})
    assert "one machine" in _demo.verdict([(outcome, open_set)], task)[1]
    open_set = dataclasses.replace(outcome, params={"C": 1.0, "lam": 0.1})
    assert len(_demo.verdict([(outcome, open_set)], task)) == 1


def test_verdict_counts(task, outcome):
    n_known = task.is_known.sum()
    n_unknown = task.y_test.size - n_known
    svm = dataclasses.replace(outcome, aus=1 - 20 / n_unknown, aks=(n_known - 2) / n_known)
    open_set = dataclasses.replace(outcome, aus=1 - 5 / n_unknown, aks=(n_known - 2) / n_known)
    sentence = _demo.verdict([(svm, open_set)], task)[0]
    assert "the SVM takes 20 for a known digit and OpenSetSVC 5, 15 fewer" in sentence
    assert f"the SVM names {n_known - 2} rightly and OpenSetSVC as many" in sentence


@pytest.fixture(scope="module")
def pairs(task):
    return _demo.compare(task)


def test_demo_prints_a_table_and_a_verdict(task, pairs, monkeypatch, tmp_path):
    monkeypatch.setattr(_demo, "compare", lambda task: pairs)
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    _demo.run(Console(file=printed, width=80))
    text = printed.getvalue()
    words = ("AKS", "AUS", "NA", "HNA", "SVM", "OpenSetSVC", "6 of 6", " s ", "lam=", "gamma=")
    for word in (*words, *_demo.TUNED.values(), f"{task.y_train.size} samples"):
        assert word in text
    picture = tmp_path / "demo-regions.png"
    assert picture.name in text and picture.stat().st_size > 10_000


def test_withholding_digits_pays(pairs):
    for closed, opened in zip(*pairs, strict=True):
        assert (closed.scenario, opened.scenario) == ("closed", "open")
        assert opened.aus > closed.aus
        assert opened.na > closed.na + 0.05
        assert opened.n_bounded == 6 or opened.method == "SVM"
