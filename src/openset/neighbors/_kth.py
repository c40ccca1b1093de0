"""Distances to the k-th nearest sample of each class, exact, on all cores or on a GPU.

With many features a matrix product in single precision gives lower bounds of the distances. They
only choose candidates: all samples that could be among the k nearest, given a bound of the rounding
error. Their distances are then computed in double precision.

The product takes all features, or few directions that hold most of the variance, where there are
such. With x = (u, v), u the part in these directions, a.b <= a_u.b_u + |a_v| |b_v|: the norm of the
rest is one more column of the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np

from ..solver.cuda import array_module, on_gpu, to_host
from ..solver.points import NARROW, DistancesTo
from ..utils import thread_map
from ..utils.compiled import njit

# Small classes are multiplied together, up to about this many samples.
_COLUMNS = 4096
# Distances per block on the CPU and on the GPU.
_BLOCK = 2**21
_GPU_BLOCK = 2**27

# The product takes the directions that hold the share _VARIANCE of the variance if they are at most
# the share _DIRECTIONS of the features. They are found from _SAMPLES samples.
_VARIANCE = 0.97
_DIRECTIONS = 1 / 3
_SAMPLES = 4096
# Number of bounds that are compared with the limit at once.
_CHUNK = 64

_UNIT = np.finfo(np.float32).eps / 2


class KthDistances:
    """Distances from any points to the k-th nearest row of each class; the last if it has fewer.

    Parameters
    ----------
    B : ndarray of shape (m, d), float64
        Rows sorted by class.
    starts : ndarray of shape (K + 1,)
        The rows of class c are starts[c], ..., starts[c + 1] - 1.
    n_jobs : int or None
        Number of threads.
    device : {"cpu", "cuda", "auto"}
    """

    def __init__(self, B: np.ndarray, starts: np.ndarray, n_jobs: int | None, device: str):
        self._B, self._starts, self._n_jobs, self._size = B, starts, n_jobs, _BLOCK
        self._prepare: Callable = np.asarray
        gpu = on_gpu(device)
        if not gpu and B.shape[1] <= NARROW:
            self._block, self._to = self._narrow, DistancesTo(B, "euclidean")
            return
        # Centred, and scaled so that single precision neither over- nor underflows.
        self._center = B.mean(axis=0)
        centred = B - self._center
        self._scale = max(np.abs(centred).max(), np.finfo(np.float64).tiny)
        centred /= self._scale
        self._norms = np.einsum("ij,ij->i", centred, centred)
        self._largest = np.sqrt(self._norms.max())
        if gpu:
            self._xp = array_module()
            self._points = self._xp.asarray(centred), self._xp.asarray(self._norms)
            self._block, self._size, self._n_jobs = self._gpu, _GPU_BLOCK, 1
        else:
            self._block, self._prepare = self._wide, self._queries
            self._basis = _main_directions(centred)
            self._single = self._columns(centred, self._norms)
            self._half_norms = (self._norms / 2).astype(np.float32)

    def __call__(self, A: np.ndarray, k: int) -> np.ndarray:
        """Distances to all classes, (len(A), K); inf where a square overflows."""
        return self._between(A, k, 0, len(self._starts) - 1)

    def within(self, k: int) -> np.ndarray:
        """Distance from each row of B to the k-th nearest other row of its class.

        NaN for the row of a class that has no other.
        """
        result = np.full(len(self._B), np.nan)
        for c, (start, stop) in enumerate(pairwise(self._starts)):
            if stop - start > 1:  # the row itself is among the nearest, at distance 0
                own = self._between(self._B[start:stop], k + 1, c, c + 1)
                result[start:stop] = own[:, 0]
        return result

    def _between(self, A, k, first, last):
        out = np.empty((len(A), last - first))
        groups = list(self._groups(first, last))
        width = max(self._starts[hi] - self._starts[lo] for lo, hi in groups)
        step = int(max(16, self._size // max(width, 1)))

        def fill(start):
            rows = slice(start, start + step)
            with np.errstate(over="ignore", invalid="ignore"):
                queries = self._prepare(A[rows])
                for lo, hi in groups:
                    self._block(queries, k, lo, hi, out[rows, lo - first : hi - first])

        for _ in thread_map(fill, range(0, len(A), step), self._n_jobs):
            pass
        return out

    def _groups(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Ranges of classes that have about _COLUMNS rows together."""
        while first < last:
            stop = np.searchsorted(self._starts, self._starts[first] + _COLUMNS, side="right") - 1
            stop = int(min(max(stop, first + 1), last))
            yield first, stop
            first = stop

    def _narrow(self, A, k, lo, hi, out):
        starts = self._starts
        distances = self._to(A, starts[lo], starts[hi])
        for c in range(lo, hi):
            own = distances[:, starts[c] - starts[lo] : starts[c + 1] - starts[lo]]
            last = min(k, own.shape[1]) - 1
            out[:, c - lo] = np.partition(own, last, axis=1)[:, last]

    def _columns(self, Z, norms):
        """The factors of the product, in single precision; `norms` are the squared ones of Z."""
        if self._basis is None:
            return Z.astype(np.float32)
        main = Z @ self._basis
        rest = np.sqrt(np.maximum(0.0, norms - np.einsum("ij,ij->i", main, main)))
        return np.column_stack([main, rest]).astype(np.float32)

    def _queries(self, A):
        """A, the factors of the product, a bound of its error, and half of the squared norms."""
        Z = (A - self._center) / self._scale
        norms = np.einsum("ij,ij->i", Z, Z)
        huge = norms > 1e30  # squares could overflow in single precision
        Z[huge] = 0.0
        columns = self._columns(Z, np.where(huge, 0.0, norms))
        # Bound of the error of |b|^2 / 2 - a.b in single precision, whatever the order of the sum.
        lengths = np.sqrt(norms) + self._largest
        slack = 2 * (columns.shape[1] + 8) * _UNIT * lengths * self._largest
        slack[huge] = np.inf  # all samples are candidates
        return A, columns, slack, norms / 2

    def _wide(self, queries, k, lo, hi, out):
        A, columns, slack, half_lengths = queries
        starts = self._starts[lo : hi + 1]
        rows = slice(starts[0], starts[-1])
        products = columns @ self._single[rows].T, self._half_norms[rows], slack, half_lengths
        _kth_distances(products, k, starts - starts[0], (A, self._B[rows]), self._scale, out)

    def _gpu(self, A, k, lo, hi, out):
        xp, starts = self._xp, self._starts
        points, norms = (part[starts[lo] : starts[hi]] for part in self._points)
        Z = xp.clip((xp.asarray(A) - xp.asarray(self._center)) / self._scale, -1e150, 1e150)
        own_norms = xp.einsum("ij,ij->i", Z, Z)[:, None]
        squares = own_norms + norms - 2.0 * (Z @ points.T)
        rounding = Z.shape[1] * np.finfo(np.float64).eps
        squares[squares <= rounding * (own_norms + norms)] = 0.0
        for c in range(lo, hi):
            own = squares[:, starts[c] - starts[lo] : starts[c + 1] - starts[lo]]
            last = min(k, own.shape[1]) - 1
            nearest = xp.sqrt(xp.partition(own, last, axis=1)[:, last]) * self._scale
            out[:, c - lo] = to_host(nearest)


