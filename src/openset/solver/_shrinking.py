"""Optimise one problem without returning to Python: SMO with shrinking, compiled as a whole.

Soon most multipliers lie at a bound and stay there. Then the others are optimised alone, over their
own part of the kernel matrix (by the same function, with fewer rows), and v of all rows is updated
once: a moved multiplier costs one pass over v, not one per move.

With many threads every return to Python waits for the interpreter's lock. So a whole problem is one
call wherever rows can be made by compiled code: copied from a matrix, or made from narrow points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.compiled import njit
from ._rows import RowMaker, fill_rows, subtract_made_rows
from ._smo import coordinate_descent, smo
from ._squares import Narrow
from ._state import (
    ITERATION,
    OPTIMAL,
    PAUSED,
    STALLED,
    WANTS_PART,
    Box,
    RowStore,
    State,
    may_move,
    set_marks,
    subtract_rows,
)

# Coordinate descent stops if that many passes over the rows, and that many iterations, have not
# made the gap smaller by this factor: rows that are equal in float32 can exchange their multipliers
# for ever. The gap of SMO is seen to rest for up to 400 passes, or 100,000 iterations, before it
# falls again: it gets this many times as long.
_PASSES, _ITERATIONS, _SMALLER, _PATIENCE = 30, 10_000, 0.9, 100


class Limits(NamedTuple):
    """Which loop optimises, when it looks for multipliers that may rest, and when it returns.

    Attributes
    ----------
    equality : bool
        Whether the sum of the multipliers is given.
    tol : float
    look, few, share
        See :class:`Tuning`.
    work : float
        Rows times iterations after which the function returns, so that the caller can stop it; an
        iteration counts as ITERATION rows more.
    """

    equality: bool
    tol: float
    look: int
    few: int
    share: float
    work: float


class _Level(NamedTuple):
    """A problem, or the part of one that is optimised alone.

    `active` are the rows of the level below that make up the part.
    """

    store: RowStore
    maker: RowMaker
    box: Box
    state: State
    active: np.ndarray


@njit(cache=True, nogil=True)
def optimise(store, maker, box, state, limits, n_iter, max_iter, scratch):
    """Improve `state` from iteration `n_iter` on; return what `smo` does, with the new `n_iter`.

    `scratch` is float32 memory for the rows of parts. The status WANTS_PART means that a part does
    not fit, PAUSED before `max_iter` that ``limits.work`` is used up.

    Parts are kept on a stack: Numba cannot cache a function that calls itself.
    """
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
            active = np.flatnonzero(may_move(level.state, top, bottom))
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _part_points(points, active):
    Z = np.empty((active.size, points.Z.shape[1]), dtype=points.Z.dtype)
    columns = np.zeros((points.columns.shape[0], active.size), dtype=points.Z.dtype)
    for t in range(active.size):
        for f in range(Z.shape[1]):
            value = points.Z[active[t], f]
            Z[t, f] = value
            columns[f, t] = value
    return Narrow(Z, columns, points.ratio)
