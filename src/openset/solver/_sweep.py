"""Many problems over a kernel matrix in memory, at several widths, in compiled code.

A small search solves hundreds of paths of a few milliseconds each. If every one of them returned to
Python, many threads would wait for the interpreter's lock most of the time. So each thread enters
compiled code once and takes one problem after the other there: the one that is behind, at its next
width, from the solution at the previous one. No thread waits for another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from ..utils import interrupts
from ..utils.compiled import njit
from ._matrix import WholeMatrix
from ._path import Members, Run, carry, identity_start, run_slice
from ._problem import Batch, Problem, Solved, feasible_start, near_identity
from ._rows import RowMaker
from ._solve import ONE_SIDED, Interrupted, iteration_limit, limits_of, warn_not_converged
from ._state import Box, RowStore, add_outside, compare_and_swap, copy_values, summarise
from ._tuning import tuning

# What `sweep` returns if it holds no problem: it is to be called again, or nothing is left.
_FREE, _DONE = -1, -2


class Problems(NamedTuple):
    """C problems over n rows, each with T totals."""

    # The rows that are scored for problem c are the columns `columns[first[c] : first[c + 1]]` of
    # the kernel matrix. Problems form chains: `head[h]` is the first of chain h, `follower[c]` the
    # one that starts from the solution of c, and `last[w, h]` the last one to solve at width w, -1
    # if there is none.

    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    totals: np.ndarray
    columns: np.ndarray
    first: np.ndarray
    head: np.ndarray
    follower: np.ndarray
    last: np.ndarray


class Progress(NamedTuple):
    """Of each chain: whether a thread has it, its next width, and where its path starts there.

    There are no, one or two multiplier vectors to start from, for the first totals; none stands for
    the solution for the identity as kernel matrix.
    """

    taken: np.ndarray
    width: np.ndarray
    n_heads: np.ndarray
    heads: np.ndarray


class Results(NamedTuple):
    """Results by width, problem and total; scores of (c, w) begin at start[c] + w * step[c]."""

    # Multipliers and v, too, are by width, problem and total; empty if they are not kept.

    bias: np.ndarray
    interval: np.ndarray
    objective: np.ndarray
    n_iter: np.ndarray
    scores: np.ndarray
    start: np.ndarray
    step: np.ndarray
    betas: np.ndarray
    vs: np.ndarray


class Memory(NamedTuple):
    """What a thread works in; `at` is the total at which its problem was paused, how, its chain."""

    # `progress` is that of the `State` of the problem.

    store: RowStore
    maker: RowMaker
    betas: np.ndarray
    vs: np.ndarray
    sums: np.ndarray
    scratch: np.ndarray
    at: np.ndarray
    progress: np.ndarray


class Sweep:
    """Batches over the rows of one kernel matrix, with as many totals each."""

    # Between widths it keeps the multipliers that the next width starts from; solutions only with
    # `keep`. The matrix has `n_outside` columns beyond its rows.

    def __init__(self, rows: WholeMatrix, n_outside: int, keep: bool):
        self._rows, self._n_outside, self.keep = rows, n_outside, keep
        self._progress: Progress | None = None

    def begin(
        self,
        widths: range,
        batches: list[tuple[int, Batch, np.ndarray]],
        wanted: np.ndarray,
        to_solve: np.ndarray,
    ) -> None:
        """Start with some of the widths that the rows are in memory at."""
        # `batches` are the number and the arrays of each batch, and the columns that are scored.
        # `wanted` are the results to return, (batches, widths) bool, `to_solve` what leads to them.
        self._widths, self._wanted = widths, wanted
        self._batches = [(j, len(batch.p), columns) for j, batch, columns in batches]
        p, lower, upper = (
            arrays[0] if len(arrays) == 1 else np.vstack(arrays)
            for arrays in zip(*(batch[:3] for _, batch, _ in batches), strict=True)
        )
        p, lower, upper = map(np.ascontiguousarray, (p, lower, upper))
        sums = [batch.totals for _, batch, _ in batches if batch.totals is not None]
        self._equality = bool(sums)
        totals = np.vstack(sums, dtype=np.float64) if sums else np.zeros((len(p), 1))
        columns = [own for _, size, own in self._batches for _ in range(size)]
        first = np.cumsum([0, *map(len, columns)])
        chains = self._chains([batch.follows for _, batch, _ in batches], to_solve)
        self._problems = Problems(p, lower, upper, totals, np.concatenate(columns), first, *chains)
        self._problem = Problem(p, lower, upper, totals[:, :1] if self._equality else None)
        if self._progress is None:
            self._progress = self._first_heads()
        self._progress.width[:] = 0
        self._results = self._empty_results()

    def _chains(self, follows, to_solve):
        """`head`, `follower` and `last` of the problems."""
        ends = np.cumsum([size for _, size, _ in self._batches])
        chain, n_chains = np.empty(ends[-1], dtype=np.intp), 0
        head, follower = np.ones(ends[-1], dtype=bool), np.full(ends[-1], -1)
        last = np.full((len(self._widths), ends[-1]), -1)
        for b, (end, (_, size, _)) in enumerate(zip(ends, self._batches, strict=True)):
            here = np.arange(end - size, end)
            if b > 0 and follows[b]:
                head[here], follower[here - size], chain[here] = False, here, chain[here - size]
            else:
                chain[here] = n_chains + np.arange(size)
                n_chains += size
            last[np.ix_(to_solve[b], chain[here])] = here
        return np.flatnonzero(head), follower, np.ascontiguousarray(last[:, :n_chains])

    def end(self, last: bool) -> None:
        """Forget the problems and their results; with `last` also where they would start."""
        del self._problems, self._problem, self._results
        if last:
            self._progress = None

    def _first_heads(self):
        first, m = self._problems.head, self._problems.p.shape[1]
        n = len(first)
        n_heads, heads = np.zeros(n, dtype=np.int64), np.empty((n, 2, m))
        if not near_identity(self._rows.store.rows[:: max(1, m // 16), :m]):
            n_heads[:] = 1
            heads[:, 0] = feasible_start(self._problem)[first]
        return Progress(np.zeros(n, np.int64), np.zeros(n, np.int64), n_heads, heads)

    def _empty_results(self):
        n, n_totals = self._problems.totals.shape
        n_widths, end, start, step = len(self._widths), 0, [], []
        for _, k, columns in self._batches:
            size = n_totals * len(columns)
            apart = self._apart(k, columns, n_widths)
            start.append(end + np.arange(k) * (size if apart else n_widths * size))
            step += [k * size if apart else size] * k
            end += k * n_widths * size
        shape = n_widths, n, n_totals
        kept = (*shape, self._problems.p.shape[1]) if self.keep else (0, 0, 0, 0)
        return Results(
            np.zeros(shape),
            np.zeros((*shape, 2)),
            np.empty(shape),
            np.zeros(shape, dtype=np.int64),
            np.empty(end),
            np.concatenate(start),
            np.array(step),
            np.empty(kept),
            np.empty(kept),
        )

    def _apart(self, k, columns, n_widths):
        """Whether scores of k problems are stored by widths, to be read by several threads."""
        # Otherwise they are stored by problems, and one thread reads those of all widths.
        size = k * self._problems.totals.shape[1] * len(columns)
        return self.keep or n_widths * size > tuning().read_at_once

    def run(self, tol: float, max_iter: int, stop: threading.Event) -> None:
        """Take part in solving everything, in the calling thread; returns when nothing is left."""
        rows, problems, store = self._rows, self._problems, self._rows.store
        shape = problems.totals.shape[1], problems.p.shape[1]
        # No row is evicted: the times of use are written to, but never read.
        store = store._replace(used=np.empty_like(store.used), clock=np.zeros(1, dtype=np.int64))
        rules = limits_of(self._problem, tol), iteration_limit(max_iter)
        sums = np.empty((shape[0], self._n_outside))
        with interrupts(), rows.maker() as maker, rows.scratch() as scratch:
            at = np.zeros(3, dtype=np.int64)
            betas, vs, progress = np.empty(shape), np.empty(shape), np.empty(2)
            memory = Memory(store, maker, betas, vs, sums, scratch, at, progress)
            matrices = rows.matrices[self._widths.start : self._widths.stop]
            current = _FREE
            while current != _DONE:
                current = sweep(
                    matrices, problems, self._progress, self._results, rules, memory, current
                )
                if stop.is_set():
                    raise Interrupted

    def check(self, tol: float) -> None:
        """Raise or warn as the solver of a single problem does."""
        results = self._results
        if not np.isfinite(results.bias).all():
            raise ValueError(ONE_SIDED)
        gaps = results.interval[..., 0] - results.interval[..., 1]
        for n_iter, gap in zip(results.n_iter[gaps > tol], gaps[gaps > tol], strict=True):
            warn_not_converged(n_iter, gap, tol)

    def scores(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Batches with widths, decision values (P, W, T, q) and biases (W, P, T)."""
        # A small batch comes with all wanted widths, others with one at a time.
        results, c = self._results, 0
        n_widths, _, n_totals = results.bias.shape
        for (j, n, columns), wanted in zip(self._batches, self._wanted, strict=True):
            start = results.start[c]
            step = 1 if self._apart(n, columns, n_widths) else n_widths
            for w in range(0, n_widths, step):
                shape = n, step, n_totals, len(columns)
                part = results.scores[start : start + prod(shape)].reshape(shape)
                start += part.size
                kept = np.flatnonzero(wanted[w : w + step])
                if len(kept) < step:
                    part = part[:, kept]
                if len(kept):
                    widths = np.array(self._widths[w : w + step])[kept]
                    yield j, widths, part, results.bias[w + kept, c : c + n]
            c += n

    def solved(self, tol: float) -> Iterator[Solved]:
        """The solutions of all problems at all widths, width by width."""
        problems, results = self._problems, self._results
        begins = np.cumsum([0, *(size for _, size, _ in self._batches)])
        for w, width in enumerate(self._widths):
            scores = (own[:, 0] for _, widths, own, _ in self.scores() if widths[0] == width)
            batches = np.flatnonzero(self._wanted[:, w]).tolist()
            for b, own in zip(batches, scores, strict=True):
                j, c = self._batches[b][0], begins[b]
                for i in range(len(own)):
                    here = problems.p[c], problems.lower[c], problems.upper[c]
                    total = float(problems.totals[c, 0]) if self._equality else None
                    yield Solved(
                        Problem(*here, total),
                        problems.totals[c],
                        results.betas[w, c],
                        results.vs[w, c],
                        results.bias[w, c],
                        results.interval[w, c],
                        results.objective[w, c],
                        results.n_iter[w, c],
                        tol,
                        own[i] if own.shape[-1] else None,
                        batch=j,
                        index=i,
                        width=width,
                    )
                    c += 1