@njit(cache=True, nogil=True)
def _insert(smallest, value, rows, row):
    """Insert a value and its row into ascending arrays of fixed length; the largest falls out."""
    j = smallest.size - 1
    while j > 0 and smallest[j - 1] > value:
        smallest[j], rows[j] = smallest[j - 1], rows[j - 1]
        j -= 1
    smallest[j], rows[j] = value, row


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _square(a, b):
    total = 0.0
    for f in range(a.size):
        difference = a[f] - b[f]
        total += difference * difference
    return total


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _lowest(half_norms, dots):
    """The smallest bound of a chunk."""
    lowest = np.float32(np.inf)
    for j in range(dots.size):
        lowest = min(lowest, half_norms[j] - dots[j])
    return lowest


@njit(cache=True, nogil=True)
def _kth_distances(products, k, starts, points, scale, out):
    """out[i, c]: distance from A[i] to the k-th nearest of the rows of class c of B.

    ``points`` is (A, B). ``products`` are (dots, half_norms, slack, half_lengths):
    half_norms[j] - dots[i, j] - slack[i] is at most half of the squared distance between A[i] and
    B[j], in units of the scale, minus half_lengths[i].
    """
    A, B = points
    dots, half_norms, slack, half_lengths = products
    lowest = np.empty(np.diff(starts).max() // _CHUNK + 1, np.float32)
    for i in range(len(A)):
        for c in range(starts.size - 1):
            begin, end = starts[c], starts[c + 1]
            bounds = np.full(min(k, end - begin), np.inf)
            nearest = np.full(bounds.size, -1)
            for chunk, first in enumerate(range(begin, end, _CHUNK)):
                last = min(first + _CHUNK, end)
                lowest[chunk] = _lowest(half_norms[first:last], dots[i, first:last])
                if lowest[chunk] < bounds[-1]:
                    for j in range(first, last):
                        bound = half_norms[j] - dots[i, j]
                        if bound < bounds[-1]:
                            _insert(bounds, np.float64(bound), nearest, j)
            limit = np.inf
            if slack[i] < np.inf:  # the k-th nearest is no farther than any k samples are
                farthest = 0.0
                for j in nearest:
                    farthest = max(farthest, _square(A[i], B[j]))
                limit = farthest / scale / scale / 2 - half_lengths[i] + slack[i]
            squares = np.full(bounds.size, np.inf)
            for chunk, first in enumerate(range(begin, end, _CHUNK)):
                if not lowest[chunk] > limit:
                    for j in range(first, min(first + _CHUNK, end)):
                        if not half_norms[j] - dots[i, j] > limit:
                            square = _square(A[i], B[j])
                            if square < squares[-1]:
                                _insert(squares, square, nearest, j)
                                new = squares[-1] / scale / scale / 2 - half_lengths[i] + slack[i]
                                limit = min(limit, new)
            out[i, c] = np.sqrt(squares[-1])


def _main_directions(centred):
    """Few orthonormal directions (d, p) that hold most of the variance; None if there are none."""
    m, d = centred.shape
    if m < 8 * d:  # finding them would take as long as the products
        return None
    some = centred[:: -(-m // _SAMPLES)]
    variance, directions = np.linalg.eigh(some.T @ some)
    total = np.cumsum(variance[::-1])
    p = int(np.searchsorted(total, _VARIANCE * total[-1])) + 1
    return directions[:, ::-1][:, :p].copy() if p <= _DIRECTIONS * d else None
