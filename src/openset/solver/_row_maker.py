"""Kernel rows made inside the compiled loops: from narrow data, or copied from a matrix.

Such a row costs tens of microseconds, no more than a return to Python. So a solver is given a few
empty slots of the cache in advance and fills them itself; it returns only when they are used up.
A part of a matrix has a slot for every row and needs no reserve.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels import exp_neg
from ..utils.compiled import njit
from ..utils.distances import point_distances
from ._state import subtract_four_scaled, subtract_scaled

# Values of a row that are taken from points to kernel while they are in the first-level cache.
_STRETCH = 512


class Points(NamedTuple):
    """Narrow data under the RBF kernel, from which compiled loops can make rows.

    Attributes
    ----------
    Z : ndarray of shape (m, d)
        The points, scaled so that squared distances are those of the largest gamma.
    columns : ndarray of shape (d rounded up to a multiple of 4, n)
        Transpose of the points to which distances are wanted, see `padded_columns`.
    ratio : float32
        gamma divided by the largest gamma.
    """

    Z: np.ndarray
    columns: np.ndarray
    ratio: np.float32


class RowMaker(NamedTuple):
    """What a compiled loop needs to make a row: points, or a matrix to copy from, or neither.

    Attributes
    ----------
    points : Points
        Empty where rows are not made from points.
    matrix : ndarray of shape (n, n), float32
        The whole kernel matrix of which this is a part, or empty.
    samples : ndarray of shape (m,), int64
        The rows of `matrix` that make up the part.
    reserve : ndarray of int64
        Slots that this solver may fill.
    left : ndarray of shape (1,), int64
        How many of them are left.
    """

    points: Points
    matrix: np.ndarray
    samples: np.ndarray
    reserve: np.ndarray
    left: np.ndarray


_NO_MATRIX = np.empty((0, 0), dtype=np.float32)
_NO_SAMPLES = np.empty(0, dtype=np.int64)
_NO_POINTS = Points(_NO_MATRIX, _NO_MATRIX, np.float32(1.0))


def row_maker(points=_NO_POINTS, matrix=_NO_MATRIX, samples=_NO_SAMPLES, reserve=0) -> RowMaker:
    """A maker with room for `reserve` slots, none of them filled; without arguments, of nothing."""
    slots = np.empty(reserve, dtype=np.int64)
    return RowMaker(points, matrix, samples, slots, np.zeros(1, dtype=np.int64))


@njit(cache=True, nogil=True)
def _padded_point(points, i):
    z = np.zeros(points.columns.shape[0], dtype=points.Z.dtype)
    z[: points.Z.shape[1]] = points.Z[i]
    return z


@njit(cache=True, nogil=True)
def _make_stretch(z, points, begin, stretch):
    """Kernel values of the padded point z with the points begin, begin + 1, ..."""
    point_distances(z, points.columns, begin, stretch)
    if points.ratio != np.float32(1.0):
        for t in range(stretch.size):
            stretch[t] *= points.ratio
    exp_neg(stretch)


@njit(cache=True, nogil=True)
def make_row(maker, store, i, clock):
    """Put the row of sample i into the store; False if no slot is reserved for it."""
    if maker.samples.size > 0:
        copy_row(maker.matrix[maker.samples[i]], maker.samples, store.rows[i])
        store.slot[i] = i
        return True
    if maker.left[0] == 0:
        return False
    maker.left[0] -= 1
    s = maker.reserve[maker.left[0]]
    row = store.rows[s]
    z = _padded_point(maker.points, i)
    for begin in range(0, row.size, _STRETCH):
        _make_stretch(z, maker.points, begin, row[begin : begin + _STRETCH])
    store.used[s] = clock
    store.owner[s] = i
    # Last, because other threads may look at any time.
    store.slot[i] = s
    return True


@njit(cache=True, nogil=True)
def fill_rows(maker, store, index):
    """Make the missing rows of the samples `index`."""
    for i in index:
        if store.slot[i] < 0:
            make_row(maker, store, i, 0)


@njit(cache=True, nogil=True)
def copy_row(row, samples, out):
    """out[:] = row[samples]."""
    for t in range(samples.size):
        out[t] = row[samples[t]]


@njit(cache=True, nogil=True)
def _stretch_of(i, z, points, begin, store, made):
    """A stretch of the row of sample i, at the point z: from the store, or made in `made`."""
    if store.slot[i] >= 0:
        return store.rows[store.slot[i], begin : begin + made.size]
    _make_stretch(z, points, begin, made)
    return made


@njit(cache=True, nogil=True)
def subtract_made_rows(v, coef, index, points, store):
    """v -= sum_k coef[k] * row(index[k]) in float64; missing rows are made and not stored.

    The sum is formed in the order of `index`, so that it is the same to the bit whatever other
    solvers have left in the cache.
    """
    z = np.zeros((index.size, points.columns.shape[0]), dtype=points.Z.dtype)
    for k in range(index.size):
        z[k, : points.Z.shape[1]] = points.Z[index[k]]
    made = np.empty((4, _STRETCH), dtype=np.float32)
    for begin in range(0, v.size, _STRETCH):
        target = v[begin : begin + _STRETCH]
        n = target.size
        k = 0
        while k + 4 <= index.size:
            subtract_four_scaled(
                target,
                (coef[k], coef[k + 1], coef[k + 2], coef[k + 3]),
                (
                    _stretch_of(index[k], z[k], points, begin, store, made[0, :n]),
                    _stretch_of(index[k + 1], z[k + 1], points, begin, store, made[1, :n]),
                    _stretch_of(index[k + 2], z[k + 2], points, begin, store, made[2, :n]),
                    _stretch_of(index[k + 3], z[k + 3], points, begin, store, made[3, :n]),
                ),
            )
            k += 4
        while k < index.size:
            row = _stretch_of(index[k], z[k], points, begin, store, made[0, :n])
            subtract_scaled(target, coef[k], row)
            k += 1


@njit(cache=True, nogil=True)
def add_made_rows(sums, coef, index, points):
    """sums[c] += sum_k coef[c, k] * row(index[k]) in float64, at the points of `columns`.

    Each kernel value is made once, for all c whose coefficient is not zero.
    """
    made = np.empty(_STRETCH, dtype=np.float32)
    for begin in range(0, sums.shape[1], _STRETCH):
        end = min(sums.shape[1], begin + _STRETCH)
        for k in range(index.size):
            row = made[: end - begin]
            _make_stretch(_padded_point(points, index[k]), points, begin, row)
            for c in range(coef.shape[0]):
                if coef[c, k] != 0.0:
                    subtract_scaled(sums[c, begin:end], -coef[c, k], row)
