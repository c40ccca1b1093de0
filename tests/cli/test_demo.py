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
    return _demo.Outcome("m", "scale", 0.9, 0.8, 0.85, 0.847, 6, 0.1)


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

        gamma = 1.0
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


@pytest.mark.parametrize(
    ("na", "words"),
    [(0.9, "OpenSetSVC is ahead"), (0.8, "the SVM is ahead"), (0.8501, "NA 0.850 for both")],
)
def test_verdict_follows_the_numbers(task, outcome, na, words):
    other = dataclasses.replace(outcome, na=na)
    sentences = _demo.verdict([(outcome, other)], task)
    assert len(sentences) == 2
    assert all(words in sentence for sentence in sentences)


def test_verdict_counts(task, outcome):
    n_known = task.is_known.sum()
    n_unknown = task.y_test.size - n_known
    svm = dataclasses.replace(outcome, aus=1 - 20 / n_unknown, aks=(n_known - 2) / n_known)
    open_set = dataclasses.replace(outcome, aus=1 - 5 / n_unknown, aks=(n_known - 2) / n_known)
    sentence = _demo.verdict([(svm, open_set)], task)[0]
    assert "the SVM takes 20 for a known digit and OpenSetSVC 5, 15 fewer" in sentence
    assert f"the SVM names {n_known - 2} rightly and OpenSetSVC as many" in sentence


def test_demo_prints_a_table_and_a_verdict(task):
    printed = io.StringIO()
    _demo.run(Console(file=printed, width=80))
    text = printed.getvalue()
    for word in ("AKS", "AUS", "NA", "HNA", "SVM", "OpenSetSVC", "6 of 6", " ms "):
        assert word in text
    assert f"{task.y_train.size} samples" in text
    assert "At the better gamma of each" in text


def test_open_set_svc_rejects_more_unknowns_and_is_bounded(task):
    # At equal C and gamma a larger lam shrinks every class (b falls), so fewer unknowns pass.
    for svm, open_set in _demo.compare(task):
        assert open_set.aus > svm.aus
        assert open_set.n_bounded == 6
        assert 0.8 < open_set.aks <= 1
