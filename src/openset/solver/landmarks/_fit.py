"""Machines of all classes over landmark features, by active sets.

Few rows decide about a machine: those that violate its margin. So each class is solved on a small
set of active rows (by the solver of the exact machine, over the linear kernel of the features),
then one pass over all rows finds the constraints that its solution violates, for all classes at
once. The worst of these become active, and rows without a multiplier are dropped. The dual
objective rises from round to round; when no row violates the solution, it is that of the whole
problem.

A bias that shall not exceed a value is one more row: its features are zero, so its v is constant,
and its multiplier, zero or negative, is the amount by which the sum of the others exceeds the
total. It is called the slack.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...utils import thread_map
from .._problem import Problem
from .._solve import solve
from ._pool import SLACK, Pool, submatrix
from ._rows import Query, TrainingRows

# Rows that every class starts with, and positives of its own in addition.
_START, _OWN = 1000, 200
# Violators that may become active in a round: at least this many, at most as many as there are
# rows with a multiplier. As many rows without one may stay active.
_ADD = 100
# Rows without a multiplier whose constraint holds by more than this are dropped in any case.
_MARGIN = 0.2
# Early rounds are solved to this tolerance, later ones to a share of the violations last found.
_LOOSE, _SHARE = 0.05, 0.2
# Rounding error of a score in float32, relative to the norm of the weights.
_ROUNDING = 1e-6
_ROUNDS = 300
# Iterations of a class that nobody limited, as in LIBSVM.
_MOST_ITERATIONS = 10**7
# Early rounds look at a sample of the rows: so many, or this share. The share grows by a factor
# when the violators found in it are fewer than a part of the active rows.
_MANY, _SHARE_OF_ROWS, _GROWTH, _SETTLED = 50_000, 1 / 16, 4, 0.5


@dataclass(frozen=True)
class LandmarkTask:
    """The machine wanted for one class.

    Attributes
    ----------
    code : int
        The class: its rows are positive, all others negative.
    C : float
        The box of a row is C times its weight.
    total : float
        lambda: the sum of the multipliers.
    hold : float or None
        Largest bias that is allowed. Where it would be larger, it is held at this value.
    start : ndarray of shape (n,) or None
        Rows that probably have a multiplier, such as the support vectors of a smaller problem.
    """

    code: int
    C: float
    total: float
    hold: float | None
    start: np.ndarray | None = None


@dataclass(frozen=True)
class LandmarkSolution:
    """The machine of one class, f(x) = weights' psi(x) + bias.

    Attributes
    ----------
    weights : ndarray of shape (r,)
    bias : float
    total : float
        Sum of the multipliers: that of the task, or what a held bias amounts to.
    objective : float
        Dual objective, as for the exact machine.
    kkt_gap : float
        Largest violation of the optimality conditions.
    n_iter : int
    n_support : int
        Rows with a multiplier.
    held : bool
        Whether the bias is held.
    """

    weights: np.ndarray
    bias: float
    total: float
    objective: float
    kkt_gap: float
    n_iter: int
    n_support: int
    held: bool


def solve_landmarks(
    rows: TrainingRows,
    tasks: Sequence[LandmarkTask],
    *,
    tol: float,
    max_iter: int = -1,
    cache_size: float = 1000,
    n_jobs: int | None = None,
    on_done: Callable[[int, LandmarkSolution], None] | None = None,
) -> list[LandmarkSolution]:
    """Solve the machines of several classes over the features of one training set.

    Parameters
    ----------
    rows : TrainingRows
        The training set.
    tasks : sequence of LandmarkTask
        One per class, sorted by code.
    tol : float
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Largest number of solver iterations per class; -1 for 10 million, or 100 per row.
    cache_size : float, default=1000
        Memory in MB for products of active rows.
    n_jobs : int or None, default=None
        Number of threads.
    on_done : callable, default=None
        Called as ``on_done(k, solution)`` when the machine of task k is final.

    Returns
    -------
    list of LandmarkSolution
    """
    if max_iter < 0:
        # Few landmarks make nearly singular problems, on which rounding can keep SMO from ending.
        max_iter = max(_MOST_ITERATIONS, 100 * len(rows.codes))
    # Without any negatives the machine is a one-class SVM; its positives shall score 0 or more.
    target = 1.0 if np.any(rows.codes != rows.codes[0]) else 0.0
    machines = [
        _Machine(task, active, rows, target)
        for task, active in zip(tasks, _first_rows(rows, tasks), strict=True)
    ]
    pool = Pool(rows, len(tasks), cache_size, n_jobs)
    solutions: list = [None] * len(tasks)
    open_tasks = list(range(len(tasks)))
    stop = threading.Event()
    share = min(1.0, max(_SHARE_OF_ROWS, _MANY / len(rows.codes)))
    for _ in range(_ROUNDS):
        present = [machines[k] for k in open_tasks]
        pool.hold([machine.active for machine in present])

        if rows.on_gpu:
            _improve_together(present, pool, tol, max_iter)
        else:

            def improve(machine):
                machine.improve(pool, tol, max_iter, stop)

            for _ in thread_map(improve, present, n_jobs, stop):
                pass
            _set_weights(present, pool)
        active = np.concatenate([machine.active for machine in present])
        owner = np.repeat(np.arange(len(present)), [len(m.active) for m in present])
        query = _query(rows, present, tol, target, share)
        found, where, size = rows.violators(query, (active, owner))
        order = np.argsort(where, kind="stable")
        found, size = found[order], size[order]
        ends = np.searchsorted(where[order], np.arange(len(present) + 1))
        for i, k in enumerate(list(open_tasks)):
            new = slice(ends[i], ends[i + 1])
            final = machines[k].admit(found[new], size[new], tol, max_iter)
            if final and share == 1:
                solutions[k] = machines[k].solution()
                open_tasks.remove(k)
                if on_done is not None:
                    on_done(k, solutions[k])
        if not open_tasks:
            return solutions
        if len(found) < _SETTLED * len(active):
            share = min(1.0, _GROWTH * share)
    warnings.warn(
        f"{len(open_tasks)} machines still violate the optimality conditions by more than "
        f"tol={tol:g} after {_ROUNDS} rounds. Raise tol or scale the data.",
        ConvergenceWarning,
        stacklevel=2,
    )
    for k in open_tasks:
        solutions[k] = machines[k].solution()
    return solutions


def spread_over_classes(counts: np.ndarray, n: int) -> np.ndarray:
    """Divide n picks among classes: half in equal shares, half in proportion to their sizes.

    Parameters
    ----------
    counts : ndarray of shape (K,), int
        Rows of each class.
    n : int
        Picks, at most the number of rows.

    Returns
    -------
    ndarray of shape (K,), int
        Picks per class, never more than it has rows.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.solver.landmarks import spread_over_classes
    >>> spread_over_classes(np.array([900, 90, 10]), 60)
    array([37, 13, 10])
    """
    wanted = 0.5 * n * counts / counts.sum() + 0.5 * n / len(counts)
    picks = np.minimum(counts, wanted.astype(np.int64))
    # What small classes could not take, and rounding, goes to those with rows left.
    while (missing := n - picks.sum()) > 0:
        room = np.flatnonzero(picks < counts)
        if missing < len(room):
            room = room[np.argsort(picks[room], kind="stable")[:missing]]
        picks[room] += np.minimum(counts[room] - picks[room], max(1, missing // len(room)))
    return picks


def _first_rows(rows, tasks):
    """Active rows to start with: a sample of all classes, and more of the class itself."""
    rng = np.random.default_rng(0)
    n_classes = int(rows.codes.max()) + 1
    counts = np.bincount(rows.codes, minlength=n_classes)
    order = rng.permutation(len(rows.codes))
    order = order[np.argsort(rows.codes[order], kind="stable")]
    members = np.split(order, np.cumsum(counts)[:-1])
    n = min(len(order), max(_START, 2 * n_classes))
    picks = spread_over_classes(counts, n)
    shared = np.concatenate([own[:k] for own, k in zip(members, picks, strict=True)])
    for task in tasks:
        own = members[task.code]
        mass = np.cumsum(rows.weight[own]) * task.C
        # The multipliers of positive rows have to reach the total, with some room to move.
        enough = np.searchsorted(mass, min(1.2 * task.total, mass[-1])) + 1
        if task.start is not None and len(task.start):
            yield np.unique(np.concatenate([task.start, own[:enough]]))
        else:
            yield np.unique(np.concatenate([shared, own[: max(enough, _OWN)]]))


def _improve_together(machines, pool, tol, max_iter):
    """Solve the problems of all machines at once, on the GPU."""
    from ..cuda.landmarks import solve_together

    problems = [machine.problem() for machine in machines]
    places = [pool.places(machine.active) for machine in machines]
    starts = [machine.beta for machine in machines]
    found = solve_together(pool.psi, places, problems, starts, tol, max_iter)
    for machine, problem, (solution, weights) in zip(machines, problems, found, strict=True):
        machine.take(problem, solution, tol)
        machine.weights = weights


def _set_weights(machines, pool):
    supports = [machine.support() for machine in machines]
    places = [pool.place[rows] for rows, _ in supports]
    sums = pool.weighted_sums(places, [beta for _, beta in supports])
    for machine, weights in zip(machines, sums, strict=True):
        machine.weights = weights


def _query(rows, machines, tol, target, share):
    weights = np.array([machine.weights for machine in machines])
    norms = np.linalg.norm(weights, axis=1)
    return Query(
        classes=np.array([machine.task.code for machine in machines]),
        coef=rows.coefficients(weights).astype(np.float32),
        bias=np.array([machine.bias for machine in machines]),
        target=target,
        floor=tol + _ROUNDING * (1 + norms),
        most=np.array([machine.most for machine in machines]),
        share=share,
    )


class _Machine:
    """The machine of one class while it is trained.

    Attributes
    ----------
    active : ndarray of shape (n,)
        Rows that are active.
    beta : ndarray of shape (n + 1,) or None
        Multipliers of the slack and of the active rows.
    weights : ndarray of shape (r,)
    bias : float
    most : int
        Number of rows that may become active next.
    """

    def __init__(self, task, active, rows, target):
        self.task, self.active = task, active
        self._rows, self._target = rows, target
        self.beta = self._gram = self._found = None
        self._worst = 0.0
        self._tol = np.inf
        self._last = np.inf
        self.n_iter = 0

    def problem(self):
        """The problem of the slack and the active rows."""
        task = self.task
        own = self._rows.codes[self.active] == task.code
        boxes = task.C * self._rows.weight[self.active]
        # The slack never reaches its lower bound.
        p, lower = (0.0, 0.0) if task.hold is None else (task.hold, -1.0 - boxes[own].sum())
        return Problem(
            np.append(p, np.where(own, self._target, -self._target)),
            np.append(lower, np.where(own, 0.0, -boxes)),
            np.append(0.0, np.where(own, boxes, 0.0)),
            task.total,
        )

    def improve(self, pool, tol, max_iter, stop):
        """Solve the problem of the active rows, warm."""
        problem, place = self.problem(), pool.places(self.active)
        rows, gram = pool.kernel(place, self._gram)
        limit = max(tol, min(_LOOSE, _SHARE * self._last))
        v = None
        if self.beta is not None and gram is None:
            v = problem.p - pool.product(place, self.weights)
        found = solve(problem, rows, tol=limit, max_iter=max_iter, start=self.beta, v=v, stop=stop)
        keep = self.take(problem, found, limit)
        self._gram = None if gram is None else submatrix(gram, keep)

    def take(self, problem, found, tol):
        """Accept a solution, drop inactive rows; return the positions that are kept."""
        self._found, self._tol, self.bias = found, tol, found.bias
        self.n_iter += found.n_iter
        if self.task.hold is not None and (found.beta[SLACK] < 0 or found.bias > self.task.hold):
            self.bias = self.task.hold
        # How far each constraint is violated (positive) or holds (negative).
        size = np.where(problem.upper > 0, 1.0, -1.0) * (found.v - self.bias)
        keep = found.beta != 0
        self.most = max(_ADD, np.count_nonzero(keep))
        idle = np.flatnonzero(~keep & (size > -_MARGIN))
        keep[idle[np.argsort(-size[idle], kind="stable")[: self.most]]] = True
        # The two rows that bound the bias stay, however far from it they are.
        slack = 1e-9 * (problem.upper - problem.lower)
        keep[np.argmax(np.where(found.beta < problem.upper - slack, found.v, -np.inf))] = True
        keep[np.argmin(np.where(found.beta > problem.lower + slack, found.v, np.inf))] = True
        keep[SLACK] = True
        self.active, self.beta = self.active[keep[1:]], found.beta[keep]
        return np.flatnonzero(keep)

    def support(self):
        """Rows with a multiplier, and their multipliers."""
        some = np.flatnonzero(self.beta[1:])
        return self.active[some], self.beta[1:][some]

    def admit(self, rows, size, tol, max_iter):
        """Make violators active; return whether the machine is final."""
        self._worst = float(size.max(initial=0.0))
        self._last = self._worst if rows.size else 0.0
        exhausted = max_iter >= 0 and self.n_iter >= max_iter
        if exhausted or (rows.size == 0 and self._tol <= tol):
            return True
        self.active = np.concatenate([self.active, rows])
        self.beta = np.concatenate([self.beta, np.zeros(len(rows))])
        return False

    def solution(self):
        found, slack = self._found, self._found.beta[SLACK]
        return LandmarkSolution(
            self.weights,
            self.bias,
            self.task.total - slack,
            found.objective + (self.task.hold or 0.0) * slack,
            max(found.kkt_gap, self._worst),
            self.n_iter,
            np.count_nonzero(found.beta[1:]),
            slack < 0,
        )
