"""One problem for a whole sequence of totals: the lambda path.

As the sum of the multipliers grows, the multipliers move along a piecewise linear path. So the next
solution is predicted by the line through the last two, and v, being linear in the multipliers, is
continued along with it; only multipliers that the line carries out of their box need a kernel row.
A few iterations then correct the prediction.

Following the exact path from breakpoint to breakpoint does not pay: each breakpoint costs a linear
system in the free multipliers and a product with their rows, and up to a hundred lie between two
lambdas of the paper's grid. Correcting the prediction takes a few hundred iterations of two rows.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np

from ..utils import interrupts
from ..utils.compiled import njit
from ._path_loop import Members, Moved, Run, extrapolate, identity_start, run_slice
from ._problem import Problem, Solution, feasible_start, shift_total
from ._rows import KernelRows
from ._solve import Interrupted, biases_of, iteration_limit, limits_of, solve, warn_not_converged
from ._state import Box


@dataclass(frozen=True)
class Path:
    """Solutions of one problem for T totals.

    Attributes
    ----------
    problem : Problem
    totals : ndarray of shape (T,)
    beta, v : ndarray of shape (T, m)
        Multipliers, and p - K beta.
    bias, objective : ndarray of shape (T,)
    bias_interval : ndarray of shape (T, 2)
    n_iter : ndarray of shape (T,), int64
    tol : float
        Tolerance they were solved to.
    outside : ndarray of int, default=None
        Samples outside the problem of which the path has scores too, sorted; None if it is over all
        samples.
    sums_outside : ndarray of shape (T, n), default=None
        K beta at these samples.
    """

    problem: Problem
    totals: np.ndarray
    beta: np.ndarray
    v: np.ndarray
    bias: np.ndarray
    bias_interval: np.ndarray
    objective: np.ndarray
    n_iter: np.ndarray
    tol: float
    outside: np.ndarray | None = None
    sums_outside: np.ndarray | None = None

    @property
    def kkt_gap(self) -> np.ndarray:
        """Largest violation of the optimality conditions, shape (T,)."""
        return np.maximum(self.bias_interval[:, 0] - self.bias_interval[:, 1], 0.0)

    def __getitem__(self, k: int) -> Solution:
        """The solution for total k."""
        gap = float(self.kkt_gap[k])
        return Solution(
            self.beta[k],
            self.v[k],
            float(self.bias[k]),
            tuple(self.bias_interval[k].tolist()),
            float(self.objective[k]),
            gap,
            int(self.n_iter[k]),
            "optimal" if gap <= self.tol else "max_iter",
        )

    @property
    def scores(self) -> np.ndarray:
        """Decision values of all rows, held-out ones included, shape (T, m)."""
        scores = self.problem.p - self.v
        scores += self.bias[:, None]
        return scores

    def scores_at(self, rows: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """``scale * scores + shift`` of some rows, outside the problem if it has such.

        Parameters
        ----------
        rows : ndarray of shape (n,), int
        scale, shift : ndarray of shape (T,)

        Returns
        -------
        ndarray of shape (T, n)
        """
        shift = self.bias * scale + shift
        if self.outside is None:
            return _scores_at(self.problem.p, self.v, rows, scale, shift)
        return _scores_outside(self.sums_outside, self.outside, rows, scale, shift)


def solve_path(
    problem: Problem,
    totals: np.ndarray,
    rows: KernelRows,
    *,
    tol: float,
    max_iter: int = -1,
    starts: list[tuple[np.ndarray, np.ndarray | None]] | None = None,
    stop: threading.Event | None = None,
    outside: np.ndarray | None = None,
) -> Path:
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
    starts : list of (beta, v or None), default=None
        Feasible multipliers for the first totals, with their v where it is known.
    stop : threading.Event, default=None
        As for :func:`solve`.
    outside : ndarray of int, default=None
        Samples outside the problem, sorted, to which the further samples of whole `rows` belong.

    Returns
    -------
    Path
    """
    totals = np.asarray(totals, dtype=np.float64)
    if problem.total is None and len(totals) != 1:
        raise ValueError(f"A problem without equality has one solution; got {len(totals)} totals.")
    if not np.isfinite(totals).all():
        raise ValueError(f"totals must be finite numbers, got {totals.tolist()}.")
    n, m = len(totals), len(problem.p)
    path = Path(
        problem,
        totals,
        beta=np.empty((n, m)),
        v=np.empty((n, m)),
        bias=np.empty(n),
        bias_interval=np.empty((n, 2)),
        objective=np.empty(n),
        n_iter=np.zeros(n, dtype=np.int64),
        tol=tol,
        outside=outside,
        sums_outside=None if outside is None else np.empty((n, len(outside))),
    )
    if rows.whole:
        # All rows are in memory, so nothing needs Python: the path is one compiled run.
        _solve_compiled(path, rows, max_iter, starts or [], stop)
        return path
    for k in range(n):
        here = problem if problem.total is None else replace(problem, total=float(totals[k]))
        start, v = None, None
        if starts is not None and k < len(starts):
            start, v = starts[k]
        elif k >= 2:
            start, v = _predict(path, k, rows)
        elif k == 1:
            start, v = feasible_near(here, path.beta[0], path.v[0].copy(), rows)
        solution = solve(here, rows, tol=tol, max_iter=max_iter, start=start, v=v, stop=stop)
        path.beta[k], path.v[k] = solution.beta, solution.v
        path.bias[k], path.objective[k] = solution.bias, solution.objective
        path.bias_interval[k], path.n_iter[k] = solution.bias_interval, solution.n_iter
    return path


