"""A solver to check the fast one against: the same problems, a dense float64 kernel matrix, NumPy.

It is written from the optimality conditions, shares no code with the compiled loops and makes no
attempt to be quick: every iteration looks at all rows.
"""

from __future__ import annotations

import numpy as np

from openset.solver import Problem, Solution


def solve_reference(
    problem: Problem, K: np.ndarray, *, tol: float, max_iter: int = 1_000_000
) -> Solution:
    """Solve `problem` over the kernel matrix `K`.

    Parameters
    ----------
    problem : Problem
        Its boxes have to allow its total.
    K : ndarray of shape (m, m), float64
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int, default=1_000_000
        Largest number of iterations; the status says whether it was reached.

    Returns
    -------
    Solution
    """
    lower, upper = problem.lower, problem.upper
    step = _descend if problem.total is None else _exchange
    beta = _fill_in_order(problem)
    for n_iter in range(max_iter + 1):
        v = problem.p - K @ beta
        can_grow, can_shrink = beta < upper, beta > lower
        gap = _violation(problem, v, can_grow, can_shrink)
        if gap <= tol or n_iter == max_iter:
            break
        step(problem, K, beta, v, can_grow, can_shrink)

    bias, interval = 0.0, (0.0, 0.0)
    if problem.total is not None:
        interval = (v[can_grow].max(initial=-np.inf), v[can_shrink].min(initial=np.inf))
        free = can_grow & can_shrink
        bias = v[free].mean() if free.any() else 0.5 * (interval[0] + interval[1])
    objective = 0.5 * beta @ K @ beta - problem.p @ beta
    status = "optimal" if gap <= tol else "max_iter"
    return Solution(beta, v, bias, interval, objective, max(gap, 0.0), n_iter, status)


def _fill_in_order(problem):
    """Zero, then the first rows filled to their bound until the total is reached."""
    beta = np.clip(0.0, problem.lower, problem.upper)
    for i in range(len(beta)):
        if problem.total is not None:
            missing = problem.total - beta.sum()
            beta[i] = np.clip(beta[i] + missing, problem.lower[i], problem.upper[i])
    return beta


def _violation(problem, v, can_grow, can_shrink):
    """How far the best direction that is still open lies from being no improvement."""
    growth = v[can_grow].max(initial=-np.inf)
    shrinkage = v[can_shrink].min(initial=np.inf)
    if problem.total is None:  # one multiplier moves alone; doubled, to mean the same as a pair's
        return 2 * max(growth, -shrinkage, 0.0)
    return growth - shrinkage


def _exchange(problem, K, beta, v, can_grow, can_shrink):
    """Move the best amount from multiplier j to multiplier i: the sum stays."""
    i = np.argmax(np.where(can_grow, v, -np.inf))
    slope = v[i] - v
    curvature = K[i, i] + K.diagonal() - 2 * K[i]
    curvature = np.where(curvature > 0, curvature, 1e-12)
    j = np.argmax(np.where(can_shrink & (slope > 0), slope**2 / curvature, -np.inf))
    room_i, room_j = problem.upper[i] - beta[i], beta[j] - problem.lower[j]
    amount = min(slope[j] / curvature[j], room_i, room_j)
    beta[i] = problem.upper[i] if amount == room_i else beta[i] + amount
    beta[j] = problem.lower[j] if amount == room_j else beta[j] - amount


def _descend(problem, K, beta, v, can_grow, can_shrink):
    """Move the multiplier with the steepest open direction to its best value."""
    open_slope = np.where(((v > 0) & can_grow) | ((v < 0) & can_shrink), np.abs(v), 0.0)
    i = np.argmax(open_slope)
    best = beta[i] + v[i] / max(K[i, i], 1e-12)
    beta[i] = np.clip(best, problem.lower[i], problem.upper[i])
