"""Coordinate descent, compiled: a problem without equality, one multiplier at a time."""

from __future__ import annotations

import numpy as np

from ..utils.compiled import FAST, njit
from ._row_maker import make_row
from ._state import BLOCK, OPTIMAL, PAUSED, WANTS_ROW, fmax, mark


@njit(cache=True, nogil=True, fastmath=FAST)
def _apply_step(state, step, row, start, stop):
    """v -= step * row; return the largest |v| along a direction that is still open."""
    v, grow, shrink = state.v, state.grow, state.shrink
    top = 0.0
    for t in range(np.uint64(start), np.uint64(stop)):
        x = v[t] - step * np.float64(row[t])
        v[t] = x
        top = fmax(top, fmax(x + grow[t], -x - shrink[t]))
    return top


@njit(cache=True, nogil=True)
def coordinate_descent(store, maker, box, state, tol, max_iter):
    """`smo` for a problem without equality: one multiplier at a time, no bias.

    The gap is twice the largest open |v|, so that `tol` means the same as for `smo`: every v is
    within tol / 2 of the middle.
    """
    beta, v = state.beta, state.v
    rows, slot, diagonal = store.rows, store.slot, store.diagonal
    clock = store.clock[0]
    m = v.size
    step = 0.0  # and any finite row, as in `smo`
    row = diagonal
    n_iter = 0
    while True:
        state.pair[:] = -1
        top = 0.0
        block = 0
        for start in range(0, m, BLOCK):
            block_top = _apply_step(state, step, row, start, min(m, start + BLOCK))
            if block_top > top:
                top = block_top
                block = start
        if 2.0 * top <= tol:
            return OPTIMAL, -1, n_iter, top, -top
        if n_iter >= max_iter:
            return PAUSED, -1, n_iter, top, -top
        i = block
        while v[i] + state.grow[i] != top and -v[i] - state.shrink[i] != top:
            i += 1
        state.pair[0] = i
        if slot[i] < 0 and not make_row(maker, store, i, clock + n_iter):
            return WANTS_ROW, i, n_iter, np.inf, -np.inf
        row = rows[slot[i]]
        store.used[slot[i]] = clock + n_iter

        old = beta[i]
        target = old + v[i] / max(np.float64(diagonal[i]), 1e-12)
        beta[i] = min(max(target, box.lower[i]), box.upper[i])
        step = beta[i] - old
        mark(i, state, box)
        state.reference[0] = top
        n_iter += 1