@njit(cache=True, nogil=True)
def _scores_outside(sums, outside, rows, scale, shift):
    out = np.empty((len(sums), rows.size))
    place = np.searchsorted(outside, rows)
    for k in range(len(sums)):
        for t in range(rows.size):
            out[k, t] = scale[k] * sums[k, place[t]] + shift[k]
    return out


@njit(cache=True, nogil=True)
def _scores_at(p, v, rows, scale, shift):
    out = np.empty((len(v), rows.size))
    for k in range(len(v)):
        for t in range(rows.size):
            out[k, t] = scale[k] * (p[rows[t]] - v[k, rows[t]]) + shift[k]
    return out


def feasible_near(
    problem: Problem, beta: np.ndarray, v: np.ndarray, rows: KernelRows
) -> tuple[np.ndarray, np.ndarray]:
    """Feasible multipliers near `beta`, and their v.

    Parameters
    ----------
    problem : Problem
        With an equality.
    beta, v : ndarray of shape (m,)
        Multipliers whose sum may differ from ``problem.total``, and their ``p - K beta``, which is
        overwritten.
    rows : KernelRows
        Kernel rows of its samples.

    Returns
    -------
    beta : ndarray of shape (m,)
        The feasible multipliers.
    v : ndarray of shape (m,)
        Their p - K beta, in the memory of the `v` passed in.
    """
    feasible = shift_total(problem, beta, v)
    moved = np.flatnonzero(feasible != beta)
    rows.subtract(v, moved, feasible[moved] - beta[moved])
    return feasible, v


def _members(path):
    progress = np.empty(2)
    return Members(path.totals, path.beta, path.v, path.n_iter, path.bias_interval, progress)


def _predict(path, k, rows):
    """Start for total k, whose rows of the path are used as memory."""
    problem = replace(path.problem, total=float(path.totals[k]))
    m = len(problem.p)
    moved = Moved(np.empty(m, dtype=np.int64), np.empty(m))
    n, _ = extrapolate(_members(path), k, Box(problem.lower, problem.upper), moved)
    rows.subtract(path.v[k], moved.which[:n], moved.change[:n])
    return feasible_near(problem, path.beta[k], path.v[k], rows)


def _solve_compiled(path, rows, max_iter, starts, stop):
    """Solve all totals over a whole matrix, returning to Python only to look at `stop`."""
    problem = path.problem
    if not starts:
        total = None if problem.total is None else float(path.totals[0])
        starts = [(feasible_start(replace(problem, total=total)), None)]
    for k, (beta, v) in enumerate(starts):
        path.beta[k] = beta
        if v is not None:
            path.v[k] = v
    known = np.array([v is not None for _, v in starts])
    box, limits = Box(problem.lower, problem.upper), limits_of(problem, path.tol)
    k, resume = 0, False
    # No row is evicted, and threads that write the times of use to the same memory slow each other.
    m = len(problem.p)
    store = rows.store._replace(used=np.empty(m, np.int64), clock=np.zeros(1, np.int64))
    with interrupts(), rows.maker() as maker, rows.scratch() as scratch:
        run = Run(box, problem.p, known, limits, iteration_limit(max_iter), scratch)
        members = _members(path)
        while k < len(path.totals):
            k, resume = run_slice(store, maker, run, members, k, resume)
            if stop is not None and stop.is_set():
                raise Interrupted
    path.bias[:], path.bias_interval[:], path.objective[:] = biases_of(problem, path.beta, path.v)
    if path.outside is not None:
        rows.sums_outside(path.beta, path.sums_outside)
    gaps = path.kkt_gap
    for k in np.flatnonzero(gaps > path.tol):
        warn_not_converged(path.n_iter[k], gaps[k], path.tol)


def identity_solution(problem: Problem, total: float) -> np.ndarray:
    """clip(p + mu) with the mu that gives the right sum: exact if the kernel matrix is I."""
    return identity_start(problem.p, Box(problem.lower, problem.upper), float(total))