@njit(cache=True, nogil=True, inline="always")
def _take(progress, n_widths):
    """A chain that no thread has and that is behind most; -1 if there is none."""
    while True:
        best = -1
        least = n_widths
        for c in range(progress.taken.size):
            if progress.taken[c] == 0 and progress.width[c] < least:
                best = c
                least = progress.width[c]
        if best < 0 or compare_and_swap(progress.taken, best, 0, 1):
            return best


@njit(cache=True, nogil=True)
def sweep(matrices, problems, progress, results, rules, memory, current):
    """Solve problems at their next widths; return which one is unfinished, _FREE or _DONE."""
    # `current` is what the previous call returned.
    limits, max_iter = rules
    n_totals, work = len(memory.betas), 0.0
    while True:
        c = current
        if c < 0:
            h = _take(progress, len(matrices))
            if h < 0:
                return _DONE
            c = problems.head[h]
            memory.at[0], memory.at[1], memory.at[2] = 0, 0, h
        current, h = _FREE, memory.at[2]
        w = progress.width[h]
        if w == len(matrices):  # another thread was faster
            compare_and_swap(progress.taken, h, 1, 0)
            continue
        if problems.last[w, h] < 0:
            progress.width[h] += 1
            compare_and_swap(progress.taken, h, 1, 0)
            continue
        totals, n_heads, n_ready = problems.totals[c], min(2, n_totals), min(2, n_totals)
        if c == problems.head[h]:
            n_heads, n_ready = _first_starts(problems, progress, memory, h), 0
        store, maker, rows = memory.store, memory.maker, matrices[w]
        store = RowStore(rows, store.slot, store.diagonal, store.used, store.owner, store.clock)
        maker = RowMaker(maker.points, rows, maker.samples, maker.reserve, maker.left)
        box = Box(problems.lower[c], problems.upper[c])
        run = Run(box, problems.p[c], n_heads, n_ready, limits, max_iter, memory.scratch)
        n_iter, interval = results.n_iter[w, c], results.interval[w, c]
        members = Members(totals, memory.betas, memory.vs, n_iter, interval, memory.progress)
        at, resume = memory.at[0], memory.at[1] == 1
        k, resume, done = run_slice(store, maker, run, members, at, resume)
        work += done
        if k < n_totals:
            memory.at[0] = k
            memory.at[1] = 1 if resume else 0
            return c
        _write(results, problems, memory, rows, (w, c), limits.equality)
        current = _hand_over(problems, progress, memory, store, run, members, c)
        if work > limits.work:
            return current


