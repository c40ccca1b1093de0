"""The compiled loop that follows a path, see ``_path``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.compiled import njit
from ._shrinking import Limits, optimise
from ._state import ITERATION, PAUSED, Box, State, set_marks, subtract_columns, subtract_rows


class Members(NamedTuple):
    """Arrays of a path that compiled loops fill: one row, or one value, per total.

    `progress` is that of the :class:`State` at the total that is being solved.
    """

    totals: np.ndarray
    betas: np.ndarray
    vs: np.ndarray
    n_iter: np.ndarray
    intervals: np.ndarray
    progress: np.ndarray


class Moved(NamedTuple):
    """Multipliers that moved and by how much; as many entries as a function returns."""

    which: np.ndarray
    change: np.ndarray


class Run(NamedTuple):
    """What stays the same while a path is solved: the problem, the limits, and memory.

    The first multipliers of the path are given; `known` tells for which of them v is, too.
    """

    box: Box
    p: np.ndarray
    known: np.ndarray
    limits: Limits
    max_iter: int
    scratch: np.ndarray


@njit(cache=True, nogil=True)
def run_slice(store, maker, run, members, k, resume):
    """Solve from total k on until the limits say stop; return where to continue."""
    box, m = run.box, run.p.size
    grow = np.empty(m, dtype=np.float32)
    shrink = np.empty(m, dtype=np.float32)
    pair = np.empty(2, dtype=np.int64)
    reference = np.zeros(1)
    moved = Moved(np.empty(m, dtype=np.int64), np.empty(m))
    totals, n_iter, intervals = members.totals, members.n_iter, members.intervals
    work = 0.0
    while k < totals.size:
        beta = members.betas[k]
        v = members.vs[k]
        if not resume:
            _start(store, run, members, k, moved)
            members.progress[0], members.progress[1] = np.inf, n_iter[k]
        state = State(beta, v, grow, shrink, pair, reference, members.progress)
        set_marks(state, box)
        before = n_iter[k]
        status, _, n_iter[k], intervals[k, 0], intervals[k, 1] = optimise(
            store, maker, box, state, run.limits, before, run.max_iter, run.scratch
        )
        work += float(n_iter[k] - before) * (m + ITERATION)
        resume = status == PAUSED and n_iter[k] < run.max_iter
        if not resume:
            k += 1
        if work > run.limits.work:
            break
    return k, resume


@njit(cache=True, nogil=True)
def _start(store, run, members, k, moved):
    """Fill in the multipliers to start from at total k, and their v."""
    box, totals, beta, v = run.box, members.totals, members.betas[k], members.vs[k]
    if k < run.known.size:  # the multipliers are there
        if not run.known[k]:
            v[:] = run.p
            n = 0
            for t in range(beta.size):
                if beta[t] != 0.0:
                    moved.which[n] = t
                    moved.change[n] = beta[t]
                    n += 1
            subtract_rows(v, moved.change[:n], moved.which[:n], store)
        return
    if k == 1:
        beta[:] = members.betas[0]
        v[:] = members.vs[0]
        total = beta.sum()
    else:
        n, total = extrapolate(members, k, box, moved)
        subtract_rows(v, moved.change[:n], moved.which[:n], store)
    missing = totals[k] - total
    # The line keeps the sum: only clipping, not rounding, needs a correction.
    if abs(missing) > 1e-12 * np.abs(totals[k]):
        n = _shift_total(missing, box, beta, v, moved)
        subtract_rows(v, moved.change[:n], moved.which[:n], store)


@njit(cache=True, nogil=True)
def extrapolate(members, k, box, moved):
    """Continue the line through solutions k - 2 and k - 1 to k and clip it to the box.

    `moved` receives the multipliers that were clipped; their number is returned with the sum of
    all multipliers.
    """
    totals, betas, vs = members.totals, members.betas, members.vs
    ratio = (totals[k] - totals[k - 1]) / (totals[k - 1] - totals[k - 2])
    # Far beyond its base the line says little and magnifies errors: stay at the last solution.
    if ratio > 4.0:
        ratio = 0.0
    n_clipped = 0
    total = 0.0
    for t in range(betas.shape[1]):
        b = betas[k - 1, t] + ratio * (betas[k - 1, t] - betas[k - 2, t])
        vs[k, t] = vs[k - 1, t] + ratio * (vs[k - 1, t] - vs[k - 2, t])
        inside = min(max(b, box.lower[t]), box.upper[t])
        if inside != b:
            moved.which[n_clipped] = t
            moved.change[n_clipped] = inside - b
            n_clipped += 1
        betas[k, t] = inside
        total += inside
    return n_clipped, total


@njit(cache=True, nogil=True)
def _shift_total(missing, box, beta, v, moved):
    """`shift_total`, compiled: change the sum by `missing`; return how many multipliers moved."""
    index, change = moved
    n_open = 0
    for t in range(beta.size):
        if (box.upper[t] if missing > 0 else box.lower[t]) != beta[t]:
            index[n_open] = t
            n_open += 1
    direction = 1.0 if missing > 0 else -1.0
    order = np.argsort(-direction * v[index[:n_open]], kind="mergesort")
    index[:n_open] = index[:n_open][order]
    left = abs(missing)
    for n in range(n_open):
        t = index[n]
        bound = box.upper[t] if missing > 0 else box.lower[t]
        room = abs(bound - beta[t])
        if room > left:
            change[n] = direction * left
            beta[t] += change[n]
            return n + 1
        change[n] = bound - beta[t]
        beta[t] = bound
        left -= room
        if left == 0.0:
            return n + 1
    return n_open


@njit(cache=True, nogil=True)
def identity_start(p, box, total):
    low, high = (box.lower - p).min(), (box.upper - p).max()
    beta = np.empty(p.size)
    for _ in range(60):
        mu = 0.5 * (low + high)
        reached = 0.0
        for t in range(p.size):
            beta[t] = min(max(p[t] + mu, box.lower[t]), box.upper[t])
            reached += beta[t]
        if reached > total:
            high = mu
        else:
            low = mu
    missing = total - reached
    if abs(missing) > 1e-12 * np.abs(beta).sum():
        moved = Moved(np.empty(p.size, dtype=np.int64), np.empty(p.size))
        _shift_total(missing, box, beta, p, moved)
    return beta


@njit(cache=True, nogil=True)
def add_outside(rows, betas, sums):
    """sums[k] = betas[k] @ rows[:, n:], the columns after those of the problem's n samples."""
    n = betas.shape[1]
    moved = np.empty(n, dtype=np.int64)
    change = np.empty(n)
    for k in range(len(betas)):
        # What moves from one total to the next: multipliers at a bound do not.
        n_moved = 0
        for t in range(n):
            before = betas[k - 1, t] if k > 0 else 0.0
            if betas[k, t] != before:
                moved[n_moved] = t
                change[n_moved] = before - betas[k, t]
                n_moved += 1
        sums[k] = 0.0
        subtract_columns(sums[k], change[:n_moved], moved[:n_moved], rows, n)
        if k > 0:
            sums[k] += sums[k - 1]
