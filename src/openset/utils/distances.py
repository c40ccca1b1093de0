"""Distances between points: the one engine of the package.

Up to :data:`NARROW` features, squared distances are sums of squared differences: about as fast as a
matrix product, and exact for equal points. For more features they are expanded as
``|a|^2 + |b|^2 - 2 a.b``, one matrix product of centred points. The loops work in float32 or
float64; which is accurate enough is for the caller to decide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .compiled import njit

__all__ = [
    "BLOCK",
    "METRICS",
    "NARROW",
    "DistancesTo",
    "direct_distances",
    "expand_distances",
    "padded_columns",
    "point_distances",
    "row_blocks",
]

METRICS = ("cosine", "euclidean")

# Largest number of features for which direct differences are used.
NARROW = 64

# Distances per block: enough rows for a fast matrix product, and only 8 MB.
BLOCK = 2**20

_FAST = {"contract", "nnan", "nsz"}


def row_blocks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Slices of the rows start, ..., stop - 1 whose distances to `width` points form a block."""
    step = max(1, BLOCK // max(width, 1))
    return (slice(i, min(i + step, stop)) for i in range(start, stop, step))


class DistancesTo:
    """Distances in float64 from any points to the rows of B.

    Equal points have distance exactly 0: where distances are expanded, a square within rounding
    of zero is set to zero.

    Parameters
    ----------
    B : ndarray of shape (m, d), float64
    metric : {"euclidean", "cosine"}
        "cosine" is one minus the cosine of the angle; a row of zeros has distance 1 to all.
    """

    def __init__(self, B: np.ndarray, metric: str):
        self.n_points, n_features = B.shape
        self._rounding = n_features * np.finfo(np.float64).eps
        if metric == "cosine":
            self._B = _directions(B)
            self._block = self._cosine
        elif n_features <= NARROW:
            self._columns = padded_columns(B)
            self._block = self._narrow
        else:
            # The expansion loses digits in proportion to the norms: keep them small.
            self._mean = B.mean(axis=0)
            self._B = B - self._mean
            self._norms = np.einsum("ij,ij->i", self._B, self._B)
            self._block = self._wide

    def __call__(self, A: np.ndarray, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Distances from the rows of A to the rows start, ..., stop - 1 of B.

        Returns
        -------
        ndarray of shape (len(A), stop - start)
            inf where the square of a difference overflows; never NaN.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._block(A, start, self.n_points if stop is None else stop)

    def _narrow(self, A, start, stop):
        squares = np.empty((len(A), stop - start))
        direct_distances(np.ascontiguousarray(A), self._columns, np.arange(len(A)), start, squares)
        return np.sqrt(squares, out=squares)

    def _wide(self, A, start, stop):
        A = A - self._mean
        norms = np.einsum("ij,ij->i", A, A)
        squares = A @ self._B[start:stop].T
        expand_distances(squares, norms, self._norms[start:stop], self._rounding, squares)
        return np.sqrt(squares, out=squares)

    def _cosine(self, A, start, stop):
        distances = 1.0 - _directions(A) @ self._B[start:stop].T
        distances[distances <= self._rounding] = 0.0
        return distances


def _directions(X):
    """Rows scaled to norm 1; rows of zeros stay."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1.0)  # so that no square over- or underflows
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    return X / np.where(norms > 0, norms, 1.0)


def padded_columns(Z: np.ndarray) -> np.ndarray:
    """Z.T, padded with zeros to a multiple of four features, for the direct loops.

    The columns are contiguous because the loop over points is the one that is vectorised.
    """
    columns = np.zeros((-(-Z.shape[1] // 4) * 4, len(Z)), dtype=Z.dtype)
    columns[: Z.shape[1]] = Z.T
    return columns


@njit(cache=True, nogil=True, fastmath=_FAST)
def _add_four_squares(target, columns, point):
    """Add the squared differences of four features; both arguments are tuples of four."""
    c0, c1, c2, c3 = columns
    z0, z1, z2, z3 = point
    for t in range(target.size):
        d0 = c0[t] - z0
        d1 = c1[t] - z1
        d2 = c2[t] - z2
        d3 = c3[t] - z3
        target[t] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3


@njit(cache=True, nogil=True)
def point_distances(z, columns, begin, target):
    """Squared distances from one padded point z to the points begin, begin + 1, ... of columns."""
    end = begin + target.size
    target[:] = 0.0
    for f in range(0, columns.shape[0], 4):
        _add_four_squares(
            target,
            (
                columns[f, begin:end],
                columns[f + 1, begin:end],
                columns[f + 2, begin:end],
                columns[f + 3, begin:end],
            ),
            (z[f], z[f + 1], z[f + 2], z[f + 3]),
        )


@njit(cache=True, nogil=True)
def direct_distances(Z, columns, index, start, out):
    """Squared distances from the rows `index` of Z to the points start, start + 1, ... of columns.

    `out` has shape (len(index), n); its width says how many points there are.
    """
    # A range of all columns stays in the cache while every row passes over it.
    width = max(64, 8192 // columns.shape[0] // 16 * 16)
    z = np.zeros((index.size, columns.shape[0]), dtype=Z.dtype)
    for k in range(index.size):
        z[k, : Z.shape[1]] = Z[index[k]]
    for begin in range(0, out.shape[1], width):
        for k in range(index.size):
            point_distances(z[k], columns, start + begin, out[k, begin : begin + width])


@njit(cache=True, nogil=True, fastmath=_FAST)
def expand_distances(dots, norms_i, norms_j, rounding, out):
    """out[k, t] = norms_i[k] + norms_j[t] - 2 dots[k, t], formed in float64.

    What is at most `rounding` times the sum of the norms becomes 0; where that sum overflows, the
    distance is inf.
    """
    for k in range(out.shape[0]):
        n = norms_i[k]
        row = dots[k]
        target = out[k]
        for t in range(target.size):
            norms = n + norms_j[t]
            s = norms - 2.0 * row[t]
            s = s if s > rounding * norms else 0.0
            target[t] = np.inf if norms == np.inf else s
