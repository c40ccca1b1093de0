"""Open-set nearest neighbours in small blocks of distances."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris

from openset.neighbors import OSNN
from openset.utils import distances as distances_module


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    distinct = np.sort(np.unique(X, axis=0, return_index=True)[1])
    X, y = X[distinct], y[distinct]
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, size=(200, 4))
    return X, y, Z


def test_blocks_and_threads_change_nothing(data, monkeypatch):
    X, y, Z = data
    expected = OSNN().fit(X, y).decision_function(Z)
    monkeypatch.setattr(distances_module, "_BLOCK", 500)
    blocks = OSNN(n_jobs=2).fit(X, y).decision_function(Z)
    assert_array_equal(blocks, expected)
