"""The row cache, seen from inside: rows made twice at once, and which rows are evicted."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from openset.kernels import RBF
from openset.solver import kernel_rows
from openset.solver._matrix import KernelValues
from openset.solver._row_cache import RowCache
from openset.solver._rows import make_row


def test_a_row_made_by_two_solvers_at_once():
    X = np.random.default_rng(3).normal(size=(3000, 3))
    rows = kernel_rows(X, RBF(), 0.5, 1220 * 3000 * 4 / 2**20)
    assert len(rows.store.rows) == 1100  # the others are for a part
    nothing = np.empty(0, dtype=np.int64)
    with rows.maker() as first, rows.maker() as second:
        for maker in (first, second):
            rows.refill(maker, nothing)
            assert make_row(7, rows.store.rows, rows.store.slot, maker.points, maker.recent, 0)
    # Other rows fill the cache until the older copy has to go, just when row 7 is requested.
    for start in range(1000, 2080, 20):
        with rows.reading(np.arange(start, start + 20)):
            pass
    index = np.r_[7, 2100:2400]
    with rows.reading(index):
        assert np.all(rows.store.slot[index] >= 0)
        K = RBF().value(0.5 * cdist(X[index], X, "sqeuclidean"))
        assert_allclose(rows.store.rows[rows.store.slot[index]], K, atol=1e-6)


def test_rows_that_were_read_lately_stay():
    X = np.random.default_rng(3).normal(size=(400, 80))
    cache = RowCache(KernelValues(X, RBF(), np.array([0.01])), 200)
    sums = np.zeros(400)
    cache.subtract(sums, np.arange(100), np.ones(100))
    cache.subtract(sums, np.arange(100, 200), np.ones(100))
    cache.subtract(sums, np.arange(100), np.ones(100))  # read, not made again
    cache.subtract(sums, np.arange(200, 240), np.ones(40))
    slot = cache.store.slot
    assert np.all(slot[:100] >= 0)
    assert np.all(slot[200:240] >= 0)
    assert np.count_nonzero(slot[100:200] < 0) >= 40
