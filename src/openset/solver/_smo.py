"""Sequential minimal optimisation, compiled.

Each iteration touches two rows of the kernel matrix, each element twice. A first pass applies the
last step to v and finds the row i that may grow with the largest v. A second pass finds the partner
j with the largest second-order gain (Fan, Chen, Lin 2005), in float32, which is enough to choose.
Both passes are branch-free reductions over contiguous arrays, so that LLVM vectorises them; the
index of a maximum is searched for afterwards in the one block that holds it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.compiled import FAST, njit
from ._rows import make_row
from ._state import BLOCK, OPTIMAL, PAUSED, ROUNDING, TINY, WANTS_ROW, fmax, fmin, mark

# A gap below this share of the v that bound it is their rounding error: no step would close it.
CLOSED = 2.0**-50


class _Step(NamedTuple):
    """A step of the pair (i, j) that v does not contain yet: v -= size * (row_i - row_j)."""

    size: float
    row_i: np.ndarray
    row_j: np.ndarray


@njit(cache=True, nogil=True, fastmath=FAST)
def _apply_step(state, step, height, start, stop):
    """Apply `step`; return the largest v where beta can grow, the smallest where it can shrink.

    `height` becomes v - reference where beta can shrink, inf elsewhere.
    """
    v, grow, shrink = state.v, state.grow, state.shrink
    size, row_i, row_j = step
    reference = state.reference[0]
    top = -np.inf
    bottom = np.inf
    # Unsigned indices: Numba then omits the wrap-around test, which would prevent vectorisation.
    for t in range(np.uint64(start), np.uint64(stop)):
        # Subtracted in float64, where it is exact: v must not drift away from p - K beta.
        x = v[t] - size * (np.float64(row_i[t]) - np.float64(row_j[t]))
        v[t] = x
        top = fmax(top, x + grow[t])
        x += shrink[t]
        bottom = fmin(bottom, x)
        height[t] = np.float32(x - reference)
    return top, bottom


@njit(cache=True, nogil=True, fastmath=FAST)
def _curvature(k_ii, k_tt, k_it):
    """Curvature of the objective along the pair (i, t)."""
    both = k_ii + k_tt
    return fmax(both - np.float32(2.0) * k_it, fmax(ROUNDING * both, TINY))


@njit(cache=True, nogil=True, fastmath=FAST)
def _gain(height_i, height_t, k_ii, k_tt, k_it):
    """Second-order decrease of the objective for the pair (i, t), up to a factor 2."""
    g = fmax(height_i - height_t, np.float32(0.0))
    return g * g / _curvature(k_ii, k_tt, k_it)


@njit(cache=True, nogil=True, fastmath=FAST)
def _best_gain(height_i, height, row_i, diagonal, k_ii, start, stop):
    best = np.float32(0.0)
    for t in range(np.uint64(start), np.uint64(stop)):
        best = fmax(best, _gain(height_i, height[t], k_ii, diagonal[t], row_i[t]))
    return best


@njit(cache=True, nogil=True)
def smo(store, maker, box, state, tol, max_iter):
    """Improve `state` until its gap is at most `tol`, a row is missing or `max_iter` is reached.

    Parameters
    ----------
    store : RowStore
    maker : RowMaker
    box : Box
    state : State
    tol : float
    max_iter : int

    Returns
    -------
    status : int
        OPTIMAL, PAUSED or WANTS_ROW.
    wanted : int
        The sample whose row is missing, or -1.
    n_iter : int
    top, bottom : float
        The bias interval (infinite with WANTS_ROW).
    """
    beta, v, pair, reference = state.beta, state.v, state.pair, state.reference
    lower, upper = box.lower, box.upper
    rows, slot, diagonal, used = store.rows, store.slot, store.diagonal, store.used
    clock = store.clock[0]
    m = v.size
    height = np.empty(m, dtype=np.float32)
    # No step yet; `diagonal` stands in for the rows, because a slot never filled may hold NaN.
    step = 0.0
    row_i = diagonal
    row_j = diagonal
    n_iter = 0
    while True:
        pair[:] = -1
        top = -np.inf
        bottom = np.inf
        block = 0
        for start in range(0, m, BLOCK):
            block_top, block_bottom = _apply_step(
                state, _Step(step, row_i, row_j), height, start, min(m, start + BLOCK)
            )
            if block_top > top:
                top = block_top
                block = start
            bottom = min(bottom, block_bottom)
        if top - bottom <= max(tol, CLOSED * max(abs(top), abs(bottom))):
            return OPTIMAL, -1, n_iter, top, bottom
        if n_iter >= max_iter:
            return PAUSED, -1, n_iter, top, bottom
        i = block
        while v[i] + state.grow[i] != top:
            i += 1
        pair[0] = i
        if slot[i] < 0 and not make_row(maker, store, i, clock + n_iter):
            return WANTS_ROW, i, n_iter, np.inf, -np.inf
        row_i = rows[slot[i]]
        used[slot[i]] = clock + n_iter

        k_ii = diagonal[i]
        height_i = np.float32(top - reference[0])
        best = np.float32(0.0)
        block = 0
        for start in range(0, m, BLOCK):
            gain = _best_gain(height_i, height, row_i, diagonal, k_ii, start, min(m, start + BLOCK))
            if gain > best:
                best = gain
                block = start
        if best > 0.0:
            # The scalar code may round the last bit differently from the vector code.
            best *= np.float32(1.0 - 1e-6)
            j = block
            while _gain(height_i, height[j], k_ii, diagonal[j], row_i[j]) < best:
                j += 1
        else:  # the gap is too small for float32, relative to this reference
            j = 0
            while v[j] + state.shrink[j] != bottom:
                j += 1
        pair[1] = j
        if slot[j] < 0 and not make_row(maker, store, j, clock + n_iter):
            return WANTS_ROW, j, n_iter, np.inf, -np.inf
        row_j = rows[slot[j]]
        used[slot[j]] = clock + n_iter

        curvature = np.float64(_curvature(k_ii, diagonal[j], row_i[j]))
        # Never backwards: with a distant reference, v[j] may only seem to lie below the top.
        step = max((top - v[j]) / curvature, 0.0)
        room_i = upper[i] - beta[i]
        room_j = beta[j] - lower[j]
        step = min(step, min(room_i, room_j))
        # Snap to the bound: a multiplier left a rounding error away from it would count as free.
        beta[i] = upper[i] if step == room_i else beta[i] + step
        beta[j] = lower[j] if step == room_j else beta[j] - step
        mark(i, state, box)
        mark(j, state, box)
        reference[0] = top
        n_iter += 1
