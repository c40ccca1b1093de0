"""The grid engine: many problems over one training set, at many widths of the kernel.

Nothing is computed twice. The distances are shared by all widths, the kernel matrix of a width by
all problems. The problems of one machine that differ in the sum of the multipliers only (all
lambdas of a class at one C, all nu of a one-class machine) form a path, see ``_path``; its first
two members start from the solutions of the same two at the width before. Widths descend from the
largest, where the kernel matrix is nearly the identity and the solution nearly known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ._device import LazyRows, on_gpu
from ._path import Path, solve_path
from ._problem import Problem
from ._rows import KernelRows
from ._starts import identity_solution, near_identity


def solve_grid(
    X,
    kernel: Kernel | Linear,
    gammas: Sequence[float],
    n_machines: int,
    machine: Callable[[int], tuple[Problem, np.ndarray]],
    reduce: Callable[[int, Path, KernelRows], Any],
    *,
    tol: float = 1e-3,
    max_iter: int = -1,
    cache_size: float = 1000,
    n_jobs: int | None = None,
    device: str = "cpu",
    stop: threading.Event | None = None,
) -> Iterator[tuple[int, int, Any]]:
    """Solve every machine for all its totals at every gamma.

    Results are reduced where they are made and streamed: beside the kernel matrix, memory holds
    two vectors a machine, however many gammas and totals there are.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d), float64
    kernel : Kernel or Linear
    gammas : sequence of float
    n_machines : int
    machine : callable
        ``machine(k)`` gives the problem of machine k and its totals, see :func:`solve_path`.
    reduce : callable
        ``reduce(k, path, rows)`` is called in the solver's thread; what it returns is kept instead
        of the path. ``path.scores`` are the decision values of all m rows, held-out ones included.
    tol, max_iter, cache_size, n_jobs
        As for :class:`openset.OpenSetSVC`.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Which engine; "auto" takes a GPU where there is one. Problems without an equality are
        solved on the CPU.
    stop : threading.Event, default=None
        Set from outside, it ends the run with :class:`Interrupted`.

    Yields
    ------
    gamma : int
        Index in `gammas`; they come in descending order of their values.
    k : int
        Index of the machine.
    result
        What `reduce` returned.
    """
    if on_gpu(device):
        problems = [machine(k) for k in range(n_machines)]
        if all(problem.total is not None for problem, _ in problems):
            from ._cuda_grid import solve_grid_cuda

            rows = LazyRows(X, kernel, cache_size, n_jobs)
            settings = {"tol": tol, "max_iter": max_iter, "n_jobs": n_jobs, "stop": stop}
            yield from solve_grid_cuda(X, kernel, gammas, problems, reduce, rows, **settings)
            return
    gammas = np.asarray(gammas, dtype=np.float64)
    order = np.argsort(-gammas, kind="stable")
    if n_machines == 0:
        return
    n_solutions = n_machines * len(machine(0)[1])
    rows = KernelRows(X, kernel, gammas[order], cache_size, n_solutions, n_jobs)
    stop = threading.Event() if stop is None else stop
    rows.stop = stop  # also for what `reduce` solves
    # Where the first totals of each machine start at the next gamma.
    heads: list[list | None] = [None] * n_machines
    from_identity = rows.whole and near_identity(rows.rows[:: max(1, len(rows.rows) // 16)])

    def run(k):
        problem, totals = machine(k)
        starts = heads[k]
        if starts is None and from_identity:
            starts = [(identity_solution(problem, total), None) for total in totals[:2]]
        path = solve_path(
            problem, totals, rows, starts=starts, tol=tol, max_iter=max_iter, stop=stop
        )
        if len(gammas) > 1:
            heads[k] = [(beta.copy(), None) for beta in path.beta[:2]]
        return reduce(k, path, rows)

    for n, g in enumerate(order):
        if n > 0:
            rows.use(gammas[g])
        for k, result in enumerate(thread_map(run, range(n_machines), n_jobs, stop)):
            yield int(g), k, result
