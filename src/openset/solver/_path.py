"""One problem for a whole sequence of totals: the lambda path.

As the sum of the multipliers grows, the multipliers move along a piecewise linear path. So the next
solution is predicted by the line through the last two, and v, being linear in the multipliers, is
continued along with it; only multipliers that the line carries out of their box need a kernel row.
A few iterations then correct the prediction.

Following the exact path from breakpoint to breakpoint does not pay: each breakpoint costs a linear
system in the free multipliers and a product with their rows, and up to a hundred lie between two
lambdas of the paper's grid. Correcting the prediction takes a few hundred iterations of two rows.

Where all rows are in memory, compiled code follows a path, see ``_sweep``; where they are made on
demand, `solve_path` does.
"""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from ..utils.compiled import helper, njit
from ._problem import Problem, Solution, Solved, shift_total
from ._rows import KernelRows
from ._solve import solve
from ._state import copy_values, subtract_rows


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
            which, change = np.empty(shape[1], dtype=np.int64), np.empty(shape[1])
            n, _ = _extrapolate(totals, betas, vs, k, problem.lower, problem.upper, which, change)
            rows.subtract(vs[k], which[:n], change[:n])
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


@helper()
def start_from(beta, p, v, which, change, slot, rows):
    """v of the multipliers `beta`; `which` and `change` are memory for them."""
    copy_values(v, p)
    n = 0
    for t in range(beta.size):
        if beta[t] != 0.0:
            which[n] = t
            change[n] = beta[t]
            n += 1
    subtract_rows(v, change[:n], which[:n], slot, rows)


@helper()
def continue_path(totals, betas, vs, k, box, moved, slot, rows):
    """Multipliers to start from at total k, and their v, from those at the totals before."""
    (lower, upper), (which, change) = box, moved
    beta, v, total, n = betas[k], vs[k], 0.0, 0
    if k == 1:
        copy_values(beta, betas[0])
        copy_values(v, vs[0])
        for t in range(beta.size):
            total += beta[t]
    else:
        n, total = extrapolate(totals, betas, vs, k, lower, upper, which, change)
        subtract_rows(v, change[:n], which[:n], slot, rows)
    missing = totals[k] - total
    # The line keeps the sum: only clipping, not rounding, needs a correction.
    if abs(missing) > 1e-12 * abs(totals[k]):
        n = _shift_total(missing, lower, upper, beta, v, which, change)
        subtract_rows(v, change[:n], which[:n], slot, rows)


@helper()
def extrapolate(totals, betas, vs, k, lower, upper, which, change):
    """Continue the line through solutions k - 2 and k - 1 to k and clip it to the box."""
    # `which` and `change` receive the multipliers that were clipped; their number is returned with
    # the sum of all multipliers.
    ratio = (totals[k] - totals[k - 1]) / (totals[k - 1] - totals[k - 2])
    # Far beyond its base the line says little and magnifies errors: stay at the last solution.
    if ratio > 4.0:
        ratio = 0.0
    n_clipped = 0
    total = 0.0
    for t in range(betas.shape[1]):
        b = betas[k - 1, t] + ratio * (betas[k - 1, t] - betas[k - 2, t])
        vs[k, t] = vs[k - 1, t] + ratio * (vs[k - 1, t] - vs[k - 2, t])
        inside = min(max(b, lower[t]), upper[t])
        if inside != b:
            which[n_clipped] = t
            change[n_clipped] = inside - b
            n_clipped += 1
        betas[k, t] = inside
        total += inside
    return n_clipped, total


@helper()
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


@helper()
def _shift_total(missing, lower, upper, beta, v, index, change):
    """`shift_total`, compiled: change the sum by `missing`; return how many multipliers moved."""
    bound = upper if missing > 0 else lower
    n_open = 0
    for t in range(beta.size):
        if bound[t] != beta[t]:
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
        _sift_down(index, 0, last, direction, v)
        room = abs(bound[t] - beta[t])
        change[n] = direction * left if room > left else bound[t] - beta[t]
        beta[t] = beta[t] + change[n] if room > left else bound[t]
        left = 0.0 if room > left else left - room
        n += 1
    for k in range(min(n, n_open // 2)):
        index[k], index[n_open - 1 - k] = index[n_open - 1 - k], index[k]
    return n


@helper()
def carry(beta, v, terms, box, total, equality, moved, kernel):
    """Start from the solution for another linear term and other boxes; change it in place."""
    # `terms` are the linear terms before and now, `kernel` the slots and rows.
    # Multipliers at a bound grow with the box, and free ones stay: in between lies the multiple of
    # the solution with the least objective, where the sum leaves a choice.
    (before, p), (lower, upper), (which, change), (slot, rows) = terms, box, moved, kernel
    room, slope, curvature, reached, size = np.inf, 0.0, 0.0, 0.0, 0.0
    for t in range(beta.size):
        b = beta[t]
        if b != 0.0:
            room = min(room, (upper[t] if b > 0.0 else lower[t]) / b)
            slope += p[t] * b
            curvature += (before[t] - v[t]) * b
            reached += b
            size += abs(b)
    scale = slope / curvature if curvature > 0.0 else 1.0
    if equality and total != 0.0 and abs(reached) > 1e-9 * size:
        scale = total / reached
    scale = max(0.0, min(scale, room))
    n, reached, size = 0, 0.0, 0.0
    for t in range(beta.size):
        b = scale * beta[t]
        v[t] = p[t] - scale * (before[t] - v[t])
        beta[t] = min(max(b, lower[t]), upper[t])
        reached += beta[t]
        size += abs(beta[t])
        if beta[t] != b:
            which[n] = t
            change[n] = beta[t] - b
            n += 1
    subtract_rows(v, change[:n], which[:n], slot, rows)
    if equality and abs(total - reached) > 1e-12 * size:
        n = _shift_total(total - reached, lower, upper, beta, v, which, change)
        subtract_rows(v, change[:n], which[:n], slot, rows)


@helper()
def identity_start(p, lower, upper, total, beta, which, change):
    """beta = clip(p + mu) with the mu that gives the right sum: exact if the kernel matrix is I."""
    low, high = np.inf, -np.inf
    for t in range(p.size):
        low, high = min(low, lower[t] - p[t]), max(high, upper[t] - p[t])
    for _ in range(60):
        mu = 0.5 * (low + high)
        reached = 0.0
        for t in range(p.size):
            beta[t] = min(max(p[t] + mu, lower[t]), upper[t])
            reached += beta[t]
        if reached > total:
            high = mu
        else:
            low = mu
    missing, size = total - reached, 0.0
    for t in range(p.size):
        size += abs(beta[t])
    if abs(missing) > 1e-12 * size:
        _shift_total(missing, lower, upper, beta, p, which, change)


# The same for Python.
_extrapolate = njit(cache=True, nogil=True)(extrapolate)