@njit(cache=True, nogil=True, inline="always")
def _first_starts(problems, progress, memory, h):
    """Multipliers for the first totals of chain h, unless it was paused; return their number."""
    c, n_heads = problems.head[h], progress.n_heads[h]
    if memory.at[0] == 0 and memory.at[1] == 0:
        for k in range(n_heads):
            copy_values(memory.betas[k], progress.heads[h, k])
    if n_heads > 0:
        return n_heads
    n_heads = min(2, len(memory.betas))
    if memory.at[0] == 0 and memory.at[1] == 0:
        box = Box(problems.lower[c], problems.upper[c])
        for k in range(n_heads):
            identity_start(problems.p[c], box, problems.totals[c, k], memory.betas[k])
    return n_heads


@njit(cache=True, nogil=True, inline="always")
def _hand_over(problems, progress, memory, store, run, members, c):
    """Start the problem that follows c; at the end of a chain release it, and return _FREE."""
    h = memory.at[2]
    after = -1 if c == problems.last[progress.width[h], h] else problems.follower[c]
    n_first = min(2, len(memory.betas))
    if c == problems.head[h]:
        for k in range(n_first):
            copy_values(progress.heads[h, k], memory.betas[k])
        progress.n_heads[h] = n_first
    if after < 0:
        progress.width[h] += 1
        compare_and_swap(progress.taken, h, 1, 0)
        return _FREE
    memory.at[0], memory.at[1] = 0, 0
    box = Box(problems.lower[after], problems.upper[after])
    run = Run(box, problems.p[after], 0, n_first, run.limits, 0, run.scratch)
    totals = problems.totals[after]
    members = Members(
        totals, memory.betas, memory.vs, members.n_iter, members.intervals, members.progress
    )
    carry(store, problems.p[c], run, members)
    return after


