"""Distances to the k-th nearest sample of each class, exact, on all cores or on a GPU.

With many features the distances are expanded into a matrix product in single precision. It only
chooses candidates: all samples that could be among the k nearest, given a bound of its rounding
error. Their distances are then computed in double precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ..solver.cuda import on_gpu
from ..utils import thread_map
from ..utils.compiled import njit
from ..utils.distances import NARROW, DistancesTo

# Samples of small classes are multiplied together until there are as many.
_COLUMNS = 4096
# Distances per block on the CPU and on the GPU.
_BLOCK = 2**21
_GPU_BLOCK = 2**27

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
        self._B, self._starts, self._n_jobs = B, starts, n_jobs
        self._block = self._gpu if on_gpu(device) else self._wide
        self._size = _GPU_BLOCK if on_gpu(device) else _BLOCK
        if not on_gpu(device) and B.shape[1] <= NARROW:
            self._block, self._to = self._narrow, DistancesTo(B, "euclidean")
            return
        # Centred, and scaled so that single precision neither over- nor underflows.
        self._center = B.mean(axis=0)
        centred = B - self._center
        self._scale = max(np.abs(centred).max(), np.finfo(np.float64).tiny)
        centred /= self._scale
        self._norms = np.einsum("ij,ij->i", centred, centred)
        self._largest = np.sqrt(self._norms.max())
        if on_gpu(device):
            from ..solver.cuda.grid import array_module

            self._xp = array_module()
            self._points = self._xp.asarray(centred), self._xp.asarray(self._norms)
            self._n_jobs = 1
        else:
            self._single = centred.astype(np.float32)
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
                for lo, hi in groups:
                    self._block(A[rows], k, lo, hi, out[rows, lo - first : hi - first])

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

    def _wide(self, A, k, lo, hi, out):
        starts = self._starts[lo : hi + 1]
        rows = slice(starts[0], starts[-1])
        Z = (A - self._center) / self._scale
        lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        # Bound of the error of |b|^2 / 2 - a.b in single precision, whatever the order of the sum.
        slack = 2 * (Z.shape[1] + 8) * _UNIT * (lengths + self._largest) * self._largest
        slack[lengths > 1e15] = np.inf  # squares could overflow: all samples are candidates
        dots = np.where(lengths[:, None] > 1e15, 0.0, Z).astype(np.float32) @ self._single[rows].T
        _kth_distances(
            dots, self._half_norms[rows], slack, k, starts - starts[0], (A, self._B[rows]), out
        )

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
            out[:, c - lo] = nearest if xp is np else nearest.get()


@njit(cache=True, nogil=True)
def _insert(smallest, value):
    """Insert a value into an ascending array of fixed length; the largest falls out."""
    j = smallest.size - 1
    while j > 0 and smallest[j - 1] > value:
        smallest[j] = smallest[j - 1]
        j -= 1
    smallest[j] = value


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"})
def _square(a, b):
    total = 0.0
    for f in range(a.size):
        difference = a[f] - b[f]
        total += difference * difference
    return total


@njit(cache=True, nogil=True)
def _kth_distances(dots, half_norms, slack, k, starts, points, out):
    """out[i, c]: distance from A[i] to the k-th nearest of the rows of class c of B.

    ``points`` is (A, B); ``dots`` are their products in single precision.
    """
    A, B = points
    for i in range(dots.shape[0]):
        for c in range(starts.size - 1):
            begin, end = starts[c], starts[c + 1]
            k_c = min(k, end - begin)
            smallest = np.full(k_c, np.inf)
            for j in range(begin, end):
                value = half_norms[j] - dots[i, j]
                if value < smallest[-1]:
                    _insert(smallest, np.float64(value))
            limit = smallest[-1] + 2.0 * slack[i]
            smallest[:] = np.inf
            for j in range(begin, end):
                if half_norms[j] - dots[i, j] <= limit:
                    square = _square(A[i], B[j])
                    if square < smallest[-1]:
                        _insert(smallest, square)
            out[i, c] = np.sqrt(smallest[-1])
