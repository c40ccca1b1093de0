"""Many problems at many widths in compiled code, for the decision values of some rows.

A small search solves hundreds of paths of a few milliseconds each. If every one of them returned to
Python, many threads would wait for the interpreter's lock most of the time. So each thread enters
compiled code once and takes one problem after the other there: the one that is behind, at its next
width, from the solution at the previous one. No thread waits for another.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from ..utils import interrupts
from ..utils.compiled import njit
from ._atomic import exchange
from ._matrix import WholeMatrix
from ._path_loop import Members, Run, add_outside, identity_start, run_slice
from ._problem import Problem, feasible_start
from ._row_maker import RowMaker
from ._solve import ONE_SIDED, Interrupted, limits_of, warn_not_converged
from ._state import Box, RowStore, summarise

# What `sweep` returns if it holds no problem: it is to be called again, or nothing is left.
_PAUSED, _DONE = -1, -2


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


class Problems(NamedTuple):
    """C problems over n rows, each with T totals.

    The rows that are scored for problem c are the columns ``columns[first[c] : first[c + 1]]`` of
    the kernel matrix.
    """

    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    totals: np.ndarray
    columns: np.ndarray
    first: np.ndarray


class Progress(NamedTuple):
    """Of each problem: whether a thread has it, its next width, and where its path starts there.

    There are no, one or two multiplier vectors to start from, for the first totals; none stands for
    the solution for the identity as kernel matrix.
    """

    taken: np.ndarray
    width: np.ndarray
    n_heads: np.ndarray
    heads: np.ndarray


class Found(NamedTuple):
    """Results by width, problem and total; scores of (c, w) begin at start[c] + w * step[c]."""

    bias: np.ndarray
    interval: np.ndarray
    n_iter: np.ndarray
    scores: np.ndarray
    start: np.ndarray
    step: np.ndarray


class Memory(NamedTuple):
    """What a thread works in; `at` is the total at which its problem was paused, and how."""

    store: RowStore
    maker: RowMaker
    betas: np.ndarray
    vs: np.ndarray
    sums: np.ndarray
    scratch: np.ndarray
    at: np.ndarray


class Sweep:
    """Problems over the rows of one kernel matrix, at all the widths it is in memory at.

    Parameters
    ----------
    rows : WholeMatrix
    groups : dict {int: Group}
    problems : list of (Problem, totals)
        The problems of all groups, one group after the other, over the rows of the matrix.
    outside : ndarray of int or None
        Samples of the further columns of the matrix.
    from_identity : bool
        Whether to start from the solution for the identity as kernel matrix.
    """

    def __init__(
        self,
        rows: WholeMatrix,
        groups: dict[int, Group],
        problems: list[tuple[Problem, np.ndarray]],
        outside: np.ndarray | None,
        from_identity: bool,
    ):
        self._rows, self._groups = rows, groups
        columns = []
        for group in groups.values():
            own = group.scored
            if outside is not None:
                own = len(problems[0][0].p) + np.searchsorted(outside, own)
            columns += [own] * len(group.problems)
        only = [problem for problem, _ in problems]
        self._problems = Problems(
            np.stack([problem.p for problem in only]),
            np.stack([problem.lower for problem in only]),
            np.stack([problem.upper for problem in only]),
            np.stack([totals for _, totals in problems]),
            np.concatenate(columns),
            np.cumsum([0, *map(len, columns)]),
        )
        n, m = self._problems.p.shape
        self._n_outside = 0 if outside is None else len(outside)
        self._progress = Progress(
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
            np.full(n, 0 if from_identity else 1),
            np.empty((n, 2, m)),
        )
        if not from_identity:
            for c, (problem, totals) in enumerate(problems):
                here = Problem(problem.p, problem.lower, problem.upper, float(totals[0]))
                self._progress.heads[c, 0] = feasible_start(here)
        self._problem = only[0]

    def begin(self, n_widths: int) -> None:
        """Start with the next widths, which the rows are in memory at."""
        problems, groups = self._problems, self._groups.values()
        n, n_totals = problems.totals.shape
        sizes = [len(g.problems) * n_totals * len(g.scored) for g in groups]
        step = np.repeat(sizes, [len(g.problems) for g in groups])
        # Of each group one width after the other, and of each width one problem after the other.
        start = np.cumsum([0, *(n_widths * size for size in sizes)])
        places = [
            first + np.arange(len(g.problems)) * (size // len(g.problems))
            for g, first, size in zip(groups, start, sizes, strict=False)
        ]
        self._progress.width[:] = 0
        shape = n_widths, n, n_totals
        self._found = Found(
            np.empty(shape),
            np.empty((*shape, 2)),
            np.zeros(shape, dtype=np.int64),
            np.empty(start[-1]),
            np.concatenate(places),
            step,
        )

    def run(self, tol: float, max_iter: int, stop: threading.Event) -> None:
        """Take part in solving everything, in the calling thread; returns when nothing is left."""
        rows, problems, found = self._rows, self._problems, self._found
        shape = problems.totals.shape[1], problems.p.shape[1]
        store = rows.store
        # No row is evicted: the times of use are written to, but never read.
        store = store._replace(used=np.empty_like(store.used), clock=np.zeros(1, dtype=np.int64))
        rules = limits_of(self._problem, tol), _limit(max_iter)
        sums = np.empty((shape[0], self._n_outside))
        with interrupts(), rows.maker() as maker, rows.scratch() as scratch:
            at = np.zeros(2, dtype=np.int64)
            memory = Memory(store, maker, np.empty(shape), np.empty(shape), sums, scratch, at)
            own, matrices = _PAUSED, rows.matrices[: len(found.bias)]
            while own != _DONE:
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
        """Groups with widths, decision values (G, K, T, n) and biases (G, K, T).

        A group of one problem comes with all widths, others with one at a time.
        """
        found, results, c = self._found, [], 0
        n_widths, _, n_totals = found.bias.shape
        for j, group in self._groups.items():
            n = len(group.problems)
            step = 1 if n > 1 else n_widths
            for w in range(0, n_widths, step):
                start = found.start[c] + w * found.step[c]
                part = found.scores[start : start + step * found.step[c]]
                shape = step, n, n_totals, len(group.scored)
                widths = slice(w, w + step)
                results.append((j, widths, part.reshape(shape), found.bias[widths, c : c + n]))
            c += n
        return results


def _limit(max_iter):
    return np.iinfo(np.int64).max if max_iter < 0 else max_iter


@njit(cache=True, nogil=True)
def _take(progress, n_widths):
    """A problem that no thread has and that is behind most; -1 if there is none."""
    while True:
        best = -1
        least = n_widths
        for c in range(progress.taken.size):
            if progress.taken[c] == 0 and progress.width[c] < least:
                best = c
                least = progress.width[c]
        if best < 0 or exchange(progress.taken, best, 0, 1):
            return best


@njit(cache=True, nogil=True)
def sweep(matrices, problems, progress, found, rules, memory, own):
    """Solve problems at their next widths; return which one is unfinished, _PAUSED or _DONE.

    `own` is what the previous call returned.
    """
    limits, max_iter = rules
    n_totals, m = memory.betas.shape
    work = 0.0
    while True:
        c = own
        if c < 0:
            c = _take(progress, len(matrices))
            if c < 0:
                return _DONE
            memory.at[:] = 0
        own = _PAUSED
        w = progress.width[c]
        if w == len(matrices):  # another thread was faster
            exchange(progress.taken, c, 1, 0)
            continue
        box = Box(problems.lower[c], problems.upper[c])
        p, totals = problems.p[c], problems.totals[c]
        n_heads = progress.n_heads[c]
        if memory.at[0] == 0 and memory.at[1] == 0:
            memory.betas[:n_heads] = progress.heads[c, :n_heads]
            if n_heads == 0:
                for k in range(min(2, n_totals)):
                    memory.betas[k] = identity_start(p, box, totals[k])
        if n_heads == 0:
            n_heads = min(2, n_totals)
        store, maker, rows = memory.store, memory.maker, matrices[w]
        store = RowStore(rows, store.slot, store.diagonal, store.used, store.owner, store.clock)
        maker = RowMaker(maker.points, rows, maker.samples, maker.reserve, maker.left)
        known = np.zeros(n_heads, dtype=np.bool_)
        run = Run(box, p, known, limits, max_iter, memory.scratch)
        n_iter, interval = found.n_iter[w, c], found.interval[w, c]
        members = Members(totals, memory.betas, memory.vs, n_iter, interval)
        before = n_iter.sum()
        k, resume = run_slice(store, maker, run, members, memory.at[0], memory.at[1] == 1)
        work += float(n_iter.sum() - before) * m
        if k < n_totals:
            memory.at[0] = k
            memory.at[1] = 1 if resume else 0
            return c
        _write(found, problems, memory, rows, c, w)
        n_heads = min(2, n_totals)
        progress.heads[c, :n_heads] = memory.betas[:n_heads]
        progress.n_heads[c] = n_heads
        progress.width[c] = w + 1
        exchange(progress.taken, c, 1, 0)
        if work > limits.work:
            return _PAUSED


@njit(cache=True, nogil=True)
def _write(found, problems, memory, rows, c, w):
    """Biases and decision values of problem c at width w."""
    p, box = problems.p[c], Box(problems.lower[c], problems.upper[c])
    columns = problems.columns[problems.first[c] : problems.first[c + 1]]
    n_totals, m = memory.betas.shape
    if memory.sums.shape[1] > 0:
        add_outside(rows, memory.betas, memory.sums)
    place = found.start[c] + w * found.step[c]
    for k in range(n_totals):
        v = memory.vs[k]
        bias, top, bottom, _ = summarise(p, box, memory.betas[k], v)
        found.bias[w, c, k] = bias
        found.interval[w, c, k, 0] = top
        found.interval[w, c, k, 1] = bottom
        out = found.scores[place + k * columns.size : place + (k + 1) * columns.size]
        if memory.sums.shape[1] > 0:
            for t in range(columns.size):
                out[t] = memory.sums[k, columns[t] - m] + bias
        else:
            for t in range(columns.size):
                out[t] = p[columns[t]] - v[columns[t]] + bias
