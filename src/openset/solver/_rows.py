"""Kernel rows of one training set, shared by every machine that is trained on it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from copy import copy

import numpy as np
from joblib import effective_n_jobs

from ..kernels import RBF, Kernel, Linear
from ..utils import thread_map
from ._geometry import DotProducts, Geometry, MatrixPart, columns_of
from ._memory import empty_rows
from ._row_maker import (
    ENOUGH,
    ENOUGH_FOR_ONE,
    RESERVE,
    RowMaker,
    add_made_rows,
    maker_of_part,
    maker_of_points,
    no_maker,
    subtract_made_rows,
)

# Side of the square blocks in which a whole kernel matrix is filled, upper triangle first.
_TILE = 512
# Rows of a matrix that is always worth having whole. Of a larger one, a machine touches a small
# part of the rows; many together touch most of them, sooner where a row is expensive.
_SMALL = 2048
_WIDE_SOLUTIONS = 8
_NARROW_SOLUTIONS = 1 / 300  # for each row
# Rows that are made and subtracted before other solvers may evict some.
_MADE = 256


class KernelRows:
    """Rows of the kernel matrix in float32, computed once and kept within a budget.

    Several solver threads may use one object. A row, once at hand, stays where it is while any
    solver is inside :meth:`reading`; when the budget is exhausted the thread that needs room waits
    until all others are outside, then drops the rows that were used longest ago. Nobody enters
    before it has its rows and is inside itself, so every thread gets on, however small the budget.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
    kernel : Kernel or Linear
    gamma : float or sequence of float
        Width of the kernel, or all widths that :meth:`use` will be asked for; the first is in use.
    cache_size : float
        Budget in MB.
    n_solutions : int, default=1
        How many solutions will be found over the rows; decides whether the whole matrix pays.
    n_jobs : int or None
        Threads for the whole matrix.

    Attributes
    ----------
    rows : ndarray of shape (n_slots, m), float32
    slot : ndarray of shape (m,), int32
        Where the row of a sample lies in `rows`, -1 if it is not at hand.
    used : ndarray of shape (n_slots,), int64
        When each slot was last used, in ticks of `clock`.
    owner : ndarray of shape (n_slots,), int64
        Sample whose row lies in a slot, -1 for none.
    diagonal : ndarray of shape (m,), float32
    whole : bool
        Whether all rows are at hand from the beginning.
    stop : threading.Event or None
        Once set, solvers that read the rows leave with :class:`Interrupted`.
    """

    stop: threading.Event | None = None

    def __init__(self, X, kernel: Kernel | Linear, gamma, cache_size, n_solutions=1, n_jobs=None):
        gammas = np.atleast_1d(np.asarray(gamma, dtype=np.float64))
        self._kernel = kernel
        # Distances are formed at the largest width, where rounding matters most, and scaled down.
        self._largest = gammas.max()
        self._source = Geometry(X, kernel, self._largest) if kernel.decaying else DotProducts(X)
        m = self._source.n_rows
        self._n_jobs = n_jobs
        self.diagonal = np.ones(m, dtype=np.float32) if kernel.decaying else self._source.diagonal()
        budget = int(cache_size * 2**20) // 4
        # In the budget is a part of up to a fifth of the samples for each thread, see `subset`.
        self._part = min(budget // 8, (m // 5) ** 2)
        budget = max(budget - effective_n_jobs(n_jobs) * self._part, budget // 2) // m
        enough = _WIDE_SOLUTIONS if self._source.points is None else _NARROW_SOLUTIONS * m
        self.whole = m <= budget and (m <= _SMALL or n_solutions * len(gammas) >= enough)
        self._allocate(budget)
        if self.whole and len(gammas) > 1 and 2 * m <= budget:
            self._distances = np.empty((m, m), dtype=np.float32)
            self._fill(self._distances, self._source)
        self.use(gammas[0])

    def _allocate(self, budget):
        m = self._source.n_rows
        n_slots = m if self.whole else min(m, max(budget, 2 * self._source.batch))
        # Untouched pages of an empty array cost nothing, so the budget is claimed as it is used.
        self.rows = empty_rows(n_slots, m)
        self.slot = np.full(m, -1, dtype=np.int32)
        self.used = np.zeros(n_slots, dtype=np.int64)
        self.clock = 0
        self.owner = np.full(n_slots, -1, dtype=np.int64)
        self._pending = np.zeros(m, dtype=bool)
        self._lock = threading.Condition()
        self._readers = 0
        self._waiting = False
        self._distances = None

    def subset(self, index: np.ndarray) -> KernelRows:
        """The kernel matrix of the samples `index` alone, for one solver that has left the rest.

        It has rows of its own, in at most an eighth of the budget: where rows are short, making
        or copying them again costs less than reading every few values of the long ones.
        """
        part = copy(self)
        part._n_jobs = 1
        part.diagonal = self.diagonal[index]
        part._source = MatrixPart(self.rows, index) if self.whole else self._source.subset(index)
        copies = isinstance(part._source, MatrixPart)
        budget = self._part // len(index)
        part.whole = len(index) < min(ENOUGH_FOR_ONE if copies else ENOUGH, budget)
        part._allocate(budget)
        part._part = part.rows.size // 8
        part._turn(self._ratio)
        return part

    def use(self, gamma: float) -> None:
        """Turn to another width; the memory is kept, the rows are computed anew."""
        self._turn(np.float32(gamma / self._largest))

    def _turn(self, ratio):
        self._ratio = ratio
        if self._distances is not None:
            for _ in thread_map(self._rescale, range(0, len(self.rows), 64), self._n_jobs):
                pass
        elif self.whole:
            self._fill(self.rows, self._values)
        if self.whole:
            self.slot[:] = np.arange(len(self.slot))
            self._free = []
        else:
            self.slot[:] = -1
            self.owner[:] = -1
            self._free = list(range(len(self.rows) - 1, -1, -1))

    @property
    def batch(self) -> int:
        """How many missing rows are best asked for at once."""
        return max(1, min(self._source.batch, len(self.rows) // 2))

    def add_expansions(self, sums: np.ndarray, support: np.ndarray, coef: np.ndarray, points):
        """``sums += coef @ K[support, points]`` for many machines; no row is kept.

        Parameters
        ----------
        sums : ndarray of shape (n_machines, n), float64
        support : ndarray of shape (n_sv,)
        coef : ndarray of shape (n_machines, n_sv)
        points : ndarray of shape (n,)
        """
        if self.points is not None:
            Z, _ = self.points
            add_made_rows(sums, coef, support, Z, columns_of(Z[points]), self._ratio)
            return
        single = coef.astype(np.float32)
        for k in range(0, len(support), _MADE):
            part = slice(k, k + _MADE)
            sums += single[:, part] @ self._block(support[part], points)

    def _block(self, i, j):
        if self.whole:
            return self.rows[i[:, None], j]
        part = copy(self)
        part._source = self._source.subset(np.concatenate([j, i]))
        out = np.empty((len(i), len(j)), dtype=np.float32)
        part._values(np.arange(len(j), len(j) + len(i)), 0, len(j), out)
        return out

    def _values(self, index, start, stop, out):
        self._source(index, start, stop, out)
        if self._source.distances:
            if self._ratio != 1:
                out *= self._ratio
            self._kernel.value(out, out=out)

    def _rescale(self, start):
        block = self.rows[start : start + 64]
        np.multiply(self._distances[start : start + 64], self._ratio, out=block)
        self._kernel.value(block, out=block)

    def _fill(self, matrix, values):
        """Fill a symmetric matrix tile by tile, the lower triangle copied from the upper."""
        m = len(matrix)
        edges = range(0, m, _TILE)

        def fill(tile):
            i, j = tile
            index = np.arange(i, min(m, i + _TILE))
            out = np.empty((len(index), min(m, j + _TILE) - j), dtype=np.float32)
            values(index, j, j + out.shape[1], out)
            matrix[i : i + out.shape[0], j : j + out.shape[1]] = out
            if i != j:
                matrix[j : j + out.shape[1], i : i + out.shape[0]] = out.T

        tiles = [(i, j) for i in edges for j in edges if j >= i]
        for _ in thread_map(fill, tiles, self._n_jobs):
            pass

    @contextmanager
    def reading(self, index: np.ndarray):
        """Inside, the rows of the samples `index` are at hand, and no row at hand moves."""
        with self._lock:
            self._lock.wait_for(lambda: not (self._waiting or self._pending[index].any()))
            missing, slots = self._reserve(index)
            self._readers += 1
        try:
            # Rows are computed without the lock: other threads go on meanwhile.
            if slots:
                self._compute(missing, slots)
            yield
        finally:
            with self._lock:
                self._readers -= 1
                self._lock.notify_all()

    def _reserve(self, index):
        """The missing rows of `index`, and slots for them."""
        missing = index[self.slot[index] < 0]
        self._make_room(missing.size, keep=index)
        self._pending[missing] = True
        return missing, [self._free.pop() for _ in missing]

    def _make_room(self, n, keep):
        if n <= len(self._free):
            return
        self._waiting = True
        try:
            self._lock.wait_for(lambda: self._readers == 0)
        finally:
            self._waiting = False
            self._lock.notify_all()
        self._evict(n, keep)

    def _compute(self, index, slots):
        done = False
        try:
            for k in range(0, len(index), self._source.batch):
                self._write(index[k : k + self._source.batch], slots[k : k + self._source.batch])
            done = True
        finally:
            with self._lock:
                if done:
                    self.used[slots] = self.clock
                    self.owner[slots] = index
                    self.slot[index] = slots
                else:
                    self._free.extend(slots)
                self._pending[index] = False
                self._lock.notify_all()

    def _write(self, index, slots):
        if len(index) == 1:
            # Where it stays: memory touched twice costs more than the arithmetic.
            self._values(index, 0, self.rows.shape[1], self.rows[slots[0] : slots[0] + 1])
        else:
            out = np.empty((len(index), self.rows.shape[1]), dtype=np.float32)
            self._values(index, 0, out.shape[1], out)
            self.rows[slots] = out

    @property
    def points(self):
        """Points and columns of narrow data whose rows compiled loops can make, or None."""
        return self._source.points if type(self._kernel) is RBF and not self.whole else None

    def subtract_made(self, v: np.ndarray, index: np.ndarray, coef: np.ndarray) -> bool:
        """``v -= K[:, index] @ coef``; False if rows are not cheaply made and nothing was done.

        Rows that are not at hand are made and not kept: what a finished part has moved is seldom
        wanted again.
        """
        if self.points is None:
            return False
        for k in range(0, len(index), _MADE):
            part = slice(k, k + _MADE)
            with self.reading(index[:0]):  # rows at hand stay meanwhile
                subtract_made_rows(
                    v, coef[part], index[part], *self.points, self._ratio, self.rows, self.slot
                )
        return True

    @contextmanager
    def maker(self):
        """A :class:`RowMaker` for one solver; what it leaves unused is taken back."""
        copies = isinstance(self._source, MatrixPart) and not self.whole
        if copies and len(self.rows) >= ENOUGH_FOR_ONE:
            maker = maker_of_part(self._source.matrix, self._source.samples, self.owner)
        elif self.points is not None and len(self.rows) >= ENOUGH:
            maker = maker_of_points(*self.points, self._ratio, self.owner)
        else:
            yield no_maker(self.owner)
            return
        try:
            yield maker
        finally:
            with self._lock:
                self._free.extend(maker.reserve[: maker.left[0]].tolist())

    def refill(self, maker: RowMaker, keep: np.ndarray) -> bool:
        """Give a maker new slots; False if it makes no rows. Rows of `keep` are not given up."""
        if not maker.makes:
            return False
        with self._lock:
            self._lock.wait_for(lambda: not self._waiting)
            self._make_room(RESERVE, keep)
            maker.reserve[:] = [self._free.pop() for _ in range(RESERVE)]
            maker.left[0] = RESERVE
        return True

    def _evict(self, n_needed, keep):
        # A tenth at a time: waiting for the other threads is the expensive part.
        n_evicted = max(n_needed - len(self._free), len(self.rows) // 10)
        held = np.setdiff1d(np.flatnonzero(self.owner >= 0), self.slot[keep])
        oldest = held[np.argsort(self.used[held], kind="stable")[:n_evicted]]
        # A row that two solvers made at once lies in two slots; only one is looked at.
        current = oldest[self.slot[self.owner[oldest]] == oldest]
        self.slot[self.owner[current]] = -1
        self.owner[oldest] = -1
        self._free.extend(oldest.tolist())
