"""The Extreme Value Machine in small blocks of distances."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_iris
from sklearn.preprocessing import MinMaxScaler

from openset.evt import ExtremeValueMachine
from openset.utils import distances as distances_module


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return MinMaxScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


def test_blocks_and_threads_change_nothing(iris, monkeypatch):
    X, y = iris
    expected = ExtremeValueMachine(tail_size=10).fit(X, y).inclusion_proba(X)
    threaded = ExtremeValueMachine(tail_size=10, n_jobs=2).fit(X, y).inclusion_proba(X)
    assert_array_equal(threaded, expected)
    monkeypatch.setattr(distances_module, "_BLOCK", 500)
    blocks = ExtremeValueMachine(tail_size=10, n_jobs=2).fit(X, y).inclusion_proba(X)
    assert_array_equal(blocks, expected)
