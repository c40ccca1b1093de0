"""SMO with an equality, coordinate descent without, and shrinking: compiled as a whole.

Each iteration of SMO touches two rows of the kernel matrix, each element twice. A first pass
applies the last step to v and finds the row i that may grow with the largest v. A second pass finds
the partner j with the largest second-order gain (Fan, Chen, Lin 2005), in float32, which is enough
to choose. Both passes are branch-free reductions over contiguous arrays, so that LLVM vectorises
them; the index of a maximum is found by another one, over the one block that holds it. What is
called once is inlined: Numba optimises a function again in each one that calls it.

Without an equality one multiplier at a time would do, but that is slow where rows are alike, as
with a wide kernel: what one gains, the next one undoes. Each iteration therefore takes the
multiplier i that breaks its condition most, and the partner j that gains most after i (Steinwart,
Hush, Scovel 2011), and solves for both at once.

Soon most multipliers lie at a bound and stay there. Then the others are optimised alone, over their
own part of the kernel matrix (by the same function, with fewer rows), and v of all rows is updated
once: a moved multiplier costs one pass over v, not one per move.

With many threads every return to Python waits for the interpreter's lock. So a whole problem is one
call wherever rows can be made by compiled code: copied from a matrix, or made from narrow points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.compiled import FAST, njit
from ._rows import RowMaker, fill_rows, make_row, subtract_made_rows
from ._squares import Narrow
from ._state import (
    BLOCK,
    ITERATION,
    OPTIMAL,
    PAUSED,
    ROUNDING,
    STALLED,
    TINY,
    WANTS_PART,
    WANTS_ROW,
    Box,
    RowStore,
    State,
    fmax,
    fmin,
    mark,
    may_move,
    set_marks,
    subtract_rows,
)

# A gap below this share of the v that bound it is their rounding error: no step would close it.
CLOSED = 2.0**-50


class _Step(NamedTuple):
    """A step of a pair that v does not contain yet: v -= size * (row_i - row_j)."""

    size: float
    slot_i: int
    slot_j: int


@njit(cache=True, nogil=True, fastmath=FAST)
def _apply_step(state, step, rows, height):
    """Apply `step`; return the largest v where beta can grow, and its row."""
    # Also the smallest v where beta can shrink. Rows are passed as slots, since references to a
    # view are counted by atomic instructions. `height` becomes v - reference where beta can shrink,
    # inf elsewhere.
    v, grow, shrink = state.v, state.grow, state.shrink
    size, slot_i, slot_j = step[0], np.uint64(step[1]), np.uint64(step[2])
    reference = state.reference[0]
    top = -np.inf
    bottom = np.inf
    block = 0
    for start in range(0, v.size, BLOCK):
        block_top = -np.inf
        # Unsigned indices: Numba then omits the wrap-around test, which would prevent
        # vectorisation.
        for t in range(np.uint64(start), np.uint64(min(v.size, start + BLOCK))):
            x = v[t]
            if size != 0.0:  # else the slots may hold NaN
                # Subtracted in float64, where it is exact: v must not drift away from p - K beta.
                x -= size * (np.float64(rows[slot_i, t]) - np.float64(rows[slot_j, t]))
                v[t] = x
            block_top = fmax(block_top, x + grow[t])
            x += shrink[t]
            bottom = fmin(bottom, x)
            height[t] = np.float32(x - reference)
        if block_top > top:
            top = block_top
            block = start
    # The first row of the block that has it.
    i = np.int32(v.size)
    for t in range(np.uint64(block), np.uint64(min(v.size, block + BLOCK))):
        k = np.int32(t) if v[t] + grow[t] == top else np.int32(v.size)
        i = k if k < i else i
    return top, np.int64(i), bottom


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
def _best_partner(height_i, height, rows, slot_i, diagonal, k_ii, gains):
    """Row whose pair with row i has the largest gain; -1 if no gain is positive."""
    slot_i = np.uint64(slot_i)
    best = np.float32(0.0)
    block = 0
    for start in range(0, height.size, BLOCK):
        gain = np.float32(0.0)
        for t in range(np.uint64(start), np.uint64(min(height.size, start + BLOCK))):
            g = _gain(height_i, height[t], k_ii, diagonal[t], rows[slot_i, t])
            gains[t] = g
            gain = fmax(gain, g)
        if gain > best:
            best = gain
            block = start
    if best == np.float32(0.0):
        return -1
    j = np.int32(height.size)
    for t in range(np.uint64(block), np.uint64(min(height.size, block + BLOCK))):
        k = np.int32(t) if gains[t] == best else np.int32(height.size)
        j = k if k < j else j
    return np.int64(j)


@njit(cache=True, nogil=True)
def smo(store, maker, box, state, tol, max_iter):
    """Improve `state` until its gap is at most `tol`, a row is missing or `max_iter` is reached."""
    # Returns status (OPTIMAL, PAUSED or WANTS_ROW), the sample whose row is missing or -1, the
    # number of iterations, and the bias interval (infinite with WANTS_ROW).
    beta, v, pair, reference = state.beta, state.v, state.pair, state.reference
    lower, upper = box.lower, box.upper
    rows, slot, diagonal, used = store.rows, store.slot, store.diagonal, store.used
    clock = store.clock[0]
    m = v.size
    height = np.empty(m, dtype=np.float32)
    gains = np.empty(m, dtype=np.float32)
    step = 0.0
    slot_i = slot_j = 0
    n_iter = 0
    while True:
        pair[0] = pair[1] = -1
        top, i, bottom = _apply_step(state, _Step(step, slot_i, slot_j), rows, height)
        if top - bottom <= max(tol, CLOSED * max(abs(top), abs(bottom))):
            return OPTIMAL, -1, n_iter, top, bottom
        if n_iter >= max_iter:
            return PAUSED, -1, n_iter, top, bottom
        pair[0] = i
        if slot[i] < 0 and not make_row(maker, store, i, clock + n_iter):
            return WANTS_ROW, i, n_iter, np.inf, -np.inf
        slot_i = slot[i]
        used[slot_i] = clock + n_iter

        k_ii = diagonal[i]
        height_i = np.float32(top - reference[0])
        j = _best_partner(height_i, height, rows, slot_i, diagonal, k_ii, gains)
        if j < 0:  # the gap is too small for float32, relative to this reference
            j = 0
            while v[j] + state.shrink[j] != bottom:
                j += 1
        pair[1] = j
        if slot[j] < 0 and not make_row(maker, store, j, clock + n_iter):
            return WANTS_ROW, j, n_iter, np.inf, -np.inf
        slot_j = slot[j]
        used[slot_j] = clock + n_iter

        curvature = np.float64(_curvature(k_ii, diagonal[j], rows[slot_i, j]))
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


class _Steps(NamedTuple):
    """A step of the pair (i, j) that v does not contain yet: v -= i * row_i + j * row_j."""

    i: float
    j: float
    row_i: np.ndarray
    row_j: np.ndarray


@njit(cache=True, nogil=True, fastmath=FAST)
def _apply_steps(state, step, height, start, stop):
    """Apply `step`; return the largest |v| along a direction that is still open."""
    # `height` becomes v, as accurately as it takes to choose a partner.
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
def _gain_after(height_t, room, k_tt, k_it, after):
    """Decrease of the objective by row t after row i has made its step, up to a factor 2."""
    # `room` is what `State` has in `grow` and `shrink`; `after` is that step and 1 / k_ii.
    x = height_t - after[0] * k_it
    x = fmax(fmax(x + room[0], -x - room[1]), np.float32(0.0))
    return x * x / fmax(k_tt - after[1] * k_it * k_it, fmax(ROUNDING * k_tt, TINY))


@njit(cache=True, nogil=True, fastmath=FAST)
def _best_gain_after(state, height, row_i, diagonal, after, start, stop):
    grow, shrink = state.grow, state.shrink
    best = np.float32(0.0)
    for t in range(np.uint64(start), np.uint64(stop)):
        gain = _gain_after(height[t], (grow[t], shrink[t]), diagonal[t], row_i[t], after)
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
    """`smo` for a problem without equality, which has no bias."""
    # The gap is twice the largest open |v|, so that `tol` means the same as for `smo`: every v is
    # within tol / 2 of the middle.
    beta, v, pair = state.beta, state.v, state.pair
    rows, slot, diagonal = store.rows, store.slot, store.diagonal
    clock = store.clock[0]
    m = v.size
    height = np.empty(m, dtype=np.float32)
    step_i = step_j = 0.0  # and any finite rows, as in `smo`
    row_i = row_j = diagonal
    n_iter = 0
    while True:
        pair[0] = pair[1] = -1
        top = 0.0
        block = 0
        step = _Steps(step_i, step_j, row_i, row_j)
        for start in range(0, m, BLOCK):
            block_top = _apply_steps(state, step, height, start, min(m, start + BLOCK))
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
                gain = _best_gain_after(state, height, row_i, diagonal, after, start, end)
                if gain > best:
                    best = gain
                    block = start
            best *= np.float32(1.0 - 1e-6)  # the scalar code may round the last bit differently
            j = block
            while best > _gain_after(
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


# Coordinate descent stops if that many passes over the rows, and that many iterations, have not
# made the gap smaller by this factor: rows that are equal in float32 can exchange their multipliers
# for ever. The gap of SMO is seen to rest for up to 400 passes, or 100,000 iterations, before it
# falls again: it gets this many times as long.
_PASSES, _ITERATIONS, _SMALLER, _PATIENCE = 30, 10_000, 0.9, 100


class Limits(NamedTuple):
    """Which loop optimises, when it looks for multipliers that may rest, and when it returns."""

    equality: bool  # Whether the sum of the multipliers is given.
    tol: float
    # See `Tuning`.
    look: int
    few: int
    share: float
    # Rows times iterations after which the function returns, so that the caller can stop it; an
    # iteration counts as ITERATION rows more.
    work: float


class _Level(NamedTuple):
    """A problem, or the part of one that is optimised alone."""

    # `active` are the rows of the level below that make up the part.

    store: RowStore
    maker: RowMaker
    box: Box
    state: State
    active: np.ndarray


@njit(cache=True, nogil=True)
def optimise(store, maker, box, state, limits, n_iter, max_iter, scratch):
    """Improve `state` from iteration `n_iter` on; return what `smo` does, with the new `n_iter`."""
    # `scratch` is float32 memory for the rows of parts. The status WANTS_PART means that a part
    # does not fit, PAUSED before `max_iter` that `limits.work` is used up.
    # Parts are kept on a stack: Numba cannot cache a function that calls itself.
    patience = _PATIENCE if limits.equality else 1
    levels = [_Level(store, maker, box, state, np.empty(0, dtype=np.int64))]
    # Of each level: the iteration at which it began, all work so far, and the scratch in use.
    begin, work, used = [0], [0.0], [0]
    while True:
        level = levels[-1]
        m = level.state.v.size
        # Look after fixed numbers of iterations, whatever made the function return in between.
        allowed = min(max_iter - n_iter, limits.look - (n_iter - begin[-1]) % limits.look)
        if limits.equality:
            status, wanted, done, top, bottom = smo(
                level.store, level.maker, level.box, level.state, limits.tol, allowed
            )
        else:
            status, wanted, done, top, bottom = coordinate_descent(
                level.store, level.maker, level.box, level.state, limits.tol, allowed
            )
        level.store.clock[0] += done
        n_iter += done
        work[-1] += float(done) * (m + ITERATION)
        if status == PAUSED:
            progress = level.state.progress
            if top - bottom < _SMALLER * progress[0]:
                progress[0], progress[1] = top - bottom, n_iter
            elif n_iter - progress[1] > patience * max(_PASSES * m, _ITERATIONS):
                status = STALLED
        finished = status != PAUSED or n_iter >= max_iter
        if not finished and limits.few < m and (n_iter - begin[-1]) % limits.look == 0:
            active = may_move(level.state, top, bottom)
            n, start = active.size, used[-1]
            if n < limits.share * m:
                if start + n * n <= scratch.size:
                    levels.append(_part(level, active, scratch[start : start + n * n]))
                    begin.append(n_iter)
                    work.append(work[-1])
                    used.append(start + n * n)
                    continue
                if len(levels) == 1:
                    return WANTS_PART, -1, n_iter, top, bottom
        if not finished and work[-1] <= limits.work:
            continue
        if len(levels) == 1:
            return status, wanted, n_iter, top, bottom
        # A part is done: the level below takes over its multipliers and continues.
        part = levels.pop()
        below = levels[-1]
        _apply(below.store, below.maker, below.state, part.active, part.state.beta)
        set_marks(below.state, below.box)
        if status == OPTIMAL:  # not idle, even if other rows now make the gap
            below.state.progress[1] += n_iter - begin[-1]
        begin.pop()
        used.pop()
        work[-2] = work[-1] + below.state.v.size
        work.pop()
        # Here, not only above: one part after the other may use up its work and end.
        if len(levels) == 1 and work[0] > limits.work and n_iter < max_iter:
            return PAUSED, -1, n_iter, top, bottom


@njit(cache=True, nogil=True, inline="always")
def _part(level, active, scratch):
    """The multipliers `active` of a level as a level of their own, with rows in `scratch`."""
    store, maker, box, state, _ = level
    n = active.size
    part_box = Box(box.lower[active], box.upper[active])
    reference, progress = np.zeros(1), np.empty(2)
    progress[0], progress[1] = np.inf, 0.0
    grow, shrink = np.empty(n, dtype=np.float32), np.empty(n, dtype=np.float32)
    pair, clock = np.empty(2, dtype=np.int64), np.empty(1, dtype=np.int64)
    beta, v = state.beta[active], state.v[active]
    part_state = State(beta, v, grow, shrink, pair, reference, progress)
    set_marks(part_state, part_box)
    slot, used = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64)
    owner, reserve = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    for t in range(n):
        slot[t], used[t], owner[t], reserve[t] = -1, 0, -1, n - 1 - t
    clock[0] = 0
    diagonal = store.diagonal[active]
    part_store = RowStore(scratch.reshape(n, n), slot, diagonal, used, owner, clock)
    points = maker.points
    samples = maker.samples
    if points.Z.size > 0:
        points = _part_points(points, active)
    elif samples.size > 0:
        samples = samples[active]
    else:
        samples = active
    # Every row of the part has a slot of its own.
    left = np.empty(1, dtype=np.int64)
    left[0] = n
    part_maker = RowMaker(points, maker.matrix, samples, reserve, left)
    return _Level(part_store, part_maker, part_box, part_state, active)


@njit(cache=True, nogil=True, inline="always")
def _apply(store, maker, state, active, beta):
    """Take over the multipliers of a part and update v of all rows."""
    change = np.empty(active.size)
    moved = np.empty(active.size, dtype=np.int64)
    n = 0
    for t in range(active.size):
        if beta[t] != state.beta[active[t]]:
            change[n] = beta[t] - state.beta[active[t]]
            moved[n] = active[t]
            state.beta[active[t]] = beta[t]
            n += 1
    # The rows of a finished part are seldom needed again: they are not cached.
    if maker.points.Z.size > 0:
        subtract_made_rows(state.v, change[:n], moved[:n], maker.points, store)
    else:
        fill_rows(maker, store, moved[:n])
        subtract_rows(state.v, change[:n], moved[:n], store)


@njit(cache=True, nogil=True, inline="always")
def _part_points(points, active):
    Z = np.empty((active.size, points.Z.shape[1]), dtype=points.Z.dtype)
    columns = np.zeros((points.columns.shape[0], active.size), dtype=points.Z.dtype)
    for t in range(active.size):
        for f in range(Z.shape[1]):
            value = points.Z[active[t], f]
            Z[t, f] = value
            columns[f, t] = value
    return Narrow(Z, columns, points.ratio)
