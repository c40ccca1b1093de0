"""SMO with an equality, coordinate descent without, and shrinking: compiled as a whole.

Each iteration of SMO touches two rows of the kernel matrix, each element twice. A first pass
applies the last step to v and finds the row i that may grow with the largest v. A second pass finds
the partner j with the largest second-order gain (Fan, Chen, Lin 2005), in float32, which is enough
to choose. Both passes are branch-free reductions over contiguous arrays, so that LLVM vectorises
them; the index of a maximum is found by another one, over the one block that holds it.

Named tuples of arrays are passed, and taken apart once: each use of a field compiles the copying of
all the others, and each call that is not inlined puts seven words per array on the processor's
stack. What a problem does not need is an argument None, and is not compiled.

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

from ..utils.compiled import FAST, helper
from ._rows import Recent, copy_rows, missing_row, subtract_made_rows
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


@helper(fastmath=FAST)
def _apply_step(v, grow, shrink, step, reference, rows, height):
    """Apply `step`; return the largest v where beta can grow, and its row."""
    # Also the smallest v where beta can shrink. Called in each iteration, it gets only the arrays
    # it uses, not a whole `State`. Rows are passed as slots, since references to a view are counted
    # by atomic instructions. `height` becomes v - reference where beta can shrink, inf elsewhere.
    size, slot_i, slot_j = step[0], np.uint64(step[1]), np.uint64(step[2])
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


@helper(fastmath=FAST)
def _curvature(k_ii, k_tt, k_it):
    """Curvature of the objective along the pair (i, t)."""
    both = k_ii + k_tt
    return fmax(both - np.float32(2.0) * k_it, fmax(ROUNDING * both, TINY))


@helper(fastmath=FAST)
def _gain(height_i, height_t, k_ii, k_tt, k_it):
    """Second-order decrease of the objective for the pair (i, t), up to a factor 2."""
    g = fmax(height_i - height_t, np.float32(0.0))
    return g * g / _curvature(k_ii, k_tt, k_it)


@helper(fastmath=FAST)
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


@helper()
def smo(store, state, matrix, samples, points, recent, tol, max_iter):
    """Improve `state` until its gap is at most `tol`, a row is missing or `max_iter` is reached."""
    # Returns status (OPTIMAL, PAUSED or WANTS_ROW), the sample whose row is missing or -1, the
    # number of iterations, and the bias interval (infinite with WANTS_ROW).
    beta, v, lower, upper, grow, shrink, pair, trace = state
    rows, slot, diagonal = store
    clock = 0
    if recent is not None:
        used, clock = recent.used, recent.clock[0]
    m = v.size
    height = np.empty(m, dtype=np.float32)
    gains = np.empty(m, dtype=np.float32)
    step = 0.0
    slot_i = slot_j = 0
    n_iter, wanted, status = 0, -1, WANTS_ROW
    while True:
        pair[0] = pair[1] = -1
        last = _Step(step, slot_i, slot_j)
        top, i, bottom = _apply_step(v, grow, shrink, last, trace[0], rows, height)
        if top - bottom <= max(tol, CLOSED * max(abs(top), abs(bottom))):
            status = OPTIMAL
            break
        if n_iter >= max_iter:
            status = PAUSED
            break
        pair[0] = i
        slot_i = slot[i]
        if slot_i < 0:
            slot_i = missing_row(i, rows, slot, matrix, samples, points, recent, clock + n_iter)
            if slot_i < 0:
                wanted = i
                break
        if recent is not None:
            used[slot_i] = clock + n_iter

        k_ii = diagonal[i]
        height_i = np.float32(top - trace[0])
        j = _best_partner(height_i, height, rows, slot_i, diagonal, k_ii, gains)
        if j < 0:  # the gap is too small for float32, relative to this reference
            j = 0
            while v[j] + shrink[j] != bottom:
                j += 1
        pair[1] = j
        slot_j = slot[j]
        if slot_j < 0:
            slot_j = missing_row(j, rows, slot, matrix, samples, points, recent, clock + n_iter)
            if slot_j < 0:
                wanted = j
                break
        if recent is not None:
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
        mark(i, state)
        mark(j, state)
        trace[0] = top
        n_iter += 1
    if status == WANTS_ROW:
        top, bottom = np.inf, -np.inf
    return status, wanted, n_iter, top, bottom  # in one place: each releases all arrays


class _Steps(NamedTuple):
    """A step of the pair (i, j) that v does not contain yet: v -= i * row_i + j * row_j."""

    i: float
    j: float
    row_i: np.ndarray
    row_j: np.ndarray


@helper(fastmath=FAST)
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


@helper(fastmath=FAST)
def _gain_after(height_t, room, k_tt, k_it, after):
    """Decrease of the objective by row t after row i has made its step, up to a factor 2."""
    # `room` is what `State` has in `grow` and `shrink`; `after` is that step and 1 / k_ii.
    x = height_t - after[0] * k_it
    x = fmax(fmax(x + room[0], -x - room[1]), np.float32(0.0))
    return x * x / fmax(k_tt - after[1] * k_it * k_it, fmax(ROUNDING * k_tt, TINY))


@helper(fastmath=FAST)
def _best_gain_after(state, height, row_i, diagonal, after, start, stop):
    grow, shrink = state.grow, state.shrink
    best = np.float32(0.0)
    for t in range(np.uint64(start), np.uint64(stop)):
        gain = _gain_after(height[t], (grow[t], shrink[t]), diagonal[t], row_i[t], after)
        best = fmax(best, gain)
    return best


@helper()
def _clip(x, low, high):
    return min(max(x, low), high)


@helper()
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


@helper()
def _move(i, step, room, state):
    """Add a step to a multiplier; at the end of its room it is exactly at the bound."""
    if step == room[0]:
        state.beta[i] = state.lower[i]
    elif step == room[1]:
        state.beta[i] = state.upper[i]
    else:
        state.beta[i] += step
    mark(i, state)


@helper()
def coordinate_descent(store, state, matrix, samples, points, recent, tol, max_iter):
    """`smo` for a problem without equality, which has no bias."""
    # The gap is twice the largest open |v|, so that `tol` means the same as for `smo`: every v is
    # within tol / 2 of the middle.
    beta, v, lower, upper, grow, shrink, pair, _ = state
    rows, slot, diagonal = store
    clock = 0
    if recent is not None:
        used, clock = recent.used, recent.clock[0]
    m = v.size
    height = np.empty(m, dtype=np.float32)
    step_i = step_j = 0.0  # and any finite rows, as in `smo`
    row_i = row_j = diagonal
    n_iter, wanted, status = 0, -1, WANTS_ROW
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
            status = OPTIMAL
            break
        if n_iter >= max_iter:
            status = PAUSED
            break
        i = block
        while v[i] + grow[i] != top and -v[i] - shrink[i] != top:
            i += 1
        pair[0] = i
        slot_i = slot[i]
        if slot_i < 0:
            slot_i = missing_row(i, rows, slot, matrix, samples, points, recent, clock + n_iter)
            if slot_i < 0:
                wanted = i
                break
        if recent is not None:
            used[slot_i] = clock + n_iter
        row_i = rows[slot_i]

        k_ii = max(diagonal[i], TINY)
        room_i = (lower[i] - beta[i], upper[i] - beta[i])
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
            while best > _gain_after(height[j], (grow[j], shrink[j]), diagonal[j], row_i[j], after):
                j += 1
            if best > 0.0 and j != i:
                pair[1] = j
                slot_j = slot[j]
                if slot_j < 0:
                    slot_j = missing_row(
                        j, rows, slot, matrix, samples, points, recent, clock + n_iter
                    )
                    if slot_j < 0:
                        wanted = j
                        break
                if recent is not None:
                    used[slot_j] = clock + n_iter
                row_j = rows[slot_j]
                room_j = (lower[j] - beta[j], upper[j] - beta[j])
                k = (np.float64(k_ii), np.float64(max(diagonal[j], TINY)), np.float64(row_i[j]))
                step_i, step_j = _best_steps(v[i], v[j], k, room_i, room_j)
                _move(j, step_j, room_j, state)
        _move(i, step_i, room_i, state)
        n_iter += 1
    if status == WANTS_ROW:
        top = np.inf
    return status, wanted, n_iter, top, -top


# Coordinate descent stops if that many passes over the rows, and that many iterations, have not
# made the gap smaller by this factor: rows that are equal in float32 can exchange their multipliers
# for ever. The gap of SMO is seen to rest for up to 400 passes, or 100,000 iterations, before it
# falls again: it gets this many times as long.
_PASSES, _ITERATIONS, _SMALLER, _PATIENCE = 30, 10_000, 0.9, 100


class Limits(NamedTuple):
    """When a loop looks for multipliers that may rest, and when it returns."""

    tol: float
    # See `Tuning`.
    look: int
    few: int
    share: float
    # Rows times iterations after which the function returns, so that the caller can stop it; an
    # iteration counts as ITERATION rows more.
    work: float


class Stack(NamedTuple):
    """Memory for the parts of a problem over m rows: one after the other, level by level."""

    values: np.ndarray  # (4, m) float64: `beta`, `v`, `lower` and `upper`.
    singles: np.ndarray  # (3, m) float32: `grow`, `shrink` and the diagonal.
    slot: np.ndarray  # (m,) int32
    # (2, m) int64: Rows of the level below that make up a part, and these as rows of the problem.
    active: np.ndarray
    # (_DEPTH, 4) float64: Of each level its `trace`, and all work so far.
    trace: np.ndarray
    # (_DEPTH, 4) int64: Of each level the iteration at which it began, the end of the scratch in
    # use, and the first and last of its entries here. The problem itself has none.
    places: np.ndarray


# Most levels: each has less than `Limits.share` of the rows of the one below. Parts begin at
# multiples of 16, so that vectors of numbers lie within cache lines.
_DEPTH, _ALIGNED = 64, 16


@helper()
def stack_for(m):
    """Memory for parts of problems over m rows; what is not used is not touched."""
    size = m + _ALIGNED * _DEPTH
    return Stack(
        np.empty((4, size)),
        np.empty((3, size), dtype=np.float32),
        np.empty(size, dtype=np.int32),
        np.empty((2, size), dtype=np.int64),
        np.zeros((_DEPTH, 4)),
        np.zeros((_DEPTH, 4), dtype=np.int64),
    )


@helper()
def optimise(store, state, source, points, recent, rules, fixed_bias, memory):
    """Improve `state` from iteration `n_iter` on; return what `smo` does, with the new `n_iter`."""
    # `source` is (matrix, samples) of a `RowMaker`, as `points` and `recent`. `rules` are
    # (`Limits`, `n_iter`, its end); `memory` is float32 scratch for rows of parts, and a `Stack`.
    # `fixed_bias` is None where the sum of the multipliers is given, else anything: only one of
    # the two loops is compiled. The status WANTS_PART means that a part does not fit, PAUSED
    # before the last iteration that `Limits.work` is used up.
    # Parts are kept on a stack: Numba cannot cache a function that calls itself.
    (matrix, samples), (limits, n_iter, max_iter), (scratch, stack) = source, rules, memory
    patience = _PATIENCE if fixed_bias is None else 1
    places, work = stack.places, stack.trace[:, 3]
    work[0] = 0.0
    # The level that is optimised.
    depth, rows, here, index = 0, store, state, samples
    points_here, recent_here = points, recent
    while True:
        m, begin = here.v.size, places[depth, 0]
        # Look after fixed numbers of iterations, whatever made the function return in between.
        allowed = min(max_iter - n_iter, limits.look - (n_iter - begin) % limits.look)
        if fixed_bias is None:
            status, wanted, done, top, bottom = smo(
                rows, here, matrix, index, points_here, recent_here, limits.tol, allowed
            )
        else:
            status, wanted, done, top, bottom = coordinate_descent(
                rows, here, matrix, index, points_here, recent_here, limits.tol, allowed
            )
        if recent is not None:
            recent_here.clock[0] += done
        n_iter += done
        work[depth] += float(done) * (m + ITERATION)
        if status == PAUSED:
            trace = here.trace
            if top - bottom < _SMALLER * trace[1]:
                trace[1], trace[2] = top - bottom, n_iter
            elif n_iter - trace[2] > patience * max(_PASSES * m, _ITERATIONS):
                status = STALLED
        finished = status != PAUSED or n_iter >= max_iter
        if not finished and limits.few < m and (n_iter - begin) % limits.look == 0:
            part = may_move(here.v, here.grow, here.shrink, top, bottom)
            n = part.size
            if n < limits.share * m:
                if _reserve(stack, depth, n, n_iter, scratch.size):
                    depth += 1
                    work[depth] = work[depth - 1]
                    below, below_state, below_index = rows, here, index
                    rows, here, index = _part(stack, depth, scratch, state.pair)
                    _fill_part(stack, depth, part, below, below_state, below_index)
                    if recent is not None:
                        points_here = _part_points(points, index)
                        recent_here = _part_slots(stack.slot.size)
                    continue
                if depth == 0:
                    status = WANTS_PART
                    break
        if not finished and work[depth] <= limits.work:
            continue
        if depth == 0:
            break
        # A part is done: the level below takes over its multipliers and continues.
        beta = here.beta
        part = stack.active[0, places[depth, 2] : places[depth, 3]]
        depth -= 1
        rows, here, index, points_here, recent_here = store, state, samples, points, recent
        if depth > 0:
            rows, here, index = _part(stack, depth, scratch, state.pair)
            if recent is not None:
                points_here = _part_points(points, index)
                recent_here = _part_slots(stack.slot.size)
        _take_over(part, beta, rows, here, matrix, index, points_here, recent_here)
        if status == OPTIMAL:  # not idle, even if other rows now make the gap
            here.trace[2] += n_iter - begin
        work[depth] = work[depth + 1] + here.v.size
        # Here, not only above: one part after the other may use up its work and end.
        if depth == 0 and work[0] > limits.work and n_iter < max_iter:
            status = PAUSED
            break
    return status, wanted, n_iter, top, bottom


@helper()
def _reserve(stack, depth, n, n_iter, scratch_size):
    """Make room for a part of n rows above level `depth`; False if there is not enough."""
    used, last = stack.places[depth, 1], stack.places[depth, 3]
    first = (last + _ALIGNED - 1) // _ALIGNED * _ALIGNED
    if used + n * n > scratch_size or first + n > stack.slot.size or depth + 1 == _DEPTH:
        return False
    place = stack.places[depth + 1]
    place[0], place[1], place[2], place[3] = n_iter, used + n * n, first, first + n
    return True


@helper()
def _part(stack, depth, scratch, pair):
    """Rows, state and samples of the part at level `depth`."""
    end, first, last = stack.places[depth, 1], stack.places[depth, 2], stack.places[depth, 3]
    values, singles, n = stack.values, stack.singles, last - first
    rows = RowStore(
        scratch[end - n * n : end].reshape(n, n), stack.slot[first:last], singles[2, first:last]
    )
    state = State(
        values[0, first:last],
        values[1, first:last],
        values[2, first:last],
        values[3, first:last],
        singles[0, first:last],
        singles[1, first:last],
        pair,
        stack.trace[depth],
    )
    return rows, state, stack.active[1, first:last]


@helper()
def _fill_part(stack, depth, active, store, state, samples):
    """Copy the multipliers `active` of the level below to level `depth`."""
    first, trace = stack.places[depth, 2], stack.trace
    values, singles = stack.values, stack.singles
    trace[depth, 0], trace[depth, 1], trace[depth, 2] = 0.0, np.inf, 0.0
    for k in range(active.size):
        t, i = first + k, active[k]
        values[0, t], values[1, t] = state.beta[i], state.v[i]
        values[2, t], values[3, t] = state.lower[i], state.upper[i]
        singles[0, t], singles[1, t] = state.grow[i], state.shrink[i]
        singles[2, t] = store.diagonal[i]
        stack.slot[t], stack.active[0, t] = -1, i
        stack.active[1, t] = samples[i] if samples.size > 0 else i


@helper()
def _part_points(points, samples):
    """Some of the points, for rows of a part."""
    Z = np.empty((samples.size, points.Z.shape[1]), dtype=points.Z.dtype)
    columns = np.zeros((points.columns.shape[0], samples.size), dtype=points.Z.dtype)
    for t in range(samples.size):
        for f in range(Z.shape[1]):
            value = points.Z[samples[t], f]
            Z[t, f] = value
            columns[f, t] = value
    return Narrow(Z, columns, points.ratio)


@helper()
def _part_slots(n):
    """The use of slots of a part of up to n rows: each row has one of its own."""
    used, owner = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    clock, none = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
    return Recent(used, owner, clock, none, clock)


@helper()
def _take_over(active, beta, store, state, matrix, samples, points, recent):
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
    rows, slot, _ = store
    # The rows of a finished part are seldom needed again: they are not cached.
    if recent is None:
        copy_rows(moved[:n], rows, slot, matrix, samples)
        subtract_rows(state.v, change[:n], moved[:n], slot, rows)
    else:
        subtract_made_rows(state.v, change[:n], moved[:n], points, slot, rows)
    set_marks(state)
