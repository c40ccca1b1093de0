"""Many problems at many widths in compiled code, for the decision values of some rows.

A small search solves hundreds of paths of a few milliseconds each. If every one of them returned to
Python, many threads would wait for the interpreter's lock most of the time. So each thread enters
compiled code once and takes one problem after the other there: the one that is behind, at its next
width, from the solution at the previous one. No thread waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from ..utils import interrupts, thread_map
from ._matrix import WholeMatrix
from ._path import Path
from ._problem import Problem, feasible_start
from ._rows import KernelRows
from ._solve import ONE_SIDED, Interrupted, iteration_limit, limits_of, warn_not_converged
from ._sweep_loop import DONE, HELD_NOTHING, Found, Memory, Problems, Progress, sweep
from ._tuning import tuning


class Group(NamedTuple):
    """Problems over the same rows whose decision values are wanted together.

    Attributes
    ----------
    problems : sequence of int
    scored : ndarray of int
        The rows whose decision values are wanted; all take part in no problem, or the problems
        are over all rows.
    """

    problems: list[int]
    scored: np.ndarray


class Sweep:
    """Problems over the rows of one kernel matrix, at all the widths it is in memory at.

    Parameters
    ----------
    rows : WholeMatrix
    groups : dict {int: Group}
    problems : list of (Problem, totals)
        The problems of all groups, one group after the other, over the rows of the matrix. Several
        may come as one, with arrays of shape (K, m) and totals of shape (K, T).
    outside : ndarray of int or None
        Samples of the further columns of the matrix.
    from_identity : bool
        Whether to start from the solution for the identity as kernel matrix.
    keep : bool, default=False
        Whether to keep the solutions at the last width for :meth:`path`.
    """

    def __init__(
        self,
        rows: WholeMatrix,
        groups: dict[int, Group],
        problems: list[tuple[Problem, np.ndarray]],
        outside: np.ndarray | None,
        from_identity: bool,
        keep: bool = False,
    ):
        self._rows, self._groups, self._keep = rows, groups, keep
        totals = np.vstack([own for _, own in problems], dtype=np.float64)
        p, lower, upper = (
            np.vstack([getattr(one, name) for one, _ in problems])
            for name in ("p", "lower", "upper")
        )
        n, m = p.shape
        columns = []
        for group in groups.values():
            own = group.scored if outside is None else m + np.searchsorted(outside, group.scored)
            columns += [own] * len(group.problems)
        first = np.cumsum([0, *map(len, columns)])
        self._problems = Problems(p, lower, upper, totals, np.concatenate(columns), first)
        self._n_outside = 0 if outside is None else len(outside)
        self._progress = Progress(
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.full(n, 0 if from_identity else 1),
            np.empty((n, 2, m)),
        )
        self._problem = Problem(p, lower, upper, totals[:, :1])
        if not from_identity:
            self._progress.heads[:, 0] = feasible_start(self._problem)

    def begin(self, n_widths: int) -> None:
        """Start with the next widths, which the rows are in memory at."""
        problems, n_totals = self._problems, self._problems.totals.shape[1]
        n, end, start, step = len(problems.totals), 0, [], []
        for group in self._groups.values():
            k, size = len(group.problems), n_totals * len(group.scored)
            apart = self._apart(group, n_widths)
            start.append(end + np.arange(k) * (size if apart else n_widths * size))
            step += [k * size if apart else size] * k
            end += k * n_widths * size
        self._progress.width[:] = 0
        shape = n_widths, n, n_totals
        kept = n if self._keep else 0, n_totals, problems.p.shape[1]
        self._found = Found(
            np.empty(shape),
            np.empty((*shape, 2)),
            np.empty(shape),
            np.zeros(shape, dtype=np.int64),
            np.empty(end),
            np.concatenate(start),
            np.array(step),
            np.empty(kept),
            np.empty(kept),
        )

    def _apart(self, group, n_widths):
        """Whether scores of a group are stored by widths, to be read by several threads.

        Otherwise they are stored by problems, and one thread reads those of all widths.
        """
        size = len(group.problems) * self._problems.totals.shape[1] * len(group.scored)
        return n_widths * size > tuning().read_at_once

    def run(self, tol: float, max_iter: int, stop: threading.Event) -> None:
        """Take part in solving everything, in the calling thread; returns when nothing is left."""
        rows, problems, found = self._rows, self._problems, self._found
        shape = problems.totals.shape[1], problems.p.shape[1]
        store = rows.store
        # No row is evicted: the times of use are written to, but never read.
        store = store._replace(used=np.empty_like(store.used), clock=np.zeros(1, dtype=np.int64))
        rules = limits_of(self._problem, tol), iteration_limit(max_iter)
        sums = np.empty((shape[0], self._n_outside))
        with interrupts(), rows.maker() as maker, rows.scratch() as scratch:
            at = np.zeros(2, dtype=np.int64)
            betas, vs, progress = np.empty(shape), np.empty(shape), np.empty(2)
            memory = Memory(store, maker, betas, vs, sums, scratch, at, progress)
            own, matrices = HELD_NOTHING, rows.matrices[: len(found.bias)]
            while own != DONE:
                own = sweep(matrices, problems, self._progress, found, rules, memory, own)
                if stop.is_set():
                    raise Interrupted

    def check(self, tol: float) -> None:
        """Raise or warn as the solver of a single problem does."""
        if not np.isfinite(self._found.bias).all():
            raise ValueError(ONE_SIDED)
        gaps = self._found.interval[..., 0] - self._found.interval[..., 1]
        for n_iter, gap in zip(self._found.n_iter[gaps > tol], gaps[gaps > tol], strict=True):
            warn_not_converged(n_iter, gap, tol)

    def scores(self) -> list[tuple[int, slice, np.ndarray, np.ndarray]]:
        """Groups with widths, decision values (K, G, T, n) and biases (G, K, T).

        A small group comes with all widths, others with one at a time.
        """
        found, results, c = self._found, [], 0
        n_widths, _, n_totals = found.bias.shape
        for j, group in self._groups.items():
            n, start = len(group.problems), found.start[c]
            step = 1 if self._apart(group, n_widths) else n_widths
            for w in range(0, n_widths, step):
                shape = n, step, n_totals, len(group.scored)
                part = found.scores[start : start + prod(shape)].reshape(shape)
                widths = slice(w, w + step)
                results.append((j, widths, part, found.bias[widths, c : c + n]))
                start += part.size
            c += n
        return results

    def path(self, c: int, problem: Problem, tol: float) -> Path:
        """The solutions of problem c at the last width."""
        found, totals = self._found, self._problems.totals[c]
        bias, interval, objective, n_iter = (
            values[-1, c] for values in (found.bias, found.interval, found.objective, found.n_iter)
        )
        beta, v = found.betas[c], found.vs[c]
        return Path(problem, totals, beta, v, bias, interval, objective, n_iter, tol)


def run_sweeps(
    sweeps: list[Sweep],
    blocks: Iterator[range],
    order: np.ndarray,
    reduce_group: Callable[[int, list[int], np.ndarray, np.ndarray], Any],
    **limits,
) -> Iterator[tuple[int, int, Any]]:
    """Solve everything and reduce it, see :func:`solve_grid`.

    `blocks` yields the widths that are in memory, as positions in the `order` of the gammas.
    """
    for block in blocks:
        _run(sweeps, len(block), **limits)
        found = [scores for own in sweeps for scores in own.scores()]

        def finish(scores, block=block):
            j, widths, *values = scores
            which = order[block[widths]].tolist()
            return which[0], j, reduce_group(j, which, *values)

        yield from thread_map(finish, found, limits["n_jobs"], limits["stop"])


def run_paths(
    rows: WholeMatrix,
    problems: list[tuple[Problem, np.ndarray]],
    from_identity: bool,
    reduce: Callable[[int, Path, KernelRows], Any],
    **limits,
) -> Iterator[Any]:
    """Solve problems over all rows of a matrix at its one width, then reduce the path of each."""
    groups = {0: Group(list(range(len(problems))), np.empty(0, dtype=np.intp))}
    own = Sweep(rows, groups, problems, None, from_identity, keep=True)
    _run([own], 1, **limits)

    def finish(k):
        return reduce(k, own.path(k, problems[k][0], limits["tol"]), rows)

    yield from thread_map(finish, range(len(problems)), limits["n_jobs"], limits["stop"])


def _run(sweeps, n_widths, n_jobs, stop, tol, max_iter):
    """Solve everything at widths that are in memory."""
    for own in sweeps:
        own.begin(n_widths)

    def run(_):
        for own in sweeps:
            own.run(tol, max_iter, stop)

    for _ in thread_map(run, range(effective_n_jobs(n_jobs)), n_jobs, stop):
        pass
    for own in sweeps:
        own.check(tol)
