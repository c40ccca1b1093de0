"""The compiled loop in which threads take one problem after the other, see ``_sweep``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils.compiled import njit
from ._atomic import exchange
from ._path_loop import Members, Run, add_outside, identity_start, run_slice
from ._rows import RowMaker
from ._state import ITERATION, Box, RowStore, summarise

# What `sweep` returns if it holds no problem: it is to be called again, or nothing is left.
HELD_NOTHING, DONE = -1, -2


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
    """Results by width, problem and total; scores of (c, w) begin at start[c] + w * step[c].

    Multipliers and v of the last width, by problem and total, are kept if there is room for them.
    """

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
    """What a thread works in; `at` is the total at which its problem was paused, and how.

    `progress` is that of the :class:`State` of the problem.
    """

    store: RowStore
    maker: RowMaker
    betas: np.ndarray
    vs: np.ndarray
    sums: np.ndarray
    scratch: np.ndarray
    at: np.ndarray
    progress: np.ndarray


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
    """Solve problems at their next widths; return which one is unfinished, HELD_NOTHING or DONE.

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
                return DONE
            memory.at[:] = 0
        own = HELD_NOTHING
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
        members = Members(totals, memory.betas, memory.vs, n_iter, interval, memory.progress)
        before = n_iter.sum()
        k, resume = run_slice(store, maker, run, members, memory.at[0], memory.at[1] == 1)
        work += float(n_iter.sum() - before) * (m + ITERATION)
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
            return HELD_NOTHING


@njit(cache=True, nogil=True)
def _write(found, problems, memory, rows, c, w):
    """Biases and decision values of problem c at width w, and the solutions if they are kept."""
    p, box = problems.p[c], Box(problems.lower[c], problems.upper[c])
    columns = problems.columns[problems.first[c] : problems.first[c + 1]]
    n_totals, m = memory.betas.shape
    if memory.sums.shape[1] > 0:
        add_outside(rows, memory.betas, memory.sums)
    place = found.start[c] + w * found.step[c]
    for k in range(n_totals):
        v = memory.vs[k]
        bias, top, bottom, objective = summarise(p, box, memory.betas[k], v)
        found.bias[w, c, k] = bias
        found.objective[w, c, k] = objective
        found.interval[w, c, k, 0] = top
        found.interval[w, c, k, 1] = bottom
        out = found.scores[place + k * columns.size : place + (k + 1) * columns.size]
        if memory.sums.shape[1] > 0:
            for t in range(columns.size):
                out[t] = memory.sums[k, columns[t] - m] + bias
        else:
            for t in range(columns.size):
                out[t] = p[columns[t]] - v[columns[t]] + bias
    if len(found.betas) > 0:
        found.betas[c] = memory.betas
        found.vs[c] = memory.vs
