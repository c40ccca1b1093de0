"""Rows of narrow data under the RBF kernel, made inside the compiled loops.

Such a row costs tens of microseconds, no more than the way to Python and back. So a solver is
given a few empty slots of the shared cache in advance and fills them as it goes; only when they
are used up does it come back for more.
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
# Values of a row that are taken from points to kernel while they are in the nearest cache.
_STRETCH = 512


class RowMaker(NamedTuple):
    """What a compiled loop needs to make a row.

    Attributes
    ----------
    Z, columns : ndarray
        The points and their transpose, see :class:`Geometry`; empty if rows are made in Python.
    ratio : float32
        gamma in units of the width the points are scaled to.
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
    owner: np.ndarray
    reserve: np.ndarray
    left: np.ndarray


def no_maker(owner: np.ndarray) -> RowMaker:
    """A maker with nothing in reserve."""
    empty = np.empty((0, 0), dtype=np.float32)
    none = np.zeros(1, dtype=np.int64)
    return RowMaker(empty, empty, np.float32(1.0), owner, none, none)


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
def make_row(maker, i, rows, slot, used, clock):
    """Make the row of sample i in a reserved slot; False if there is none."""
    if maker.left[0] == 0:
        return False
    maker.left[0] -= 1
    s = maker.reserve[maker.left[0]]
    row = rows[s]
    z = _padded(maker.Z, maker.columns, i)
    for begin in range(0, row.size, _STRETCH):
        _make_stretch(z, maker.columns, maker.ratio, begin, row[begin : begin + _STRETCH])
    used[s] = clock
    maker.owner[s] = i
    # Last, because other threads may look at any time.
    slot[i] = s
    return True
