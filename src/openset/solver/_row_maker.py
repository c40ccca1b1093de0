"""Rows made inside the compiled loops: of narrow data under the RBF kernel, or of a part.

A row of narrow data, or one that is copied from a matrix at hand, costs tens of microseconds, no
more than the way to Python and back. So a solver is given a few empty slots of the shared cache in
advance and fills them as it goes; only when they are used up does it come back for more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ..kernels import exp_neg
from ._geometry import stretch_distances
from ._state import axpy, axpy4

# Slots handed out at a time, and how many the cache must have for that: what solvers hold in
# reserve cannot be evicted, and must never keep another from the rows it needs.
RESERVE = 16
ENOUGH = 64 * RESERVE
ENOUGH_FOR_ONE = 4 * RESERVE  # a cache that no other solver uses
# Values of a row that are taken from points to kernel while they are in the nearest cache.
_STRETCH = 512


class RowMaker(NamedTuple):
    """What a compiled loop needs to make a row: points, or a matrix to copy from, or neither.

    Attributes
    ----------
    Z, columns : ndarray
        The points and their transpose, see :class:`Geometry`; empty if there is no need of them.
    ratio : float32
        gamma in units of the width the points are scaled to.
    matrix : ndarray of shape (n, n), float32
        The whole kernel matrix of which this is a part, or empty.
    samples : ndarray of shape (m,), int64
        The rows of `matrix` that make up the part.
    owner : ndarray of shape (n_slots,), int64
        Sample whose row lies in a slot, -1 for none.
    reserve : ndarray of shape (RESERVE,), int64
        Slots that this solver may fill.
    left : ndarray of shape (1,), int64
        How many of them are left.
    """

    Z: np.ndarray
    columns: np.ndarray
    ratio: np.float32
    matrix: np.ndarray
    samples: np.ndarray
    owner: np.ndarray
    reserve: np.ndarray
    left: np.ndarray

    @property
    def makes(self) -> bool:
        """Whether it makes rows at all."""
        return self.Z.size > 0 or self.samples.size > 0


_NO_POINTS = (np.empty((0, 0), dtype=np.float32),) * 2 + (np.float32(1.0),)
_NO_MATRIX = (np.empty((0, 0), dtype=np.float32), np.empty(0, dtype=np.int64))


def no_maker(owner: np.ndarray) -> RowMaker:
    """A maker of nothing."""
    none = np.zeros(1, dtype=np.int64)
    return RowMaker(*_NO_POINTS, *_NO_MATRIX, owner, none, none)


def maker_of_points(Z, columns, ratio, owner: np.ndarray) -> RowMaker:
    """A maker of rows of narrow data, with nothing in reserve yet."""
    return RowMaker(Z, columns, ratio, *_NO_MATRIX, owner, *_nothing_yet())


def maker_of_part(matrix, samples, owner: np.ndarray) -> RowMaker:
    """A maker of rows that are parts of rows of `matrix`, with nothing in reserve yet."""
    return RowMaker(*_NO_POINTS, matrix, samples, owner, *_nothing_yet())


def _nothing_yet():
    return np.empty(RESERVE, dtype=np.int64), np.zeros(1, dtype=np.int64)


@njit(cache=True, nogil=True)
def _padded(Z, columns, i):
    z = np.zeros(columns.shape[0], dtype=Z.dtype)
    z[: Z.shape[1]] = Z[i]
    return z


@njit(cache=True, nogil=True)
def _make_stretch(z, columns, ratio, begin, stretch):
    """Kernel values of the point z with the points begin, begin + 1, ..."""
    stretch_distances(z, columns, begin, begin + stretch.size, stretch)
    if ratio != np.float32(1.0):
        for t in range(stretch.size):
            stretch[t] *= ratio
    exp_neg(stretch)


@njit(cache=True, nogil=True)
def _stretch_of(i, z, columns, ratio, begin, rows, slot, made):
    """A stretch of the row of sample i, at the point z: as it is at hand, or made."""
    if slot[i] >= 0:
        return rows[slot[i], begin : begin + made.size]
    _make_stretch(z, columns, ratio, begin, made)
    return made


@njit(cache=True, nogil=True)
def subtract_made_rows(v, coef, index, Z, columns, ratio, rows, slot):
    """v -= sum_k coef[k] * row(index[k]), in float64; rows not at hand are made and not kept.

    The sum is formed in the order of `index`, so that it is the same to the bit whatever other
    solvers have left in the cache.
    """
    points = np.zeros((index.size, columns.shape[0]), dtype=Z.dtype)
    for k in range(index.size):
        points[k, : Z.shape[1]] = Z[index[k]]
    made = np.empty((4, _STRETCH), dtype=np.float32)
    for begin in range(0, v.size, _STRETCH):
        target = v[begin : begin + _STRETCH]
        n = target.size
        k = 0
        while k + 4 <= index.size:
            axpy4(
                target,
                coef[k],
                _stretch_of(index[k], points[k], columns, ratio, begin, rows, slot, made[0, :n]),
                coef[k + 1],
                _stretch_of(
                    index[k + 1], points[k + 1], columns, ratio, begin, rows, slot, made[1, :n]
                ),
                coef[k + 2],
                _stretch_of(
                    index[k + 2], points[k + 2], columns, ratio, begin, rows, slot, made[2, :n]
                ),
                coef[k + 3],
                _stretch_of(
                    index[k + 3], points[k + 3], columns, ratio, begin, rows, slot, made[3, :n]
                ),
            )
            k += 4
        while k < index.size:
            row = _stretch_of(index[k], points[k], columns, ratio, begin, rows, slot, made[0, :n])
            axpy(target, coef[k], row)
            k += 1


@njit(cache=True, nogil=True)
def add_made_rows(sums, coef, index, Z, columns, ratio):
    """sums[c] += sum_k coef[c, k] * row(index[k]), in float64, at the points of `columns`.

    Each kernel value is made once, for all machines c whose multiplier is not zero.
    """
    made = np.empty(_STRETCH, dtype=np.float32)
    for begin in range(0, sums.shape[1], _STRETCH):
        end = min(sums.shape[1], begin + _STRETCH)
        for k in range(index.size):
            row = made[: end - begin]
            _make_stretch(_padded(Z, columns, index[k]), columns, ratio, begin, row)
            for c in range(coef.shape[0]):
                if coef[c, k] != 0.0:
                    axpy(sums[c, begin:end], -coef[c, k], row)


@njit(cache=True, nogil=True)
def take(row, samples, out):
    """Copy row[samples]."""
    for t in range(samples.size):
        out[t] = row[samples[t]]


@njit(cache=True, nogil=True)
def make_row(maker, i, rows, slot, used, clock):
    """Make the row of sample i in a reserved slot; False if there is none."""
    if maker.left[0] == 0:
        return False
    maker.left[0] -= 1
    s = maker.reserve[maker.left[0]]
    row = rows[s]
    if maker.samples.size > 0:
        take(maker.matrix[maker.samples[i]], maker.samples, row)
    else:
        z = _padded(maker.Z, maker.columns, i)
        for begin in range(0, row.size, _STRETCH):
            _make_stretch(z, maker.columns, maker.ratio, begin, row[begin : begin + _STRETCH])
    used[s] = clock
    maker.owner[s] = i
    # Last, because other threads may look at any time.
    slot[i] = s
    return True
