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
from ..utils.compiled import helper, njit
from ._matrix import WholeMatrix
from ._path import carry, continue_path, identity_start, start_from
from ._problem import Batch, Problem, Solved, feasible_start, near_identity
from ._smo import optimise, stack_for
from ._solve import ONE_SIDED, Interrupted, iteration_limit, limits_of, warn_not_converged
from ._state import (
    ITERATION,
    PAUSED,
    RowStore,
    State,
    add_outside,
    compare_and_swap,
    copy_values,
    set_marks,
    summarise,
)
from ._tuning import tuning

# What `sweep` returns if it holds no problem: it is to be called again, or nothing is left. The
# first is also the follower of the last problem of a chain.
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
    """What a thread works in."""

    # The total at which its problem was paused, whether in the midst of it, and its chain.
    at: np.ndarray
    # (T, n) float64: Multipliers and v of a path.
    betas: np.ndarray
    vs: np.ndarray
    trace: np.ndarray  # As for `State`.
    sums: np.ndarray
    scratch: np.ndarray


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
        n_totals, m = problems.totals.shape[1], problems.p.shape[1]
        matrices = rows.matrices[self._widths.start : self._widths.stop]
        limits, most = limits_of(self._problem, tol), iteration_limit(max_iter)
        fixed_bias = None if self._equality else True
        with interrupts(), rows.scratch() as scratch:
            memory = Memory(
                np.zeros(3, dtype=np.int64),
                np.empty((n_totals, m)),
                np.empty((n_totals, m)),
                np.empty(3),
                np.empty((n_totals, self._n_outside)),
                scratch,
            )
            kernel = matrices, store.slot, store.diagonal
            fixed = kernel, problems, self._progress, self._results, memory
            current = _FREE
            while current != _DONE:
                current = sweep(*fixed, (limits, most, fixed_bias), current)
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


@helper()
def _take(taken, width, n_widths):
    """A chain that no thread has and that is behind most; -1 if there is none."""
    while True:
        best = -1
        least = n_widths
        for c in range(taken.size):
            if taken[c] == 0 and width[c] < least:
                best = c
                least = width[c]
        if best < 0 or compare_and_swap(taken, best, 0, 1):
            return best


@njit(cache=True, nogil=True)
def sweep(kernel, problems, progress, results, memory, rules, c):
    """Solve problems at their next widths; return which one is unfinished, _FREE or _DONE."""
    # `c` is what the previous call returned. Named tuples are taken apart once: each use of a field
    # would compile the copying of all the others.
    (matrices, slot, diagonal), (limits, max_iter, fixed_bias) = kernel, rules
    ps, lowers, uppers, sums, columns, first, head, follower, last = problems
    taken, width, n_starts, starts = progress
    biases, intervals, objectives, iterations, scores, begin, step, all_betas, all_vs = results
    at, betas, vs, trace, outside, scratch = memory
    n_totals, m = betas.shape
    grow, shrink = np.empty(m, dtype=np.float32), np.empty(m, dtype=np.float32)
    pair, none = np.empty(2, dtype=np.int64), np.empty(0, dtype=np.int64)
    which, change, stack = np.empty(m, dtype=np.int64), np.empty(m), stack_for(m)
    moved = which, change
    n_first, equality, work = min(2, n_totals), fixed_bias is None, 0.0
    while True:
        if c < 0:
            h = _take(taken, width, len(matrices))
            if h < 0:
                c = _DONE
                break
            c = head[h]
            at[0], at[1], at[2] = 0, 0, h
        h = at[2]
        w = width[h]
        if w == len(matrices):  # another thread was faster
            compare_and_swap(taken, h, 1, 0)
            c = _FREE
            continue
        if last[w, h] < 0:
            width[h] += 1
            compare_and_swap(taken, h, 1, 0)
            c = _FREE
            continue
        rows, p, lower, upper, totals = matrices[w], ps[c], lowers[c], uppers[c], sums[c]
        n_given, box = n_first, (lower, upper)
        if c == head[h]:
            n_given = _first_starts(n_starts[h], starts[h], p, box, totals, at, betas, moved)
        store, n_iter, interval = RowStore(rows, slot, diagonal), iterations[w, c], intervals[w, c]
        k, done, trace[0] = at[0], 0.0, 0.0
        while k < n_totals and done <= limits.work:
            if at[1] == 0:
                if k >= n_given:
                    continue_path(totals, betas, vs, k, box, moved, slot, rows)
                elif c == head[h]:
                    start_from(betas[k], p, vs[k], which, change, slot, rows)
                trace[1], trace[2] = np.inf, n_iter[k]
            state = State(betas[k], vs[k], lower, upper, grow, shrink, pair, trace)
            set_marks(state)
            before = n_iter[k]
            status, _, n_iter[k], interval[k, 0], interval[k, 1] = optimise(
                store,
                state,
                (rows, none),
                None,
                None,
                (limits, before, max_iter),
                fixed_bias,
                (scratch, stack),
            )
            done += float(n_iter[k] - before) * (m + ITERATION)
            at[1] = 1 if status == PAUSED and n_iter[k] < max_iter else 0
            if at[1] == 0:
                k += 1
        work += done
        at[0] = k
        if k < n_totals:
            break
        # Biases and decision values, and the solutions if they are kept.
        if outside.shape[1] > 0:
            add_outside(rows, betas, outside)
        own = columns[first[c] : first[c + 1]]
        for k in range(n_totals):
            bias, interval[k, 0], interval[k, 1], objectives[w, c, k] = summarise(
                p, lower, upper, betas[k], vs[k], equality
            )
            biases[w, c, k] = bias
            place = begin[c] + w * step[c] + k * own.size
            _write_scores(scores[place : place + own.size], own, p, vs[k], outside[k], bias)
            if all_betas.size > 0:
                copy_values(all_betas[w, c, k], betas[k])
                copy_values(all_vs[w, c, k], vs[k])
        # The problem that follows in the chain starts from here; at its end the chain is released.
        if c == head[h]:
            for k in range(n_first):
                copy_values(starts[h, k], betas[k])
            n_starts[h] = n_first
        after = -1 if c == last[w, h] else follower[c]
        if after < 0:
            width[h] += 1
            compare_and_swap(taken, h, 1, 0)
        else:
            at[0], at[1] = 0, 0
            box = lowers[after], uppers[after]
            for k in range(n_first):
                terms, total = (p, ps[after]), sums[after, k]
                carry(betas[k], vs[k], terms, box, total, equality, moved, (slot, rows))
        c = after
        if work > limits.work:
            break
    return c  # one place for all: each would compile the release of all arrays


@helper()
def _first_starts(n_starts, starts, p, box, totals, at, betas, moved):
    """Multipliers for the first totals of a chain, unless it was paused; return their number."""
    (lower, upper), (which, change) = box, moved
    n = n_starts if n_starts > 0 else min(2, totals.size)
    for k in range(n if at[0] == 0 and at[1] == 0 else 0):
        if n_starts > 0:
            copy_values(betas[k], starts[k])
        else:
            total = totals[k]
            identity_start(p, lower, upper, total, betas[k], which, change)
    return n


@helper()
def _write_scores(out, columns, p, v, outside, bias):
    """Decision values in some columns, with the sums of those after the samples, if there are."""
    for t in range(columns.size):
        i = columns[t]
        out[t] = (outside[i - p.size] if outside.size > 0 else p[i] - v[i]) + bias
