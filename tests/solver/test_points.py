"""Squared distances in every layout: error bounds, bits, and where floating point is hard."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from openset.kernels import RBF, InverseMultiquadric, RationalQuadratic, TStudent
from openset.solver import points as engine
from openset.solver.points import DistancesTo, Points, left_factor, right_factor, row_blocks


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


# --- one object for all layouts: its error bounds -------------------------------------------------

KERNELS = [RBF(), TStudent(1.0), RationalQuadratic(0.1), InverseMultiquadric(0.3)]


def clusters(d, seed=0, offset=0.0):
    """Pairs of close points in clusters that lie far apart."""
    rng = np.random.default_rng(seed)
    X = 30 * rng.normal(size=(20, d)).repeat(6, axis=0) / np.sqrt(d)
    X += 10.0 ** rng.uniform(-6, 0, size=(120, 1)) * rng.normal(size=(120, d)) / np.sqrt(d)
    X[60:70] = X[:10]
    return X + offset


def true_squares(A, B, scale=1.0):
    difference = A[:, None].astype(np.longdouble) - B[None].astype(np.longdouble)
    return (difference**2).sum(axis=2) * np.longdouble(scale) ** 2


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("d", [3, 64, 65, 200])
def test_exact_squares_have_small_relative_errors(d, layout, offset):
    X, scale = clusters(d, offset=offset), 0.7
    points = Points(layout(X), scale)
    A = np.vstack([X[::7], clusters(d, 1, offset)[::5]])
    squares = np.empty((len(A), 100))
    points.squares(points.queries(layout(A)), 13, squares)
    expected = true_squares(A, X[13:113], scale)
    # Differences of float64 coordinates at the offset are exact; products are recomputed there.
    assert_allclose(squares, expected.astype(float), rtol=2e-11)
    assert np.all(squares[expected == 0] == 0)


@pytest.mark.parametrize("one_width", [True, False])
@pytest.mark.parametrize("gamma", [1e-3, 0.1, 1.0, 100.0])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("d", [3, 80])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_kernel_values_keep_the_error_bound(kernel, d, layout, gamma, one_width):
    X = clusters(d)
    points = Points(layout(X), np.sqrt(gamma), kernel, one_width)
    A = np.vstack([X[::3], clusters(d, 1)[::5]])
    limit = 1e-6 if points.narrow else 5e-6
    for ratio in (1.0,) if one_width else (1.0, 0.03):
        values = np.empty((len(A), 120), dtype=np.float32)
        points.kernel_values(kernel, ratio, points.queries(layout(A)), 0, values)
        s = (true_squares(A, X) * gamma * ratio).astype(float)
        assert np.abs(values - kernel.value(s)).max() <= limit + 3e-7


@pytest.mark.parametrize("kernel", [None, RBF()])
@pytest.mark.parametrize("spread", [0.1, 30.0])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("d", [5, 70])
def test_no_bit_depends_on_the_company(d, layout, spread, kernel):
    rng = np.random.default_rng(d)
    X = layout(spread * clusters(d) / 30)
    points = Points(X, 1.0, kernel)
    everything = np.empty((120, 120))
    points.squares(points.own(np.arange(120)), 0, everything)
    assert_array_equal(everything.diagonal(), 0.0)
    assert_array_equal(everything, everything.T)
    for _ in range(10):
        i = rng.permutation(120)[: rng.integers(1, 120)]
        start = int(rng.integers(0, 100))
        some = np.empty((len(i), 120 - start))
        points.squares(points.own(i), start, some)
        assert_array_equal(some, everything[i, start:])
        points.squares(points.queries(X[i]), start, some)
        other = i[:, None] != np.arange(start, 120)
        assert_array_equal(some[other], everything[i, start:][other])
        part = points.subset(i)
        some = np.empty((len(i), len(i)))
        part.squares(part.own(np.arange(len(i))), 0, some)
        assert_array_equal(some, everything[np.ix_(i, i)])


def test_factors_give_squares():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(7, 9)), rng.normal(size=(5, 9))
    assert_allclose(left_factor(A) @ right_factor(B).T, cdist(A, B, "sqeuclidean"), atol=1e-12)
    radius = rng.random(5)
    beyond = left_factor(A) @ right_factor(B, less=radius**2).T
    assert_array_equal(beyond > 0, cdist(A, B) > radius)
