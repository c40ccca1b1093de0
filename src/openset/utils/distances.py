"""Distances to a set of reference points in float64, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit

METRICS = ("cosine", "euclidean")

# Numbers in a block of distances: enough rows for a fast matrix product, and only 8 MB.
_BLOCK = 2**20

# Up to this many features direct differences are about as fast as a matrix product, and exact.
_NARROW = 64


def row_blocks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Slices of the rows start, ..., stop - 1 whose distances to `width` points form a block."""
    step = max(1, _BLOCK // max(width, 1))
    return (slice(i, min(i + step, stop)) for i in range(start, stop, step))


class DistancesTo:
    """Distances from any points to the rows of B.

    Equal points have distance exactly 0: by direct differences if there are few features, else by
    a matrix product in which what rounding leaves of a zero is removed.

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
        elif n_features <= _NARROW:
            self._columns = np.ascontiguousarray(B.T)
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
        squares = np.zeros((len(A), stop - start))
        _add_squares(np.ascontiguousarray(A), self._columns, start, stop, squares)
        return np.sqrt(squares, out=squares)

    def _wide(self, A, start, stop):
        A = A - self._mean
        norms = np.einsum("ij,ij->i", A, A)[:, None] + self._norms[start:stop]
        squares = A @ self._B[start:stop].T
        squares *= -2.0
        squares += norms
        squares[squares <= self._rounding * norms] = 0.0
        squares[np.isinf(norms)] = np.inf
        return np.sqrt(squares, out=squares)

    def _cosine(self, A, start, stop):
        distances = 1.0 - _directions(A) @ self._B[start:stop].T
        distances[distances <= self._rounding] = 0.0
        return distances


def _directions(X):
    """Rows of norm 1; rows of zeros stay."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1.0)  # so that no square over- or underflows
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    return X / np.where(norms > 0, norms, 1.0)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_squares(A, columns, start, stop, squares):
    width = 1024  # one stretch of the output stays in the first-level cache
    for begin in range(start, stop, width):
        end = min(stop, begin + width)
        for i in range(A.shape[0]):
            target = squares[i, begin - start : end - start]
            for f in range(A.shape[1]):
                a = A[i, f]
                column = columns[f, begin:end]
                for t in range(target.size):
                    difference = column[t] - a
                    target[t] += difference * difference
