"""Machines of all classes over landmark features, by active sets.

Few rows decide about a machine: those that violate its margin. So each class is solved on a small
set of active rows (by the solver of the exact machine, over the linear kernel of the features),
then one pass over all rows finds the constraints that its solution violates, for all classes at
once. The worst of these become active, and rows without a multiplier are dropped. The dual
objective rises from round to round; when no row violates the solution, it is that of the whole
problem.

A bias that must not exceed a value is one more row: its features are zero, so its v is constant,
and its multiplier, zero or negative, is the amount by which the sum of the others exceeds the
total. It is called the slack.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...utils import thread_map
from ._machine import LandmarkSolution, LandmarkTask, Machine
from ._pool import Pool
from ._rows import Query, TrainingRows

# Rows that every class starts with, and positives of its own in addition.
_START, _OWN = 1000, 200
# Rounding error of a score in float32, relative to the norm of the weights.
_ROUNDING = 1e-6
_ROUNDS = 300
# Iterations per class if max_iter is -1, as in LIBSVM.
_MOST_ITERATIONS = 10**7
# Early rounds look at a sample of the rows: at least this number and this share. The share grows by
# a factor when its violators are fewer than a part of the active rows.
_MANY, _SHARE_OF_ROWS, _GROWTH, _SETTLED = 50_000, 1 / 16, 4, 0.5


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
    # Without any negatives the machine is a one-class SVM; its positives must score 0 or more.
    target = 1.0 if np.any(rows.codes != rows.codes[0]) else 0.0
    machines = [
        Machine(task, active, rows, target)
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
