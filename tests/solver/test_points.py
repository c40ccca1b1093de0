"""Distances in blocks against SciPy, and where floating point is hard."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from openset.solver import points as engine
from openset.solver.points import DistancesTo, row_blocks


@pytest.mark.parametrize("features", [1, 3, 64, 65, 300])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_against_scipy(features, metric):
    rng = np.random.default_rng(features)
    A, B = rng.normal(3, 1, size=(20, features)), rng.normal(3, 1, size=(1500, features))
    expected = cdist(A, B, metric)
    distances = DistancesTo(B, metric)
    assert_allclose(distances(A), expected, rtol=1e-9, atol=1e-12)
    assert_allclose(distances(A, 7, 1100), expected[:, 7:1100], rtol=1e-9, atol=1e-12)
    assert distances(A, 4, 4).shape == (20, 0)


@pytest.mark.parametrize("features", [3, 200])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_equal_points_have_distance_zero(features, metric, offset):
    X = np.random.default_rng(0).normal(size=(300, features)) + offset
    d = DistancesTo(X, metric)(X)
    assert_array_equal(d.diagonal(), 0.0)
    assert np.all(d >= 0)


@pytest.mark.parametrize("features", [3, 200])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_huge_points_give_no_nan(features, metric):
    B = np.random.default_rng(0).normal(size=(5, features))
    A = np.vstack([1e200 * B, -1e300 * B, 1e-200 * B, 0 * B])
    d = DistancesTo(B, metric)(A)
    assert not np.isnan(d).any()
    if metric == "cosine":
        assert_allclose(d[:5], DistancesTo(B, metric)(B), atol=1e-12)
        assert_array_equal(d[15:], 1.0)
    else:
        assert np.all(d[:10] > 1e100)


@pytest.mark.parametrize(("start", "stop", "width"), [(0, 10, 3), (5, 5000, 2**10), (0, 3, 2**30)])
def test_blocks_partition_the_rows(start, stop, width):
    blocks = list(row_blocks(start, stop, width))
    rows = np.concatenate([np.arange(stop)[block] for block in blocks])
    assert_array_equal(rows, np.arange(start, stop))
    assert max(b.stop - b.start for b in blocks) * width <= max(engine.BLOCK, width)
