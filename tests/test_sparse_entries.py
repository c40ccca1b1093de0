"""Sparse input with repeated, unsorted or zero entries is what its dense form is, everywhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.svm import SVC

from openset import OpenSetSVC, all_estimators, group_unknowns
from openset.calibration import calibrate
from openset.model_selection import OpenSetSearchCV
from openset.svm import lambda_path
from openset.wrappers import ThresholdRejector


def messy(dense, rng, form=sparse.csr_array):
    """The matrix with every entry in several parts, in random order, and some zeros."""
    n, d = dense.shape
    rows = np.repeat(np.arange(n, dtype=np.int32), 4 * d)
    columns = np.tile(np.repeat(np.arange(d, dtype=np.int32), 4), n)
    parts = rng.normal(size=(n * d, 3))
    values = np.column_stack([parts, dense.ravel() - parts.sum(axis=1)]).ravel()
    order = np.lexsort((rng.random(len(rows)), rows))
    starts = np.arange(n + 1, dtype=np.int32) * 4 * d
    X = sparse.csr_array((values[order], columns[order], starts), shape=(n, d))
    if form is sparse.csc_array:
        order = np.lexsort((rng.random(len(rows)), columns))
        starts = np.arange(d + 1, dtype=np.int32) * 4 * n
        return form((values[order], rows[order], starts), shape=(n, d))
    return form(X)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(4)
    y = np.arange(90) % 5
    X = rng.normal(size=(90, 6)) + 4 * rng.normal(size=(5, 6))[y]
    X[:, 4] = 0.0
    return X, y


SPARSE = [cls for _, cls in all_estimators() if cls.__module__.split(".")[1] == "svm"]
SPARSE += [cls for name, cls in all_estimators() if name in ("WSVM", "PISVM")]


@pytest.mark.parametrize("cls", SPARSE, ids=lambda cls: cls.__name__)
def test_every_estimator(data, cls):
    X, y = data
    dense, rng = X[y < 3], np.random.default_rng(0)
    given = messy(dense, rng)
    before = given.copy()
    tight = {"tol": 1e-8} if "tol" in cls().get_params() else {}
    try:
        model = cls(**tight).fit(given, y[y < 3])
    except TypeError as error:
        assert "parse" in str(error)
        return
    expected = cls(**tight).fit(dense, y[y < 3]).decision_function(X)
    assert_allclose(model.decision_function(messy(X, rng)), expected, rtol=1e-4, atol=1e-4)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(given, name), getattr(before, name))


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_array])
def test_functions(data, form):
    X, y = data
    rng = np.random.default_rng(1)
    known = y < 3
    made = messy(X, rng, form)
    model = OpenSetSVC(gamma=0.05, tol=1e-6).fit(X[known], y[known])
    found, expected = (calibrate(model, Z, y, alpha=0.2).thresholds_ for Z in (made, X))
    assert_allclose(found, expected, atol=1e-5)
    assert_array_equal(group_unknowns(model, made).labels, group_unknowns(model, X).labels)
    paths = [
        lambda_path(Z, y[known], X_validation=V, tol=1e-6)
        for Z, V in ((messy(X[known], rng, form), made), (X[known], X))
    ]
    assert_allclose(paths[0].scores, paths[1].scores, atol=1e-4)
    fitted = [
        OpenSetSVC(gamma=0.05, tol=1e-6, landmarks=L).fit(X[known], y[known])
        for L in (sparse.csr_array(made)[:30], X[:30])
    ]
    assert_allclose(fitted[0].decision_function(X), fitted[1].decision_function(X), atol=1e-4)
    wrapped = ThresholdRejector(SVC()).fit(messy(X[known], rng, form), y[known])
    expected = ThresholdRejector(SVC()).fit(X[known], y[known]).decision_function(X)
    assert_allclose(wrapped.decision_function(made), expected, atol=1e-6)
    searches = [
        OpenSetSearchCV(OpenSetSVC(), n_repeats=1, random_state=0).fit(Z, y[known])
        for Z in (messy(X[known], rng, form), X[known])
    ]
    gammas = [search.best_params_["gamma"] for search in searches]
    assert gammas[0] == pytest.approx(gammas[1], rel=1e-9)


def test_flags_that_are_out_of_date(data):
    X, y = data
    made = sparse.csr_array(X)
    assert made.has_canonical_format
    rng = np.random.default_rng(2)
    for start, stop in zip(made.indptr[:-1], made.indptr[1:], strict=True):
        order = start + rng.permutation(stop - start)
        made.indices[start:stop], made.data[start:stop] = made.indices[order], made.data[order]
    expected = OpenSetSVC(tol=1e-6).fit(X, y).decision_function(X)
    assert_allclose(OpenSetSVC(tol=1e-6).fit(made, y).decision_function(made), expected, atol=1e-4)


@pytest.mark.parametrize("column", [-1, 6, 10**8])
def test_a_column_out_of_range_is_refused(data, column):
    X, y = data
    made = sparse.csr_array(X)
    made.indices[7] = column
    with pytest.raises(ValueError, match="ind"):
        OpenSetSVC().fit(made, y)
    with pytest.raises(ValueError, match="ind"):
        OpenSetSVC().fit(X, y).predict(made)


def test_masked_entries_are_refused(data):
    X, y = data
    hidden = np.ma.masked_array(X, mask=np.eye(90, 6, dtype=bool))
    with pytest.raises(ValueError, match="X has 6 masked"):
        OpenSetSVC().fit(hidden, y)
    model = OpenSetSVC().fit(np.ma.masked_array(X), y)  # nothing is masked
    with pytest.raises(ValueError, match="X has 6 masked"):
        model.predict(hidden)
    for name in ("y", "sample_weight"):
        arguments = {"y": y, "sample_weight": np.ones(90)}
        arguments[name] = np.ma.masked_equal(arguments[name], 1)
        with pytest.raises(ValueError, match=f"{name} has .* masked"):
            OpenSetSVC().fit(X, **arguments)
