"""The grid engine: many problems over one training set, at many widths of the kernel.

Nothing is computed twice. All widths share the distances, all problems of a width the kernel
matrix. Problems that differ only in the sum of the multipliers (all lambdas of a class at one C,
all nu of a one-class problem) form a path, see ``_path``; its first two members start from the
solutions of the same two at the previous width. Widths descend from the largest, where the kernel
matrix is nearly the identity and the solution nearly known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ._path import Path, identity_solution, solve_path
from ._problem import Problem
from ._row_cache import kernel_rows
from ._rows import KernelRows
from ._tuning import tuning
from .cuda import on_gpu


def solve_grid(
    X,
    kernel: Kernel | Linear,
    gammas: Sequence[float] | np.ndarray,
    n_problems: int,
    problem_of: Callable[[int], tuple[Problem, np.ndarray]],
    reduce: Callable[[int, Path, KernelRows], Any],
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_size: float = 1000,
    n_jobs: int | None = None,
    device: str = "cpu",
    stop: threading.Event | None = None,
) -> Iterator[tuple[int, int, Any]]:
    """Solve every problem for all its totals at every gamma.

    Results are reduced in the thread that solves, and streamed: besides the kernel matrix, memory
    holds two vectors per problem, however many gammas and totals there are.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d), float64
        The training set.
    kernel : Kernel or Linear
        The kernel.
    gammas : sequence of float
        Widths of the kernel.
    n_problems : int
        Number of problems.
    problem_of : callable
        ``problem_of(k)`` returns problem k and its totals, see :func:`solve_path`.
    reduce : callable
        ``reduce(k, path, rows)`` is called in the solver's thread; what it returns is kept instead
        of the path. ``path.scores`` are the decision values of all m rows, held-out ones included.
        If it solves further problems, pass them `stop`.
    tol, max_iter, cache_size, n_jobs
        As for :class:`openset.OpenSetSVC`.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to solve; "auto" is the GPU if there is one. Problems without an equality are solved
        on the CPU.
    stop : threading.Event, default=None
        Once set, the run ends with :class:`Interrupted`. An exception in any thread sets it.

    Yields
    ------
    gamma : int
        Index in `gammas`; they come in descending order of their values.
    k : int
        Index of the problem.
    result
        What `reduce` returned.
    """
    stop = threading.Event() if stop is None else stop
    gpu = on_gpu(device)
    if n_problems == 0:
        return
    if gpu:
        problems = [problem_of(k) for k in range(n_problems)]
        if all(problem.total is not None for problem, _ in problems):
            from .cuda.grid import LazyRows, solve_grid_cuda

            lazy = LazyRows(X, kernel, cache_size, n_jobs)
            settings = {"tol": tol, "max_iter": max_iter, "n_jobs": n_jobs, "stop": stop}
            yield from solve_grid_cuda(X, kernel, gammas, problems, reduce, lazy, **settings)
            return
    gammas = np.asarray(gammas, dtype=np.float64)
    order = np.argsort(-gammas, kind="stable")
    n_solutions = n_problems * len(problem_of(0)[1])
    rows = kernel_rows(X, kernel, gammas[order], cache_size, n_solutions, n_jobs)
    if len(gammas) > 1 and n_problems * len(rows.store.slot) <= tuning().kept_problems:
        problem_of = cache(problem_of)
    matrix = rows.store.rows
    from_identity = rows.whole and near_identity(matrix[:: max(1, len(matrix) // 16)])
    # Where the first totals of each problem start at each gamma: left there by the previous one.
    heads: list[list[SimpleQueue]] = [
        [SimpleQueue() for _ in range(n_problems)] for _ in range(len(gammas) + 1)
    ]
    for head in heads[0]:
        head.put(None)

    def run(task):
        n, k = task
        here = rows.widths[n % step]
        starts = heads[n][k].get()  # waits for the previous gamma, which another thread may solve
        try:
            problem, totals = problem_of(k)
            if starts is None and from_identity:
                starts = [(identity_solution(problem, total), None) for total in totals[:2]]
            path = solve_path(
                problem, totals, here, tol=tol, max_iter=max_iter, starts=starts, stop=stop
            )
            starts = [(beta.copy(), None) for beta in path.beta[:2]] if len(gammas) > 1 else None
        finally:
            heads[n + 1][k].put(starts)
        return reduce(k, path, here)

    step = len(rows.widths)
    for first in range(0, len(order), step):
        block = range(first, min(first + step, len(order)))
        if first > 0:
            rows.use(*gammas[order[block]])
        # One queue for all: a thread that is done with a width goes on with the next.
        tasks = [(n, k) for n in block for k in range(n_problems)]
        for (n, k), result in zip(tasks, thread_map(run, tasks, n_jobs, stop), strict=True):
            yield int(order[n]), k, result


def near_identity(sample: np.ndarray) -> bool:
    """Whether a typical row's kernel values with all others add up to at most that with itself.

    Parameters
    ----------
    sample : ndarray of shape (n, m)
        Some rows of the kernel matrix.
    """
    return bool(np.median(sample.sum(axis=1)) < 2.0)