@njit(cache=True, nogil=True, inline="always")
def _write(results, problems, memory, rows, cell, equality):
    """Biases and decision values of a (width, problem), and the solutions if they are kept."""
    w, c = cell
    p, box = problems.p[c], Box(problems.lower[c], problems.upper[c])
    columns = problems.columns[problems.first[c] : problems.first[c + 1]]
    n_totals, m = memory.betas.shape
    if memory.sums.shape[1] > 0:
        add_outside(rows, memory.betas, memory.sums)
    place = results.start[c] + w * results.step[c]
    for k in range(n_totals):
        v = memory.vs[k]
        bias, top, bottom, objective = summarise(p, box, memory.betas[k], v, equality)
        results.bias[w, c, k] = bias
        results.objective[w, c, k] = objective
        results.interval[w, c, k, 0] = top
        results.interval[w, c, k, 1] = bottom
        out = results.scores[place + k * columns.size : place + (k + 1) * columns.size]
        if memory.sums.shape[1] > 0:
            for t in range(columns.size):
                out[t] = memory.sums[k, columns[t] - m] + bias
        else:
            for t in range(columns.size):
                out[t] = p[columns[t]] - v[columns[t]] + bias
    if results.betas.size > 0:
        for k in range(n_totals):
            copy_values(results.betas[w, c, k], memory.betas[k])
            copy_values(results.vs[w, c, k], memory.vs[k])
