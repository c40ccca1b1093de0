"""One problem for a whole sequence of totals: the lambda path.

As the sum of the multipliers grows, the multipliers move along a piecewise linear path. So the next
solution is predicted by the line through the last two, and v, being linear in the multipliers, is
continued along with it; only multipliers that the line carries out of their box need a kernel row.
A few iterations then correct the prediction.

Following the exact path from breakpoint to breakpoint does not pay: each breakpoint costs a linear
system in the free multipliers and a product with their rows, and up to a hundred lie between two
lambdas of the paper's grid. Correcting the prediction takes a few hundred iterations of two rows.

Where all rows are in memory, `run_slice` follows a path in compiled code, see ``_sweep``; where
they are made on demand, `solve_path` does.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..utils.compiled import njit
from ._problem import Problem, Solution, Solved, shift_total
from ._rows import KernelRows
from ._smo import Limits, optimise
from ._solve import solve
from ._state import ITERATION, PAUSED, Box, State, copy_values, set_marks, subtract_rows


def solve_path(
    problem: Problem,
    totals: np.ndarray,
    rows: KernelRows,
    *,
    tol: float,
    max_iter: int = -1,
    starts: list[np.ndarray] | None = None,
    stop: threading.Event | None = None,
) -> Solved:
    """Solve `problem` with each of the sums `totals`, in their order.

    Parameters
    ----------
    problem : Problem
        Its own ``total`` is ignored unless it is None: without equality there is one solution,
        and `totals` must have one member, which is ignored.
    totals : ndarray of shape (T,)
        Distinct and monotone.
    rows : KernelRows
        Kernel rows of its samples.
    tol, max_iter
        As for :func:`solve`.
    starts : list of ndarray of shape (n,), default=None
        Feasible multipliers for the first totals.
    stop : threading.Event, default=None
        As for :func:`solve`.

    Returns
    -------
    Solved
    """
    totals = np.asarray(totals, dtype=np.float64)
    if problem.total is None and len(totals) != 1:
        raise ValueError(f"A problem without equality has one solution; got {len(totals)} totals.")
    if not np.isfinite(totals).all():
        raise ValueError(f"totals must be finite numbers, got {totals.tolist()}.")
    shape, starts = (len(totals), len(problem.p)), starts or []
    betas, vs = np.empty(shape), np.empty(shape)
    found: list[Solution] = []
    for k, total in enumerate(totals.tolist()):
        here = problem if problem.total is None else replace(problem, total=total)
        start, v = None, None
        if k < len(starts):
            start = starts[k]
        elif k >= 2:
            # The line through the last two solutions, clipped to the box.
            moved = Moved(np.empty(shape[1], dtype=np.int64), np.empty(shape[1]))
            members = Members(totals, betas, vs, np.empty(0, np.int64), vs[:, :2], np.empty(2))
            n, _ = extrapolate(members, k, Box(problem.lower, problem.upper), moved)
            rows.subtract(vs[k], moved.which[:n], moved.change[:n])
            start, v = _feasible_near(here, betas[k], vs[k], rows)
        elif k == 1:
            start, v = _feasible_near(here, betas[0], vs[0].copy(), rows)
        found.append(solve(here, rows, tol=tol, max_iter=max_iter, start=start, v=v, stop=stop))
        betas[k], vs[k] = found[k].beta, found[k].v
    names = ("bias", "bias_interval", "objective", "n_iter")
    values = (np.array([getattr(solution, name) for solution in found]) for name in names)
    bias, interval, objective, n_iter = values
    return Solved(problem, totals, betas, vs, bias, interval, objective, n_iter, tol)


def _feasible_near(problem, beta, v, rows):
    """Feasible multipliers near `beta`, and their v, in the memory of the v of `beta`."""
    feasible = shift_total(problem, beta, v)
    moved = np.flatnonzero(feasible != beta)
    rows.subtract(v, moved, feasible[moved] - beta[moved])
    return feasible, v


class Members(NamedTuple):
    """Arrays of a path that compiled loops fill: one row, or one value, per total."""

    # `progress` is that of the `State` at the total that is being solved.

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
    """What stays the same while a path is solved: the problem, the limits, and memory."""

    # The multipliers of the first `n_heads` totals are given, those of the first `n_ready` with v.

    box: Box
    p: np.ndarray
    n_heads: int
    n_ready: int
    limits: Limits
    max_iter: int
    scratch: np.ndarray


@njit(cache=True, nogil=True, inline="always")
def run_slice(store, maker, run, members, k, resume):
    """Solve from total k on until the limits say stop; return where to continue, and the work."""
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
    return k, resume, work


@njit(cache=True, nogil=True, inline="always")
def _start(store, run, members, k, moved):
    """Fill in the multipliers to start from at total k, and their v."""
    box, totals, beta, v = run.box, members.totals, members.betas[k], members.vs[k]
    if k < run.n_ready:
        return
    if k < run.n_heads:
        copy_values(v, run.p)
        n = 0
        for t in range(beta.size):
            if beta[t] != 0.0:
                moved.which[n] = t
                moved.change[n] = beta[t]
                n += 1
        subtract_rows(v, moved.change[:n], moved.which[:n], store)
        return
    if k == 1:
        copy_values(beta, members.betas[0])
        copy_values(v, members.vs[0])
        total = 0.0
        for t in range(beta.size):
            total += beta[t]
    else:
        n, total = extrapolate(members, k, box, moved)
        subtract_rows(v, moved.change[:n], moved.which[:n], store)
    missing = totals[k] - total
    # The line keeps the sum: only clipping, not rounding, needs a correction.
    if abs(missing) > 1e-12 * abs(totals[k]):
        n = _shift_total(missing, box, beta, v, moved)
        subtract_rows(v, moved.change[:n], moved.which[:n], store)


@njit(cache=True, nogil=True)
def extrapolate(members, k, box, moved):
    """Continue the line through solutions k - 2 and k - 1 to k and clip it to the box."""
    # `moved` receives the multipliers that were clipped; their number is returned with the sum of
    # all multipliers.
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
def _sift_down(index, k, n, direction, v):
    """Restore the heap index[:n] from entry k on: the largest direction * v first, then the row."""
    # A sort would compile for seconds.
    while 2 * k + 1 < n:
        best = k
        for child in range(2 * k + 1, min(n, 2 * k + 3)):
            a, b = direction * v[index[child]], direction * v[index[best]]
            if a > b or (a == b and index[child] < index[best]):
                best = child
        if best == k:
            return
        index[k], index[best] = index[best], index[k]
        k = best


@njit(cache=True, nogil=True)
def _shift_total(missing, box, beta, v, moved):
    """`shift_total`, compiled: change the sum by `missing`; return how many multipliers moved."""
    index, change = moved
    n_open = np.int64(0)  # literals would compile the heap for each type they have
    for t in range(beta.size):
        if (box.upper[t] if missing > 0 else box.lower[t]) != beta[t]:
            index[n_open] = t
            n_open += 1
    direction = 1.0 if missing > 0 else -1.0
    for k in range(n_open // 2 - 1, -1, -1):
        _sift_down(index, k, n_open, direction, v)
    left, n = abs(missing), 0
    while n < n_open and left > 0.0:
        # The first of the heap leaves it, to the end of `index`.
        last = n_open - 1 - n
        t, index[0] = index[0], index[last]
        index[last] = t
        _sift_down(index, np.int64(0), last, direction, v)
        bound = box.upper[t] if missing > 0 else box.lower[t]
        room = abs(bound - beta[t])
        change[n] = direction * left if room > left else bound - beta[t]
        beta[t] = beta[t] + change[n] if room > left else bound
        left = 0.0 if room > left else left - room
        n += 1
    for k in range(min(n, n_open // 2)):
        index[k], index[n_open - 1 - k] = index[n_open - 1 - k], index[k]
    return n


@njit(cache=True, nogil=True, inline="always")
def carry(store, p, run, members):
    """Start the first `n_ready` totals from their solutions for another p and other boxes."""
    # Multipliers at a bound grow with the box, and free ones stay: in between lies the multiple of
    # the solution with the least objective, where the sum leaves a choice.
    moved = Moved(np.empty(p.size, dtype=np.int64), np.empty(p.size))
    for k in range(run.n_ready):
        beta, v, total = members.betas[k], members.vs[k], members.totals[k]
        room, slope, curvature, reached, size = np.inf, 0.0, 0.0, 0.0, 0.0
        for t in range(beta.size):
            b = beta[t]
            if b != 0.0:
                room = min(room, (run.box.upper[t] if b > 0.0 else run.box.lower[t]) / b)
                slope += run.p[t] * b
                curvature += (p[t] - v[t]) * b
                reached += b
                size += abs(b)
        scale = slope / curvature if curvature > 0.0 else 1.0
        if run.limits.equality and total != 0.0 and abs(reached) > 1e-9 * size:
            scale = total / reached
        scale = max(0.0, min(scale, room))
        n, reached, size = 0, 0.0, 0.0
        for t in range(beta.size):
            b = scale * beta[t]
            v[t] = run.p[t] - scale * (p[t] - v[t])
            beta[t] = min(max(b, run.box.lower[t]), run.box.upper[t])
            reached += beta[t]
            size += abs(beta[t])
            if beta[t] != b:
                moved.which[n] = t
                moved.change[n] = beta[t] - b
                n += 1
        subtract_rows(v, moved.change[:n], moved.which[:n], store)
        if run.limits.equality and abs(total - reached) > 1e-12 * size:
            n = _shift_total(total - reached, run.box, beta, v, moved)
            subtract_rows(v, moved.change[:n], moved.which[:n], store)


@njit(cache=True, nogil=True)
def identity_start(p, box, total, beta):
    """beta = clip(p + mu) with the mu that gives the right sum: exact if the kernel matrix is I."""
    low, high = np.inf, -np.inf
    for t in range(p.size):
        low, high = min(low, box.lower[t] - p[t]), max(high, box.upper[t] - p[t])
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
    missing, size = total - reached, 0.0
    for t in range(p.size):
        size += abs(beta[t])
    if abs(missing) > 1e-12 * size:
        moved = Moved(np.empty(p.size, dtype=np.int64), np.empty(p.size))
        _shift_total(missing, box, beta, p, moved)
