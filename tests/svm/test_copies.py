"""Copies of a row in one class are one row whose weight is the sum of theirs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris

from openset import (
    PISVM,
    DecisionBoundaryCarving,
    FixedBiasSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    OneVsRestSVC,
    OneVsSetMachine,
    OpenSetSVC,
)

MERGING = [
    OpenSetSVC(lam=0.1),
    OpenSetSVC(class_weight={0: 2.0, 1: 1.0, 2: 0.5}),
    OneVsRestSVC(C=4.0),
    FixedBiasSVC(),
    DecisionBoundaryCarving(),
    MulticlassOneClassSVM(nu=0.2),
    MulticlassSVDD(nu=0.2),
    OneVsSetMachine(),
]


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    _, first = np.unique(X, axis=0, return_index=True)  # iris has a copy of its own
    first = np.sort(first)
    rng = np.random.default_rng(0)
    times = rng.integers(1, 5, len(first))
    rows = rng.permutation(np.repeat(first, times))
    return X, y, first, times, rows


@pytest.mark.parametrize("model", MERGING, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_copies_are_weights(model, layout, data):
    X, y, first, times, rows = data
    model = model.set_params(tol=1e-6)
    copies = model.fit(layout(X[rows]), y[rows])
    scores, objective = copies.decision_function(X), copies.dual_objective_
    weighted = model.fit(layout(X[first]), y[first], sample_weight=times.astype(float))
    assert_allclose(scores, weighted.decision_function(X), atol=2e-4)
    assert_allclose(objective, weighted.dual_objective_, rtol=1e-5, atol=1e-6)


def test_support_names_the_first_copy(data):
    X, y, _, _, rows = data
    model = OpenSetSVC(C=1.0).fit(X[rows], y[rows])
    assert_array_equal(X[rows][model.support_], model.support_vectors_)
    for i in model.support_:
        assert not np.any(np.all(X[rows][:i] == X[rows][i], axis=1) & (y[rows][:i] == y[rows][i]))
    assert np.abs(model.dual_coef_).max() > 1.0  # the sum over copies


def test_copies_in_two_classes_stay_apart():
    X = np.array([[0.0], [0.0], [0.0], [3.0], [3.0]])
    model = OneVsRestSVC(gamma=1.0, tol=1e-6).fit(X, [0, 0, 1, 1, 1])
    assert_array_equal(model.support_, [0, 2, 3])


def test_a_method_that_counts_samples_counts_copies(data):
    X, y, _, _, rows = data
    tail = PISVM(tail_size=10).fit(X[rows], y[rows]).weibull_
    few = PISVM(tail_size=10).fit(X, y).weibull_
    assert not np.allclose(tail.scale, few.scale)
    assert PISVM().fit(X[rows], y[rows]).dual_coef_.max() <= 1.0 + 1e-9


def test_add_classes_after_copies(data):
    X, y, _, _, rows = data
    X, y = X[rows], y[rows]
    old = y < 2
    grown = OpenSetSVC(gamma=0.5, tol=1e-5).fit(X[old], y[old]).add_classes(X, y)
    whole = OpenSetSVC(gamma=0.5, tol=1e-5).fit(X, y)
    assert_allclose(grown.decision_function(X), whole.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("model", MERGING[:7], ids=lambda model: type(model).__name__)
def test_copies_in_a_search(model, data, monkeypatch):
    # Copies in the part that is fitted are weights; copies in the part that is judged are samples.
    X, y, _, _, rows = data
    X, y = X[rows], y[rows]
    rng = np.random.default_rng(1)
    fit = np.sort(rng.permutation(len(y))[: len(y) // 2])
    judged = np.setdiff1d(np.arange(len(y)), fit)
    model = model.set_params(tol=1e-6, gamma=0.5)
    n_rows, problem = [], type(model).problem

    def counted(self, signs, *args, **params):
        n_rows.extend(np.atleast_1d(np.count_nonzero(signs, axis=-1)))
        return problem(self, signs, *args, **params)

    monkeypatch.setattr(type(model), "problem", counted)
    splits = [(fit, judged, np.arange(3))]
    ((found,),) = model.grid_scores([{}], X, y, np.ones(len(y)), splits)
    distinct = np.unique(np.column_stack([X[fit], y[fit]]), axis=0)
    assert set(n_rows) == {len(distinct)}
    if getattr(model, "ensure_bounded", False):
        model.set_params(ensure_bounded=False)
    fitted = model.fit(X[fit], y[fit])
    assert_allclose(found.scores[0], fitted.decision_function(X[judged]), atol=2e-4)
