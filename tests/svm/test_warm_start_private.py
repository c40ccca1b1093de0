"""The warm start of ``add_classes``: how old samples are found, and its limits of memory."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits

from openset import OpenSetSVC
from openset.base.machines import row_keys
from openset.svm import _warm_start
from openset.svm._warm_start import locate


@pytest.mark.parametrize("small", [4096, 0], ids=["whole matrix", "rows on demand"])
@pytest.mark.parametrize("held", [2**25, 1000], ids=["sums at once", "sums class by class"])
def test_equals_refit_however_rows_are_made(monkeypatch, small, held):
    monkeypatch.setattr(_warm_start, "_SMALL", small)
    monkeypatch.setattr(_warm_start, "_HELD", held)
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:700]
    X, y = np.tile(X[rows] / 16.0, (4, 1)), np.tile(y[rows], 4)  # too many for a whole matrix
    X += np.random.default_rng(0).normal(scale=0.05, size=X.shape)
    old = y < 9
    model = OpenSetSVC(gamma=0.1).fit(X[old], y[old]).add_classes(X, y)
    refitted = OpenSetSVC(gamma=0.1).fit(X, y)
    difference = model.decision_function(X[:300]) - refitted.decision_function(X[:300])
    assert np.abs(difference).max() <= 1e-2
    np.testing.assert_allclose(model.dual_objective_, refitted.dual_objective_, rtol=1e-4)
    assert np.all(model.kkt_gap_ <= 1e-3)


def test_locate_gives_equal_rows_different_places():
    X = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    keys = row_keys(X)
    np.testing.assert_array_equal(locate(keys[[3, 2, 0]], keys), [3, 0, 2])
    np.testing.assert_array_equal(locate(row_keys(np.array([[5.0, 5.0], [2.0, 0]])), keys), [-1, 1])
    np.testing.assert_array_equal(locate(keys[[0, 0, 0]], keys), [0, 2, -1])
    assert locate(keys[:0], keys).size == locate(keys, keys[:0])[:0].size == 0


def test_keys_tell_rows_apart():
    # Small whole numbers: the last bits of their mantissas are all zero.
    X = np.random.default_rng(0).integers(-2, 3, size=(100_000, 7)).astype(float)
    X = np.unique(X, axis=0)
    keys = row_keys(X)
    assert len(np.unique(keys)) == len(X)
    np.testing.assert_array_equal(row_keys(np.where(X == 0, -0.0, X)), keys)
    np.testing.assert_array_equal(row_keys(sparse.csr_array(X)), keys)
    zero = sparse.csr_array(([3.0, 0.0], ([0, 0], [1, 0])), shape=(1, 2))  # a zero that is stored
    np.testing.assert_array_equal(row_keys(zero), row_keys(np.array([[0.0, 3.0]])))
