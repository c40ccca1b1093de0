"""Solve one problem over shared kernel rows; what follows: optimality in float64, a held bias.

Kernel rows are float32. Each kernel value carries a rounding error; over many large multipliers
these add up to more than a tight tolerance. Then v = p - K beta is computed again in float64. If
its KKT gap exceeds the tolerance, the solver continues from there: its float32 rows enter only
through the change of the multipliers, which is small.

A bias never rises with the sum of the multipliers, and the problem whose bias is held at a value
has the total that belongs to it as that sum. So one warm start finds the smallest lambda that
bounds a class, where a search over lambda would need many solutions.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..utils import interrupts
from ..utils.compiled import njit
from ._problem import Problem, Solution, Solved, feasible_start, fixed_bias_problem
from ._rows import KernelRows
from ._smo import Limits, optimise, stack_for
from ._state import (
    OPTIMAL,
    PAUSED,
    STALLED,
    WANTS_PART,
    WANTS_ROW,
    mark_all,
    may_move,
    new_state,
    summarise_all,
)
from ._tuning import part_share, tuning
from .points import PRODUCT_ERROR

ONE_SIDED = (
    "The bias is bounded from one side only: the sum of the multipliers lies at the end of its "
    "range. Choose lam in [0, 1), farther from 1, and give both classes samples."
)


_optimise_rows, _may_move = map(njit(cache=True, nogil=True), (optimise, may_move))


class Interrupted(Exception):
    """Raised inside a solver thread when the run it belongs to was stopped."""


def solve(
    problem: Problem,
    rows: KernelRows,
    *,
    tol: float,
    max_iter: int = -1,
    start: np.ndarray | None = None,
    v: np.ndarray | None = None,
    stop: threading.Event | None = None,
) -> Solution:
    """Solve `problem` over the kernel matrix `rows`.

    Parameters
    ----------
    problem : Problem
        The problem.
    rows : KernelRows
        Kernel rows of its samples.
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Largest number of iterations; -1 for no limit.
    start : ndarray of shape (m,), default=None
        Feasible multipliers to start from.
    v : ndarray of shape (m,), default=None
        ``p - K @ start`` where it is known already.
    stop : threading.Event, default=None
        Leave with :class:`Interrupted` soon after it is set.

    Returns
    -------
    Solution
    """
    beta = feasible_start(problem) if start is None else start.copy()
    if v is None:
        v = problem.p.astype(np.float64)
        support = np.flatnonzero(beta)
        rows.subtract(v, support, beta[support])
    else:
        v = v.copy()
    limit = iteration_limit(max_iter)
    with interrupts():
        n_iter, top, bottom = _optimise(problem, rows, beta, v, tol, limit, stop)
        return solution_of(problem, beta, v, top, bottom, n_iter, tol)


def _optimise(problem, rows, beta, v, tol, max_iter, stop):
    """Improve beta and v in place; return the number of iterations and the bias interval."""
    state = new_state(beta, v, problem.lower, problem.upper)
    limits, fixed_bias = limits_of(problem, tol), None if problem.total is not None else True
    stack = stack_for(len(v))
    needed = state.pair[:0]
    n_iter = 0
    if rows.working:
        n_iter = _optimise_sets(problem, rows, state, tol, max_iter, stop)
    with rows.maker() as maker, rows.scratch() as scratch:
        while True:
            with rows.reading(needed):
                status, wanted, n_iter, top, bottom = _optimise_rows(
                    rows.store,
                    state,
                    maker[:2],
                    *maker[2:],
                    (limits, n_iter, max_iter),
                    fixed_bias,
                    (scratch, stack),
                )
            if status in (OPTIMAL, STALLED) or (status == PAUSED and n_iter >= max_iter):
                return n_iter, top, bottom
            if stop is not None and stop.is_set():
                raise Interrupted
            needed = state.pair[:0]
            if status == WANTS_ROW and not rows.refill(maker, state.pair[state.pair >= 0]):
                needed = _candidates(wanted, state, rows)
            elif status == WANTS_PART:
                active = _may_move(v, state.grow, state.shrink, top, bottom)
                left = max_iter - n_iter
                n_iter += _optimise_part(active, problem, rows, beta, v, tol, left, stop)
                mark_all(state)


def _optimise_part(active, problem, rows, beta, v, tol, max_iter, stop):
    """Optimise the multipliers `active` alone, then update v of all rows."""
    part = replace(
        problem, p=problem.p[active], lower=problem.lower[active], upper=problem.upper[active]
    )
    part_beta = beta[active]
    n_iter, _, _ = _optimise(part, rows.subset(active), part_beta, v[active], tol, max_iter, stop)
    change = part_beta - beta[active]
    moved = np.flatnonzero(change)
    beta[active] = part_beta
    # The rows of a finished part are seldom needed again.
    rows.subtract(v, active[moved], change[moved], keep=False)
    return n_iter


def _optimise_sets(problem, rows, state, tol, max_iter, stop):
    """Optimise one working set after the other; return the number of iterations."""
    # Rows of wide data are cheap in large numbers only. So a part of the multipliers is optimised
    # over a matrix of its own, and then the rows of all that moved are made together. What happens
    # must not depend on which rows are in memory, where other solvers may have left them.
    beta, v = state.beta, state.v
    n_iter = 0
    for _ in range(tuning().working_rounds):
        ends = int(np.argmax(v + state.grow)), int(np.argmin(v + state.shrink))
        top, bottom = v[ends[0]] + state.grow[ends[0]], v[ends[1]] + state.shrink[ends[1]]
        gap = top - bottom if problem.total is not None else 2 * max(top, -bottom)
        n_free = np.count_nonzero((state.grow == 0) & (state.shrink == 0))
        n = min(len(v), rows.working, max(tuning().working, 3 * n_free // 2))
        if gap <= tol or n_iter >= max_iter or n_free >= n:
            break
        active = np.union1d(_working_set(state, problem, rows, n), ends)
        done = _optimise_part(active, problem, rows, beta, v, tol, max_iter - n_iter, stop)
        mark_all(state)
        n_iter += done
        if done == 0:  # it is optimal up to rounding
            break
    return n_iter


def _working_set(state, problem, rows, n):
    """Free multipliers, and those that violate the optimality conditions most, n in all."""
    v, can_grow, can_shrink = state.v, state.grow == 0, state.shrink == 0
    if not state.beta.any():
        # All violate them alike: samples of the smaller side, and those that are close to some.
        few, many = map(np.flatnonzero, sorted([can_grow, can_shrink], key=np.count_nonzero))
        few = few[:: -(-2 * len(few) // n) or 1]
        some = few[:: -(-len(few) // tuning().product_rows) or 1]
        far = np.zeros(len(v))
        rows.subtract(far, some, np.ones(len(some)))
        n = min(n - len(few), len(many))
        return np.concatenate([few, many[np.argpartition(far[many], n - 1)[:n]]])
    free = can_grow & can_shrink
    bias = 0.0 if problem.total is None or not free.any() else np.median(v[free])
    excess = np.maximum(v - bias + state.grow, bias - v - state.shrink)
    excess[free] = np.inf
    return np.argpartition(-excess, n - 1)[:n]


def iteration_limit(max_iter: int) -> int:
    """The largest number of iterations; -1 stands for no limit."""
    return np.iinfo(np.int64).max if max_iter < 0 else max_iter


def limits_of(problem: Problem, tol: float) -> Limits:
    """The limits of a compiled run; it returns several times per second."""
    constants = tuning()
    work = constants.slice_seconds * constants.speed
    share = part_share(problem.p.shape[-1])
    return Limits(tol, constants.look, constants.few, share, work)


def _candidates(wanted, state, rows):
    """The working set, and rows likely to be needed next where computing several is cheaper."""
    # If the row of i is in memory, those are the other good partners of i; if not, the rows that
    # violate the optimality conditions most.
    v, store = state.v, rows.store
    i = state.pair[0]
    pair = state.pair[state.pair >= 0]
    if rows.batch == 1:
        return pair
    missing = store.slot < 0
    if store.slot[i] >= 0:
        gap = np.maximum(v[i] - v - state.shrink, 0.0)
        near = store.rows[store.slot[i]]
        curvature = np.maximum(store.diagonal[i] + store.diagonal - 2 * near, 1e-12)
        gain = gap**2 / curvature
    else:
        gain = np.maximum(v + state.grow - v.mean(), v.mean() - v - state.shrink)
    gain[~missing] = -np.inf
    gain[wanted] = np.inf
    n = min(rows.batch, int(missing.sum()))
    return np.union1d(pair, np.argpartition(-gain, n - 1)[:n])


def biases_of(problem, betas, vs):
    """Biases, bias intervals and objectives of solutions, one per row of betas and vs."""
    lower, upper, equality = problem.lower, problem.upper, problem.total is not None
    found = summarise_all(problem.p, lower, upper, betas, vs, equality)
    if not np.isfinite(found[0]).all():
        raise ValueError(ONE_SIDED)
    return found


def warn_not_converged(n_iter, gap, tol):
    warnings.warn(
        f"The solver stopped after {n_iter} iterations with a KKT gap of {gap:.3g} > "
        f"tol={tol:g}. Raise max_iter (-1 for no limit) or tol, or scale the data.",
        ConvergenceWarning,
        stacklevel=4,
    )


def solution_of(problem, beta, v, top, bottom, n_iter, tol):
    """The solution with these multipliers and this bias interval; warn if its gap exceeds tol."""
    gap = max(float(top - bottom), 0.0)
    (bias,), (interval,), (objective,) = biases_of(problem, beta[None], v[None])
    status = "optimal" if gap <= tol else "max_iter"
    if status == "max_iter":
        warn_not_converged(n_iter, gap, tol)
    interval = tuple(interval.tolist())
    return Solution(beta, v, float(bias), interval, float(objective), gap, int(n_iter), status)


# Error of a float32 kernel value, and the part of the tolerance that their sum may have unseen.
_VALUE_ERROR = 1e-7
_SHARE = 0.25
# Largest number of rounds, and of rounds in a row that do not halve the gap.
_ROUNDS, _IDLE = 8, 2
# Share of the gap to which a round reduces it.
_GAIN = 0.1


def refined(
    problem: Problem,
    solution: Solution,
    rows: KernelRows,
    *,
    tol: float,
    max_iter: int = -1,
    stop: threading.Event | None = None,
) -> Solution:
    """Continue from a solution over all `rows` until its KKT gap holds in float64."""
    # It is the same solution where rounding cannot matter.
    if _VALUE_ERROR * np.abs(solution.beta).sum() <= _SHARE * tol:
        return solution
    limit = iteration_limit(max_iter)
    best = solution = _as_it_is(problem, solution, rows, tol)
    idle = 0
    for _ in range(_ROUNDS):
        if solution.kkt_gap <= tol or solution.n_iter >= limit or idle == _IDLE:
            break
        # Without equality, not far below the gap: what rounding hides is not worth the iterations.
        goal = tol if problem.total is not None else max(tol, _GAIN * solution.kkt_gap)
        found = solve(
            problem,
            rows,
            tol=goal,
            max_iter=limit - solution.n_iter,
            start=solution.beta,
            v=solution.v,
            stop=stop,
        )
        found = replace(found, n_iter=solution.n_iter + found.n_iter)
        solution = _as_it_is(problem, found, rows, tol)
        idle = 0 if solution.kkt_gap < 0.5 * best.kkt_gap else idle + 1
        if solution.kkt_gap < best.kkt_gap:
            best = solution
    best = replace(best, n_iter=solution.n_iter)
    if best.kkt_gap > tol:  # rounding keeps moving the multipliers
        warn_not_converged(best.n_iter, best.kkt_gap, tol)
    return best


def _as_it_is(problem, solution, rows, tol):
    """The solution with bias, objective and KKT gap in float64, and v where it matters for them."""
    beta, v = solution.beta, solution.v.copy()
    can_grow, can_shrink = beta < problem.upper, beta > problem.lower
    # Other samples are too far from the ends of the bias interval to become one.
    largest = max(1.0, float(rows.store.diagonal.max()))
    band = 2 * PRODUCT_ERROR * largest * np.abs(beta).sum()
    which = (beta != 0) | (can_grow & (v >= v[can_grow].max(initial=-np.inf) - band))
    which |= can_shrink & (v <= v[can_shrink].min(initial=np.inf) + band)
    which = np.flatnonzero(which)
    v[which] = problem.p[which] - rows._values.exact_sums(beta, which)
    (bias,), (interval,), (objective,) = biases_of(problem, beta[None], v[None])
    growth, shrinkage = v[can_grow].max(initial=-np.inf), v[can_shrink].min(initial=np.inf)
    pair = growth - shrinkage if problem.total is not None else 2 * max(growth, -shrinkage)
    gap = max(float(pair), 0.0)
    return replace(
        solution,
        v=v,
        bias=float(bias),
        bias_interval=tuple(interval.tolist()),
        objective=float(objective),
        kkt_gap=gap,
        status="optimal" if gap <= tol else "max_iter",
    )


def refined_path(path: Solved, rows: KernelRows, **settings) -> Solved:
    """Continue from a path of one solution until its KKT gap holds in float64.

    Parameters
    ----------
    path : Solved
        Of length 1.
    rows : KernelRows
        Kernel rows of its samples.
    **settings
        tol, max_iter and stop of :func:`openset.solver.solve`.

    Returns
    -------
    Solved
    """
    problem, solution = path.problem, path[0]
    if problem.total is not None:
        problem = replace(problem, total=float(path.totals[0]))
    better = refined(problem, solution, rows, **settings)
    if better is solution:
        return path
    return replace(
        path,
        beta=better.beta[None],
        v=better.v[None],
        bias=np.array([better.bias]),
        bias_interval=np.array([better.bias_interval]),
        objective=np.array([better.objective]),
        n_iter=np.array([better.n_iter]),
    )


def lower_bias(
    problem: Problem,
    solution: Solution,
    rows: KernelRows,
    bias: float,
    *,
    refine: bool = False,
    tol: float,
    max_iter: int = -1,
    stop: threading.Event | None = None,
) -> Solution:
    """Solution with the smallest total, above that of `problem`, whose bias is `bias`.

    Parameters
    ----------
    problem, solution : Problem, Solution
        A problem and its solution, whose bias exceeds `bias`.
    rows : KernelRows
        Kernel rows of its samples.
    bias : float
        The bias to reach.
    refine : bool, default=False
        Continue until the KKT gap holds in float64.
    tol, max_iter, stop
        As for :func:`solve`; the iterations of `solution` count.

    Returns
    -------
    Solution
    """
    held = fixed_bias_problem(problem, bias)
    v, left = solution.v - bias, iteration_limit(max_iter) - solution.n_iter
    lowered = solve(held, rows, tol=tol, max_iter=left, start=solution.beta, v=v, stop=stop)
    lowered = replace(lowered, n_iter=solution.n_iter + lowered.n_iter)
    if refine:
        lowered = refined(held, lowered, rows, tol=tol, max_iter=max_iter, stop=stop)
    # In terms of the problem whose bias is not held.
    return replace(
        lowered,
        v=lowered.v + bias,
        bias=bias,
        bias_interval=(bias, bias),
        objective=lowered.objective - bias * float(lowered.beta.sum()),
    )
