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
def make_row(maker, i, rows, slot, used, clock):
    """Make the row of sample i in a reserved slot; False if there is none."""
    if maker.left[0] == 0:
        return False
    maker.left[0] -= 1
    s = maker.reserve[maker.left[0]]
    row = rows[s]
    z = np.zeros(maker.columns.shape[0], dtype=maker.Z.dtype)
    z[: maker.Z.shape[1]] = maker.Z[i]
    for begin in range(0, row.size, _STRETCH):
        stretch = row[begin : begin + _STRETCH]
        stretch_distances(z, maker.columns, begin, begin + stretch.size, stretch)
        if maker.ratio != np.float32(1.0):
            for t in range(stretch.size):
                stretch[t] *= maker.ratio
        exp_neg(stretch)
    used[s] = clock
    maker.owner[s] = i
    # Last, because other threads may look at any time.
    slot[i] = s
    return True
