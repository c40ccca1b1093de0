"""A cache of kernel rows for several threads, and the choice between it and the whole matrix."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from math import isqrt

import numpy as np
from scipy import sparse

from ..kernels import Kernel, Linear
from ..utils.compiled import njit
from ._matrix import KernelValues, WholeMatrix, scratch_size
from ._rows import (
    KernelRows,
    Recent,
    RowMaker,
    ScratchPool,
    add_made_rows,
    empty_rows,
    making,
    subtract_made_rows,
)
from ._state import row_store
from ._tuning import tuning
from .points import NARROW, padded_columns

_subtract_made_rows = njit(cache=True, nogil=True)(subtract_made_rows)


def kernel_rows(
    X, kernel: Kernel | Linear, gamma, cache_size: float, n_solutions: int = 1, n_jobs=None
) -> KernelRows:
    """Kernel rows of X (m, d): the whole matrix where it pays and fits `cache_size` MB, or a cache.

    `gamma` are all widths that will be passed to ``use``, the first of them in use; `n_solutions`
    will be found at each, which decides what pays, and how many widths are in memory at a time.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver import kernel_rows
    >>> rows = kernel_rows(np.array([[0.0], [1.0]]), RBF(), 1.0, cache_size=1)
    >>> rows.whole
    True
    >>> rows.store.rows.round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]], dtype=float32)
    """
    gammas = np.atleast_1d(np.asarray(gamma, dtype=np.float64))
    values = KernelValues(X, kernel, gammas)
    m, constants = values.n_points, tuning()
    budget = max(0, int(cache_size * 2**20) // 4 - values.size)
    # The budget includes one part of up to a fifth of the samples. Every further thread has one of
    # its own: nothing here depends on `n_jobs`, so that results do not either.
    part_size = min(budget // 8, (m // 5) ** 2)
    n_slots = (budget - part_size) // m
    pays = m <= constants.small or n_solutions * len(gammas) >= _enough(X)
    if m <= n_slots and pays:
        most, room = _widths_at_once(m, n_solutions), n_slots // m
        if len(gammas) > min(most, room):
            most = max(1, min(most, room - 1))  # leave room for the distances
        most, keep_distances = min(most, len(gammas)), most < min(len(gammas), room)
        return WholeMatrix(values, n_jobs, gammas[:most].tolist(), None, keep_distances)
    return RowCache(values, n_slots, part_size)


def _widths_at_once(m, n_solutions):
    """At how many widths matrices of m rows are solved over together, at least 1."""
    # With few problems per width, several widths at a time keep many threads busy.
    numbers, solutions = tuning().widths_numbers // m**2, tuning().widths_solutions // n_solutions
    return max(1, min(numbers, solutions))


def _enough(X):
    """Number of solutions from which the whole matrix pays."""
    # One solution needs a small part of the rows. Many need most of them, sooner where a row is
    # expensive.
    narrow = not sparse.issparse(X) and X.shape[1] <= NARROW
    return tuning().narrow_solutions_per_row * X.shape[0] if narrow else tuning().wide_solutions


def rows_of_parts(
    X, kernel, gammas: np.ndarray, parts, cache_size: float, n_solutions: int, n_jobs, needed
) -> Iterator[dict[int, WholeMatrix]] | None:
    """{part: matrix} for parts in memory together; None where they do not pay or do not fit."""
    # Where they are not all together, only those that are `needed`, (parts,) bool, are yielded.
    # A matrix has the rows of the samples of its part, and columns for all samples, those of the
    # part first. `n_solutions` are found at each width, over all parts.
    m, constants, largest = X.shape[0], tuning(), max(map(len, parts))
    n_rows, n_shared = sum(map(len, parts)), n_solutions * len(gammas)
    # A matrix of its own costs a part about as much as solving one problem over all samples. Unless
    # parts have many rows together, one matrix for all of them costs as much: half of its values
    # are mirror images, but its problems are over all samples.
    pays = n_solutions >= constants.part_solutions * len(parts)
    pays = pays or (n_rows <= 4 * m and n_shared >= _enough(X) * len(parts))
    if not pays or 2 * largest > m:
        return None
    budget = int(cache_size * 2**20) // 4 - scratch_size(largest)
    together = n_rows * m * len(gammas) <= min(constants.widths_numbers, budget)
    together = together and n_shared <= constants.widths_solutions
    make = partial(_matrix_of_part, KernelValues(X, kernel, gammas), n_jobs)
    if together:
        return iter([{s: make(gammas, False, part) for s, part in enumerate(parts)}])
    room = (budget - largest * m) // largest**2  # next to the distances
    if room < 1:
        return None
    most = min(room, _widths_at_once(largest, -(-n_solutions // len(parts))))
    keep_distances = not isinstance(kernel, Linear)
    which = np.flatnonzero(needed).tolist()
    return ({s: make(gammas[:most], keep_distances, parts[s])} for s in which)


def _matrix_of_part(values, n_jobs, gammas, keep_distances, part):
    index = np.concatenate([part, np.delete(np.arange(values.n_points), part)])
    return WholeMatrix(values.subset(index), n_jobs, gammas.tolist(), len(part), keep_distances)


class RowCache(KernelRows):
    """Rows that are computed on demand and evicted, least recently used first."""

    # Several solver threads may share one cache. While any of them is inside `reading`, no row
    # moves. A thread that needs room waits until all readers have left, then evicts. New readers
    # wait meanwhile. A reader registers only once its rows are cached or reserved, so readers
    # cannot deadlock, however small the cache. At least two batches are kept; the rows of a
    # `subset` may take `part_size` numbers.

    def __init__(self, values: KernelValues, n_slots: int, part_size: int | None = None):
        m = values.n_points
        self._values = values
        n_slots = min(m, max(n_slots, 2 * values.batch))
        self._part_size = n_slots * m // 8 if part_size is None else part_size
        made = values.direct is not None and n_slots >= tuning().reserve_from
        self._scratch = ScratchPool(self._part_size if made else 0)
        # Untouched pages of an empty array cost nothing, so the budget is claimed as it is used.
        self.store = row_store(empty_rows(n_slots, m), values.diagonal)
        ticks, owner = np.zeros(n_slots, dtype=np.int64), np.full(n_slots, -1)
        clock, none = np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._recent = Recent(ticks, owner, clock, none, np.zeros(1, dtype=np.int64))
        self._pending = np.zeros(m, dtype=bool)  # rows that a thread is computing
        self._lock = threading.Condition()
        self._readers = 0
        self._waiting = False  # whether a thread waits for all readers to leave
        self._free = list(range(n_slots - 1, -1, -1))
        self.batch = max(1, min(values.batch, n_slots // 2))
        if not values.narrow and (most := isqrt(self._part_size) - 2) >= tuning().product_rows:
            self.working = most  # and the worst pair

    def use(self, *gammas: float) -> None:
        """Change to another width, the first of those given."""
        self._values.use(gammas[0])
        self.store.slot[:] = -1
        self._recent.owner[:] = -1
        self._free = list(range(len(self.store.rows) - 1, -1, -1))

    def subset(self, index: np.ndarray) -> WholeMatrix | RowCache:
        # Where rows are short, making them again costs less than reading every few values of the
        # long ones.
        values, n = self._values.subset(index), len(index)
        n_slots = self._part_size // n
        if n > n_slots or (values.narrow and n >= tuning().reserve_from):
            return RowCache(values, n_slots)
        return WholeMatrix(values)

    def subtract(self, v: np.ndarray, index: np.ndarray, coef: np.ndarray, keep=True) -> None:
        points = self._values.direct
        if keep or points is None:
            super().subtract(v, index, coef)
            return
        step = tuning().uncached
        for k in range(0, len(index), step):
            part = slice(k, k + step)
            with self.reading(index[:0]):  # no cached row moves meanwhile
                slot, rows = self.store.slot, self.store.rows
                _subtract_made_rows(v, coef[part], index[part], points, slot, rows)

    def add_sums(self, sums: np.ndarray, support: np.ndarray, coef: np.ndarray, points) -> None:
        own = self._values.direct
        if own is None:
            super().add_sums(sums, support, coef, points)
        else:
            add_made_rows(sums, coef, support, own._replace(columns=padded_columns(own.Z[points])))

    def values(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        values = self._values.subset(np.concatenate([j, i]))
        out = np.empty((len(i), len(j)), dtype=np.float32)
        values.write(np.arange(len(j), len(j) + len(i)), 0, out)
        return out

    @contextmanager
    def reading(self, index: np.ndarray) -> Iterator[None]:
        with self._lock:
            self._lock.wait_for(lambda: not (self._waiting or self._pending[index].any()))
            missing = index[self.store.slot[index] < 0]
            self._make_room(missing.size, keep=index)
            self._pending[missing] = True
            slots = [self._free.pop() for _ in missing]
            held, recent = self.store.slot[index], self._recent
            recent.clock[0] += 1
            recent.used[held[held >= 0]] = recent.clock[0]
            self._readers += 1
        try:
            # Rows are computed without the lock: other threads continue meanwhile.
            if slots:
                self._compute(missing, slots)
            yield
        finally:
            with self._lock:
                self._readers -= 1
                self._lock.notify_all()

    def _compute(self, index, slots):
        done, batch = False, self._values.batch
        try:
            for k in range(0, len(index), batch):
                self._values.write(
                    index[k : k + batch], 0, self.store.rows, np.array(slots[k : k + batch])
                )
            done = True
        finally:
            with self._lock:
                if done:
                    self._recent.used[slots] = self._recent.clock[0]
                    self._recent.owner[slots] = index
                    self.store.slot[index] = slots
                else:
                    self._free.extend(slots)
                self._pending[index] = False
                self._lock.notify_all()

    @contextmanager
    def maker(self) -> Iterator[RowMaker]:
        constants, points = tuning(), self._values.direct
        if points is None or len(self.store.rows) < constants.reserve_from:
            yield making(self._recent)
            return
        reserve, left = np.empty(constants.reserve, dtype=np.int64), np.zeros(1, dtype=np.int64)
        try:
            yield making(self._recent._replace(reserve=reserve, left=left), points)
        finally:
            with self._lock:
                self._free.extend(reserve[: left[0]].tolist())

    def refill(self, maker: RowMaker, keep: np.ndarray) -> bool:
        assert maker.recent is not None  # as for every maker of a cache
        reserve, left = maker.recent.reserve, maker.recent.left
        n = len(reserve)
        if n == 0:
            return False
        with self._lock:
            self._lock.wait_for(lambda: not self._waiting)
            self._make_room(n, keep)
            reserve[:] = [self._free.pop() for _ in range(n)]
            left[0] = n
        return True

    def _make_room(self, n, keep):
        """Have at least n free slots; the rows of `keep` stay."""
        if n <= len(self._free):
            return
        self._waiting = True
        try:
            self._lock.wait_for(lambda: self._readers == 0)
        finally:
            self._waiting = False
            self._lock.notify_all()
        slot, (used, owner, *_) = self.store.slot, self._recent
        # A fifth at a time: waiting for the other threads is the expensive part.
        n_evicted = max(n - len(self._free), len(used) // 5)
        held = np.setdiff1d(np.flatnonzero(owner >= 0), slot[keep])
        oldest = held[np.argsort(used[held], kind="stable")[:n_evicted]]
        # A row that two solvers made at once is in two slots, of which one is current.
        current = oldest[slot[owner[oldest]] == oldest]
        slot[owner[current]] = -1
        owner[oldest] = -1
        self._free.extend(oldest.tolist())
