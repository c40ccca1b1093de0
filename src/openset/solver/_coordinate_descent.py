"""Coordinate descent, compiled: a problem without equality, two multipliers at a time.

One at a time is slow where rows are alike, as with a wide kernel: what one multiplier gains, the
next one undoes. Each iteration therefore takes the multiplier i that breaks its condition most, and
the partner j that gains most after i (Steinwart, Hush, Scovel 2011), and solves for both at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.compiled import FAST, njit
from ._rows import make_row
from ._state import BLOCK, OPTIMAL, PAUSED, ROUNDING, TINY, WANTS_ROW, fmax, mark


class _Step(NamedTuple):
    """A step of the pair (i, j) that v does not contain yet: v -= i * row_i + j * row_j."""

    i: float
    j: float
    row_i: np.ndarray
    row_j: np.ndarray


@njit(cache=True, nogil=True, fastmath=FAST)
def _apply_step(state, step, height, start, stop):
    """Apply `step`; return the largest |v| along a direction that is still open.

    `height` becomes v, as accurately as it takes to choose a partner.
    """
    v, grow, shrink = state.v, state.grow, state.shrink
    step_i, step_j, row_i, row_j = step
    top = 0.0
    for t in range(np.uint64(start), np.uint64(stop)):
        x = v[t] - (step_i * np.float64(row_i[t]) + step_j * np.float64(row_j[t]))
        v[t] = x
        height[t] = np.float32(x)
        top = fmax(top, fmax(x + grow[t], -x - shrink[t]))
    return top


@njit(cache=True, nogil=True, fastmath=FAST)
def _gain(height_t, room, k_tt, k_it, after):
    """Decrease of the objective by row t after row i has made its step, up to a factor 2.

    `room` is what `State` has in `grow` and `shrink`; `after` is that step and 1 / k_ii.
    """
    x = height_t - after[0] * k_it
    x = fmax(fmax(x + room[0], -x - room[1]), np.float32(0.0))
    return x * x / fmax(k_tt - after[1] * k_it * k_it, fmax(ROUNDING * k_tt, TINY))


@njit(cache=True, nogil=True, fastmath=FAST)
def _best_gain(state, height, row_i, diagonal, after, start, stop):
    grow, shrink = state.grow, state.shrink
    best = np.float32(0.0)
    for t in range(np.uint64(start), np.uint64(stop)):
        gain = _gain(height[t], (grow[t], shrink[t]), diagonal[t], row_i[t], after)
        best = fmax(best, gain)
    return best


@njit(cache=True, nogil=True)
def _clip(x, low, high):
    return min(max(x, low), high)


@njit(cache=True, nogil=True)
def _best_steps(v_i, v_j, k, room_i, room_j):
    """Steps of two multipliers that lower the objective most; `k` is (k_ii, k_jj, k_ij)."""
    k_ii, k_jj, k_ij = k
    determinant = k_ii * k_jj - k_ij * k_ij
    if determinant < ROUNDING * k_ii * k_jj:  # the rows are equal up to rounding: short steps
        k_ii, k_jj = (1.0 + ROUNDING) * k_ii, (1.0 + ROUNDING) * k_jj
        determinant = k_ii * k_jj - k_ij * k_ij
    if determinant > 0.0:
        a = (k_jj * v_i - k_ij * v_j) / determinant
        b = (k_ii * v_j - k_ij * v_i) / determinant
        if room_i[0] <= a <= room_i[1] and room_j[0] <= b <= room_j[1]:
            return a, b
    best, best_a, best_b = np.inf, 0.0, 0.0
    for side in range(4):  # else the best point lies on an edge of the box
        if side < 2:
            a = room_i[side]
            b = _clip((v_j - k_ij * a) / k_jj, room_j[0], room_j[1])
        else:
            b = room_j[side - 2]
            a = _clip((v_i - k_ij * b) / k_ii, room_i[0], room_i[1])
        loss = a * (0.5 * k_ii * a + k_ij * b - v_i) + b * (0.5 * k_jj * b - v_j)
        if loss < best:
            best, best_a, best_b = loss, a, b
    return best_a, best_b


@njit(cache=True, nogil=True)
def _move(i, step, room, state, box):
    """Add a step to a multiplier; at the end of its room it is exactly at the bound."""
    if step == room[0]:
        state.beta[i] = box.lower[i]
    elif step == room[1]:
        state.beta[i] = box.upper[i]
    else:
        state.beta[i] += step
    mark(i, state, box)


@njit(cache=True, nogil=True)
def coordinate_descent(store, maker, box, state, tol, max_iter):
    """`smo` for a problem without equality, which has no bias.

    The gap is twice the largest open |v|, so that `tol` means the same as for `smo`: every v is
    within tol / 2 of the middle.
    """
    beta, v, pair = state.beta, state.v, state.pair
    rows, slot, diagonal = store.rows, store.slot, store.diagonal
    clock = store.clock[0]
    m = v.size
    height = np.empty(m, dtype=np.float32)
    step_i = step_j = 0.0  # and any finite rows, as in `smo`
    row_i = row_j = diagonal
    n_iter = 0
    while True:
        pair[:] = -1
        top = 0.0
        block = 0
        step = _Step(step_i, step_j, row_i, row_j)
        for start in range(0, m, BLOCK):
            block_top = _apply_step(state, step, height, start, min(m, start + BLOCK))
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
        pair[0] = i
        if slot[i] < 0 and not make_row(maker, store, i, clock + n_iter):
            return WANTS_ROW, i, n_iter, np.inf, -np.inf
        row_i = rows[slot[i]]
        store.used[slot[i]] = clock + n_iter

        k_ii = max(diagonal[i], TINY)
        room_i = (box.lower[i] - beta[i], box.upper[i] - beta[i])
        step_i, step_j = _clip(v[i] / np.float64(k_ii), room_i[0], room_i[1]), 0.0
        best = np.float32(0.0)
        if room_i[0] < step_i < room_i[1]:
            after = (np.float32(step_i), np.float32(1.0) / k_ii)
            block = 0
            for start in range(0, m, BLOCK):
                end = min(m, start + BLOCK)
                gain = _best_gain(state, height, row_i, diagonal, after, start, end)
                if gain > best:
                    best = gain
                    block = start
            best *= np.float32(1.0 - 1e-6)  # the scalar code may round the last bit differently
            j = block
            while best > _gain(
                height[j], (state.grow[j], state.shrink[j]), diagonal[j], row_i[j], after
            ):
                j += 1
            if best > 0.0 and j != i:
                pair[1] = j
                if slot[j] < 0 and not make_row(maker, store, j, clock + n_iter):
                    return WANTS_ROW, j, n_iter, np.inf, -np.inf
                row_j = rows[slot[j]]
                store.used[slot[j]] = clock + n_iter
                room_j = (box.lower[j] - beta[j], box.upper[j] - beta[j])
                k = (np.float64(k_ii), np.float64(max(diagonal[j], TINY)), np.float64(row_i[j]))
                step_i, step_j = _best_steps(v[i], v[j], k, room_i, room_j)
                _move(j, step_j, room_j, state, box)
        _move(i, step_i, room_i, state, box)
        n_iter += 1
