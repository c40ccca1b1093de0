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
from typing import Any, NamedTuple

import numpy as np

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ._path import Path, identity_solution, solve_path
from ._problem import Problem
from ._row_cache import kernel_rows, rows_of_parts
from ._rows import KernelRows
from ._sweep import Group, Sweep, run_paths, run_sweeps
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
    parts: Sequence[np.ndarray] | None = None,
    part_of: Sequence[int] = (),
    groups: Sequence[Group] = (),
    problems_of: Callable[[int], tuple[Problem, np.ndarray]] | None = None,
    reduce_group: Callable[[int, list[int], np.ndarray, np.ndarray], Any] | None = None,
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
    parts : sequence of ndarray of int, default=None
        Samples that take part in problems, each sorted: all others have empty boxes. Where parts
        are small and have many problems, each has a kernel matrix of its own.
    part_of : sequence of int, default=()
        The part of each problem.
    groups : sequence of Group, default=()
        Problems whose decision values at some rows are all that is wanted, each in one group.
    problems_of : callable, default=None
        ``problems_of(j)`` returns the K problems of group j as one, its arrays of shape (K, m), and
        their totals of shape (K, T).
    reduce_group : callable, default=None
        ``reduce_group(group, which, scores, biases)`` is called instead of `reduce` where groups
        are solved faster without paths: with the index of a group, the indices of G gammas,
        decision values of shape (K, G, T, n) and biases of shape (G, K, T).

    Yields
    ------
    gamma : int
        Index in `gammas`; for each problem they come in descending order of their values. The first
        one for a group.
    k : int
        Index of the problem, or of the group.
    result
        What `reduce` or `reduce_group` returned.
    """
    stop = threading.Event() if stop is None else stop
    gpu = on_gpu(device)
    if n_problems == 0:
        return
    if gpu:
        problems = [problem_of(k) for k in range(n_problems)]
        if all(problem.total is not None for problem, _ in problems):
            settings = {"tol": tol, "max_iter": max_iter, "n_jobs": n_jobs, "stop": stop}
            groups = _groups(parts, part_of, n_problems, X.shape[0])
            yield from _solve_on_gpu(
                X, kernel, gammas, problems, reduce, groups, cache_size, **settings
            )
            return
    gammas = np.asarray(gammas, dtype=np.float64)
    order = np.argsort(-gammas, kind="stable")
    n_totals = len(problem_of(0)[1])
    data = X, kernel, gammas[order], cache_size, n_problems * n_totals, n_jobs
    keep = len(gammas) > 1 and n_problems * X.shape[0] <= tuning().kept_problems
    limits: dict[str, Any] = {"n_jobs": n_jobs, "stop": stop, "tol": tol, "max_iter": max_iter}
    for shares in _shares(parts, part_of, n_problems, *data):
        sweeps = _sweeps(shares, groups, problems_of, n_totals)
        if sweeps and reduce_group is not None:
            blocks = _blocks(shares, gammas, order)
            yield from run_sweeps(sweeps, blocks, order, reduce_group, **limits)
        elif problems := _at_once(shares, gammas, problem_of, n_totals):
            rows = shares[0].rows
            found = run_paths(rows, problems, _starts_from_identity(rows), reduce, **limits)
            yield from ((0, k, result) for k, result in enumerate(found))
        else:
            yield from _solve_shares(shares, gammas, order, problem_of, reduce, keep, **limits)


class _Share(NamedTuple):
    """Problems that share kernel rows.

    `part` are the samples that take part in them and `outside` the others, None for all samples.
    """

    problems: list[int]
    rows: KernelRows
    part: np.ndarray | None = None
    outside: np.ndarray | None = None


def _shares(parts, part_of, n_problems, X, kernel, gammas, cache_size, n_solutions, n_jobs):
    """Yield lists of shares whose rows are in memory together."""
    settings = cache_size, n_solutions, n_jobs
    batches = None if parts is None else rows_of_parts(X, kernel, gammas, parts, *settings)
    if batches is None:
        yield [_Share(list(range(n_problems)), kernel_rows(X, kernel, gammas, *settings))]
        return
    problems = [[k for k in range(n_problems) if part_of[k] == s] for s in range(len(parts))]
    outside = [np.delete(np.arange(X.shape[0]), part) for part in parts]
    for batch in batches:
        yield [_Share(problems[s], rows, parts[s], outside[s]) for s, rows in batch.items()]


def _groups(parts, part_of, n_problems, m):
    """Problems with the samples that take part in them, None for all samples."""
    if parts is None or 2 * max(len(part) for part in parts) > m:
        return [(list(range(n_problems)), None)]
    return [([k for k in range(n_problems) if part_of[k] == s], p) for s, p in enumerate(parts)]


def _solve_on_gpu(X, kernel, gammas, problems, reduce, groups, cache_size, **settings):
    from .cuda.grid import LazyRows, solve_grid_cuda

    for group, part in groups:
        outside, points, own = None, X, problems
        if part is not None:
            outside = np.delete(np.arange(X.shape[0]), part)
            points = X[np.concatenate([part, outside])]
            own = [(_restricted(problems[k][0], part), problems[k][1]) for k in group]
        lazy = LazyRows(X if part is None else X[part], kernel, cache_size, settings["n_jobs"])

        def keep(n, path, rows, group=group):
            return reduce(group[n], path, rows)

        for g, n, result in solve_grid_cuda(
            points, kernel, gammas, own, keep, lazy, outside=outside, **settings
        ):
            yield g, group[n], result


def _restricted(problem, part):
    arrays = (v.take(part, axis=-1) for v in (problem.p, problem.lower, problem.upper))
    return Problem(*arrays, problem.total)


def _solve_shares(shares, gammas, order, problem_of, reduce, keep, n_jobs, stop, **limits):
    from_identity = [_starts_from_identity(share.rows) for share in shares]
    # Where the first totals of each problem start at each gamma: left there by the previous one.
    heads = [
        {k: SimpleQueue() for share in shares for k in share.problems}
        for _ in range(len(gammas) + 1)
    ]
    for head in heads[0].values():
        head.put(None)
    step = len(shares[0].rows.widths)

    def own_problem(k, s):
        problem, totals = problem_of(k)
        part = shares[s].part
        if part is None:
            return problem, totals
        return _restricted(problem, part), totals

    if keep:
        own_problem = cache(own_problem)

    # Each release of the interpreter's lock may cost tens of microseconds with many threads, so
    # there are few NumPy calls here.
    def run(task):
        n, s, k = task
        rows = shares[s].rows.widths[n % step]
        starts = heads[n][k].get()  # waits for the previous gamma, which another thread may solve
        try:
            problem, totals = own_problem(k, s)
            if starts is None and from_identity[s]:
                starts = [(identity_solution(problem, total), None) for total in totals[:2]]
            settings = {"starts": starts, "stop": stop, "outside": shares[s].outside, **limits}
            path = solve_path(problem, totals, rows, **settings)
            starts = None
            if len(gammas) > 1:
                starts = [(beta, None) for beta in path.beta[:2].copy()]
        finally:
            heads[n + 1][k].put(starts)
        return reduce(k, path, rows)

    for block in _blocks(shares, gammas, order):
        # One queue for all: a thread that is done with a width continues with the next.
        tasks = [(n, s, k) for n in block for s, share in enumerate(shares) for k in share.problems]
        for (n, _, k), result in zip(tasks, thread_map(run, tasks, n_jobs, stop), strict=True):
            yield int(order[n]), k, result


def _sweeps(shares, groups, problems_of, n_totals):
    """What solves the groups of each share without paths; nothing where that does not pay."""
    if not groups or not all(share.rows.whole for share in shares):
        return []
    size = sum(len(g.problems) * len(g.scored) for g in groups) * n_totals
    if size * len(shares[0].rows.widths) > tuning().swept_numbers:
        return []
    sweeps = []
    for share in shares:
        if share.outside is not None and not share.rows.has_outside:
            return []
        members = set(share.problems)
        own = {j: g for j, g in enumerate(groups) if g.problems[0] in members}
        problems = [problems_of(j) for j in own]
        if any(problem.total is None for problem, _ in problems):
            return []
        if share.part is not None:
            problems = [(_restricted(p, share.part), totals) for p, totals in problems]
        identity = _starts_from_identity(share.rows)
        sweeps.append(Sweep(share.rows, own, problems, share.outside, identity))
    return sweeps


def _at_once(shares, gammas, problem_of, n_totals):
    """All problems, if there is one width and room for all solutions; else nothing."""
    problems, rows, part, _ = shares[0]
    size = len(problems) * n_totals * len(rows.store.slot)
    if not rows.whole or len(gammas) > 1 or part is not None or size > tuning().kept_solutions:
        return []
    found = [problem_of(k) for k in problems]
    equal = all(p.total is not None and len(totals) == n_totals for p, totals in found)
    return found if equal else []


def _blocks(shares, gammas, order):
    """The widths that are in memory together, as positions in `order`; the rows are made."""
    step = len(shares[0].rows.widths)
    for first in range(0, len(order), step):
        block = range(first, min(first + step, len(order)))
        if first > 0:
            for share in shares:
                share.rows.use(*gammas[order[block]])
        yield block


def _starts_from_identity(rows):
    if not rows.whole:
        return False
    n = len(rows.store.rows)
    return near_identity(rows.store.rows[:: max(1, n // 16), :n])


def near_identity(sample: np.ndarray) -> bool:
    """Whether a typical row's kernel values with all others add up to at most that with itself.

    Parameters
    ----------
    sample : ndarray of shape (n, m)
        Some rows of the kernel matrix.
    """
    return bool(np.median(sample.sum(axis=1)) < 2.0)
