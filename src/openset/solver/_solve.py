"""Solve one problem over shared kernel rows."""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..utils import interrupts
from . import _state
from ._coordinate_descent import coordinate_descent
from ._problem import Problem, Solution, feasible_start, fixed_bias_problem
from ._rows import KernelRows
from ._smo import smo

# A compiled loop comes back to Python about this often, in seconds, to look at the stop flag.
_SLICE = 0.2
# After so many iterations it is asked which multipliers may still move; they are optimised alone
# where there are more than _FEW and no more than this share is left.
_LOOK = 64
_FEW = 256
_SHARE = 0.2
# Multiplications of two rows by one core, in elements a second; only sizes the slices.
_SPEED = 5e8


ONE_SIDED = (
    "The bias is bounded from one side only: the sum of the multipliers lies at the end of its "
    "range. Choose lam in [0, 1) and give both classes samples."
)


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
    rows : KernelRows
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Largest number of iterations; -1 for no limit.
    start : ndarray of shape (m,), default=None
        Feasible multipliers to start from.
    v : ndarray of shape (m,), default=None
        ``p - K @ start`` where it is known already.
    stop : threading.Event, default=None
        Leave with :class:`Interrupted` soon after it is set; None is that of `rows`.

    Returns
    -------
    Solution
    """
    stop = rows.stop if stop is None else stop
    beta = feasible_start(problem) if start is None else start.copy()
    v = gradient(problem, rows, beta) if v is None else v.copy()
    limit = np.iinfo(np.int64).max if max_iter < 0 else max_iter
    with interrupts():
        n_iter, top, bottom = _optimise(problem, rows, beta, v, tol, limit, stop)
        return _finish(problem, beta, v, top, bottom, n_iter, tol)


def _optimise(problem, rows, beta, v, tol, limit, stop):
    """Improve beta and v in place; return the number of iterations and the bias interval.

    Soon most multipliers lie at a bound and stay there. Then the others are optimised alone, over
    their own part of the kernel matrix (the same again, with fewer rows), and v of all is brought
    up to date at once: a moved multiplier then costs one pass over v, not one for every move.
    """
    loop = coordinate_descent if problem.total is None else smo
    grow = np.empty(len(v), dtype=np.float32)
    shrink = np.empty(len(v), dtype=np.float32)
    _state.set_marks(beta, problem.lower, problem.upper, grow, shrink)
    pair = np.empty(2, dtype=np.int64)
    reference = np.zeros(1)
    needed = pair[:0]
    n_iter = 0
    with rows.maker() as maker:
        while True:
            # A look after fixed numbers of iterations, whatever made the loop come back between.
            look = min(limit, (n_iter // _LOOK + 1) * _LOOK)
            with rows.reading(needed):
                status, wanted, done, top, bottom = loop(
                    rows.rows,
                    rows.slot,
                    rows.diagonal,
                    problem.lower,
                    problem.upper,
                    beta,
                    v,
                    grow,
                    shrink,
                    pair,
                    reference,
                    tol,
                    look - n_iter,
                    rows.used,
                    rows.clock,
                    maker,
                )
            rows.clock += done
            n_iter += done
            if status == _state.OPTIMAL or (status == _state.PAUSED and n_iter >= limit):
                return n_iter, top, bottom
            if stop is not None and stop.is_set():
                raise Interrupted
            needed = pair[:0]
            if status == _state.WANTS_ROW:
                if not rows.refill(maker, pair[pair >= 0]):
                    needed = _candidates(wanted, pair, rows, v, grow, shrink)
                continue
            active = np.flatnonzero(_state.may_move(v, grow, shrink, top, bottom))
            if _FEW < len(v) and len(active) < _SHARE * len(v):
                n_iter += _optimise_part(active, problem, rows, beta, v, tol, limit - n_iter, stop)
                _state.set_marks(beta, problem.lower, problem.upper, grow, shrink)


def _optimise_part(active, problem, rows, beta, v, tol, limit, stop):
    """Optimise the multipliers `active` alone, then bring v of all up to date."""
    part = replace(
        problem, p=problem.p[active], lower=problem.lower[active], upper=problem.upper[active]
    )
    part_beta = beta[active]
    n_iter, _, _ = _optimise(part, rows.subset(active), part_beta, v[active], tol, limit, stop)
    change = part_beta - beta[active]
    moved = np.flatnonzero(change)
    beta[active] = part_beta
    moved_rows, change = active[moved], change[moved]
    if not rows.subtract_made(v, moved_rows, change):
        gradient_update(rows, v, moved_rows, change)
    return n_iter


def lower_bias(
    problem: Problem, solution: Solution, rows: KernelRows, bias: float, **settings
) -> Solution:
    """Solution with the smallest total, above that of `problem`, whose bias is `bias`.

    The bias never rises with the total, and the problem whose bias is held at a value has the
    total that goes with it as the sum of its multipliers. So one warm solve finds the smallest
    lambda that bounds a class, where a search over lambda would need many.

    Parameters
    ----------
    problem, solution : Problem, Solution
        A machine and its solution, whose bias exceeds `bias`.
    rows : KernelRows
    bias : float
    **settings
        tol, max_iter and stop of :func:`solve`.

    Returns
    -------
    Solution
    """
    held = fixed_bias_problem(problem, bias)
    found = solve(held, rows, start=solution.beta, v=solution.v - bias, **settings)
    return replace(
        found,
        v=found.v + bias,
        bias=bias,
        bias_interval=(bias, bias),
        objective=found.objective - bias * float(found.beta.sum()),
    )


def gradient(problem: Problem, rows: KernelRows, beta: np.ndarray) -> np.ndarray:
    """v = p - K beta."""
    v = problem.p.astype(np.float64)
    support = np.flatnonzero(beta)
    gradient_update(rows, v, support, beta[support])
    return v


def gradient_update(rows: KernelRows, v: np.ndarray, index: np.ndarray, change: np.ndarray) -> None:
    """v -= K[:, index] @ change, the rows fetched batch by batch."""
    batch = max(1, len(rows.rows) // 2)
    for k in range(0, len(index), batch):
        part = index[k : k + batch]
        with rows.reading(part):
            _state.subtract_rows(v, change[k : k + batch], part, rows.rows, rows.slot)


def _candidates(wanted, pair, rows, v, grow, shrink):
    """The working set, and rows likely to be wanted next where computing several is cheaper.

    With the row of i at hand, those are the other good partners of i; without it, the rows that
    violate the optimality conditions most.
    """
    i = pair[0]
    pair = pair[pair >= 0]
    if rows.batch == 1:
        return pair
    missing = rows.slot < 0
    if rows.slot[i] >= 0:
        gap = np.maximum(v[i] - v - shrink, 0.0)
        near = rows.rows[rows.slot[i]]
        curvature = np.maximum(rows.diagonal[i] + rows.diagonal - 2 * near, 1e-12)
        promise = gap**2 / curvature
    else:
        promise = np.maximum(v + grow - v.mean(), v.mean() - v - shrink)
    promise[~missing] = -np.inf
    promise[wanted] = np.inf
    n = min(rows.batch, int(missing.sum()))
    return np.union1d(pair, np.argpartition(-promise, n - 1)[:n])


def slice_iterations(m: int) -> int:
    """How many iterations over m rows a compiled loop may do before it looks up."""
    return max(1, int(_SLICE * _SPEED / m))


def biases_of(problem, betas, vs):
    """Biases, bias intervals and objectives of solutions, one a row."""
    bias, interval, objective = _state.summarise_all(
        problem.p, problem.lower, problem.upper, betas, vs
    )
    if problem.total is None:
        return np.zeros(len(bias)), np.zeros_like(interval), objective
    if not np.isfinite(bias).all():
        raise ValueError(ONE_SIDED)
    return bias, interval, objective


def warn_not_converged(n_iter, gap, tol):
    warnings.warn(
        f"The solver stopped after {n_iter} iterations with a KKT gap of {gap:.3g} > "
        f"tol={tol:g}. Raise max_iter (-1 for no limit) or tol, or scale the data.",
        ConvergenceWarning,
        stacklevel=4,
    )


def _finish(problem, beta, v, top, bottom, n_iter, tol):
    gap = max(float(top - bottom), 0.0)
    (bias,), (interval,), (objective,) = biases_of(problem, beta[None], v[None])
    status = "optimal" if gap <= tol else "max_iter"
    if status == "max_iter":
        warn_not_converged(n_iter, gap, tol)
    interval = tuple(interval.tolist())
    return Solution(beta, v, float(bias), interval, float(objective), gap, int(n_iter), status)
