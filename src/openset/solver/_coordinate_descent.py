"""Coordinate descent, compiled: a problem without equality, one multiplier at a time."""

from __future__ import annotations

import numpy as np
from numba import njit

from ._row_maker import make_row
from ._state import BLOCK, FAST, OPTIMAL, PAUSED, WANTS_ROW, fmax, mark


@njit(cache=True, nogil=True, fastmath=FAST)
def _descend_and_top(v, grow, shrink, row, step, start, stop):
    """v -= step * row; return the largest |v| along a direction that is still open."""
    top = 0.0
    for t in range(np.uint64(start), np.uint64(stop)):
        x = v[t] - step * np.float64(row[t])
        v[t] = x
        top = fmax(top, fmax(x + grow[t], -x - shrink[t]))
    return top


@njit(cache=True, nogil=True)
def coordinate_descent(
    rows,
    slot,
    diagonal,
    lower,
    upper,
    beta,
    v,
    grow,
    shrink,
    pair,
    reference,
    tol,
    max_iter,
    used,
    clock,
    maker,
):
    """The same for a problem without equality: one multiplier at a time, no bias.

    The gap is twice the largest open |v|, so that `tol` means the same as for `smo`: every v is
    within tol / 2 of the middle.
    """
    m = v.size
    step = 0.0  # and any finite row, as in `smo`
    row = diagonal
    n_iter = 0
    while True:
        pair[:] = -1
        top = 0.0
        block = 0
        for start in range(0, m, BLOCK):
            block_top = _descend_and_top(v, grow, shrink, row, step, start, min(m, start + BLOCK))
            if block_top > top:
                top = block_top
                block = start
        if 2.0 * top <= tol:
            return OPTIMAL, -1, n_iter, top, -top
        if n_iter >= max_iter:
            return PAUSED, -1, n_iter, top, -top
        i = block
        while v[i] + grow[i] != top and -v[i] - shrink[i] != top:
            i += 1
        pair[0] = i
        if slot[i] < 0 and not make_row(maker, i, rows, slot, used, clock + n_iter):
            return WANTS_ROW, i, n_iter, np.inf, -np.inf
        row = rows[slot[i]]
        used[slot[i]] = clock + n_iter

        old = beta[i]
        target = old + v[i] / max(np.float64(diagonal[i]), 1e-12)
        beta[i] = min(max(target, lower[i]), upper[i])
        step = beta[i] - old
        mark(i, beta, lower, upper, grow, shrink)
        reference[0] = top
        n_iter += 1
