"""Many problems over wide data whose kernel matrix exceeds the memory.

A row cache makes the rows of the support vectors of every problem again, which costs many times the
whole matrix. Here every problem is solved over a working set, a few of the samples, with a small
matrix of its own. Then one pass over the kernel matrix, block by block, gives v of all samples for
all problems, and samples that violate the optimality conditions join the working sets.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..utils import thread_map
from ..utils.compiled import njit
from ._kernel_values import KernelValues
from ._matrix import WholeMatrix
from ._path import Path, solve_path
from ._problem import Problem, feasible_start
from ._solve import Interrupted, biases_of, warn_not_converged
from ._state import subtract_scaled
from ._tuning import tuning

# Negatives per positive sample in the first working set, and the fewest samples that join later.
_NEAR = 20
_JOIN = 512
# Part of the tolerance that a working set is solved to.
_SHARE = 0.5


@dataclass
class _Work:
    """A problem that is being solved: its working set, sorted, and the multipliers there."""

    k: int
    index: np.ndarray
    beta: np.ndarray
    tol: float
    n_iter: int = 0


def solve_by_working_sets(
    values: KernelValues,
    n_problems: int,
    problem_of: Callable[[int], tuple[Problem, np.ndarray]],
    *,
    tol: float,
    max_iter: int,
    n_jobs: int | None,
    stop: threading.Event,
) -> Iterator[tuple[int, Path]]:
    """Solve problems of one total each; yield their numbers and paths, in no particular order.

    Parameters
    ----------
    values : KernelValues
        Of all samples.
    n_problems, problem_of, tol, max_iter, n_jobs, stop
        As for :func:`solve_grid`; every problem has an equality.

    Yields
    ------
    k : int
    path : Path
    """
    step = max(1, tuning().working_numbers // values.n_rows)
    for first in range(0, n_problems, step):
        group = range(first, min(n_problems, first + step))
        positive = [np.flatnonzero(problem_of(k)[0].upper > 0) for k in group]
        closeness = _sums(values, positive, [np.ones(len(own)) for own in positive], n_jobs)
        works = [
            _first_set(k, *problem_of(k), row, _SHARE * tol)
            for k, row in zip(group, closeness, strict=True)
        ]
        del closeness
        while works:

            def solve(work):
                _solve(work, problem_of(work.k), values, max_iter, stop)

            for _ in thread_map(solve, works, n_jobs, stop):
                pass
            used = [np.flatnonzero(work.beta) for work in works]
            support = [work.index[own] for work, own in zip(works, used, strict=True)]
            coef = [work.beta[own] for work, own in zip(works, used, strict=True)]
            sums = _sums(values, support, coef, n_jobs)
            left = []
            for work, row in zip(works, sums, strict=True):
                if stop.is_set():
                    raise Interrupted
                path = _check(work, *problem_of(work.k), row, tol, max_iter)
                if path is None:
                    left.append(work)
                else:
                    yield work.k, path
            works = left


def _first_set(k, problem, totals, closeness, tol):
    """The samples of the class, and the nearest of the others."""
    start = feasible_start(replace(problem, total=float(totals[0])))
    member = (problem.upper > 0) | (start != 0)
    others = np.flatnonzero(~member & (problem.lower < 0))
    n = min(len(others), max(_JOIN, _NEAR * int(member.sum())))
    if n > 0:
        member[others[np.argpartition(-closeness[others], n - 1)[:n]]] = True
    index = np.flatnonzero(member)
    return _Work(k, index, start[index], tol)


def _solve(work, task, values, max_iter, stop):
    """Solve the problem over the working set, from the multipliers it has."""
    problem, totals = task
    boxes = (part[work.index] for part in (problem.p, problem.lower, problem.upper))
    rows = WholeMatrix(values.subset(work.index))
    left = max_iter - work.n_iter if max_iter >= 0 else -1
    path = solve_path(
        Problem(*boxes, problem.total),
        totals,
        rows,
        tol=work.tol,
        max_iter=left,
        starts=[(work.beta, None)],
        stop=stop,
    )
    work.beta = path.beta[0]
    work.n_iter += int(path.n_iter[0])


def _check(work, problem, totals, sums, tol, max_iter):
    """The path if all samples satisfy the conditions; otherwise None, and violators join."""
    beta = np.zeros(len(problem.p))
    beta[work.index] = work.beta
    v = problem.p - sums
    bias, interval, objective = biases_of(problem, beta[None], v[None])
    path = Path(
        problem,
        totals,
        beta[None],
        v[None],
        bias,
        interval,
        objective,
        np.array([work.n_iter]),
        tol,
    )
    gap = float(path.kkt_gap[0])
    if gap <= tol:
        return path
    if 0 <= max_iter <= work.n_iter:
        warn_not_converged(work.n_iter, gap, tol)
        return path
    excess = np.full(len(v), -np.inf)
    can_grow, can_shrink = beta < problem.upper, beta > problem.lower
    excess[can_grow] = v[can_grow] - bias[0]
    excess[can_shrink] = np.maximum(excess[can_shrink], bias[0] - v[can_shrink])
    excess[work.index] = -np.inf
    violators = np.flatnonzero(excess > 0.5 * work.tol)
    if violators.size == 0:  # rounding keeps the gap open
        work.tol *= 0.5
        return None
    support = np.flatnonzero(beta)
    n = min(len(violators), max(_JOIN, 2 * len(support)))
    worst = violators[np.argpartition(-excess[violators], n - 1)[:n]]
    # Samples without a multiplier leave: they come back if they violate the conditions.
    work.index = np.union1d(support, worst)
    work.beta = beta[work.index]
    return None


def _sums(values, index, coef, n_jobs):
    """``coef[c] @ K[index[c]]`` at all samples for all c, shape (len(index), m), in one pass."""
    m, width = values.n_rows, 2 * tuning().tile_rows
    sums = np.zeros((len(index), m))
    ends = np.cumsum([0, *map(len, index)])
    flat, weights = np.concatenate(index), np.concatenate(coef)
    needed = np.unique(flat)
    flat = np.searchsorted(needed, flat)

    def add(start):
        block = np.empty((len(needed), min(width, m - start)), dtype=np.float32)
        values(needed, start, block)
        _add_block(sums[:, start : start + width], ends, flat, weights, block)

    for _ in thread_map(add, range(0, m, width), n_jobs):
        pass
    return sums


@njit(cache=True, nogil=True)
def _add_block(sums, ends, index, coef, block):
    for c in range(len(sums)):
        row = np.zeros(block.shape[1])
        for k in range(ends[c], ends[c + 1]):
            subtract_scaled(row, -coef[k], block[index[k]])
        sums[c] += row
