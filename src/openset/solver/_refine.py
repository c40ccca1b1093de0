"""What follows a solution: optimality in float64, and a bias that is held.

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
from dataclasses import replace

import numpy as np

from ._path import Solved
from ._problem import Problem, Solution, fixed_bias_problem
from ._rows import KernelRows
from ._solve import biases_of, iteration_limit, solve, warn_not_converged
from .points import PRODUCT_ERROR

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
    """Continue from a solution over `rows` until its KKT gap holds in float64.

    It is the same solution where rounding cannot matter. `problem` has its total, `rows` are no
    subset; the settings are those of :func:`openset.solver.solve`.
    """
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
