"""Kernel rows as solvers see them, how compiled loops make them, and the memory they are in.

A row of narrow data costs tens of microseconds, no more than a return to Python. So a solver is
given a few empty slots of the cache in advance and fills them itself; it returns only when they are
used up. A part of a matrix has a slot for every row and needs no reserve.
"""

from __future__ import annotations

import mmap
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple, Protocol

import numpy as np

from ..kernels import exp_neg
from ..utils import thread_map
from ..utils.compiled import helper, njit
from ._squares import Narrow, point_distances
from ._state import RowStore, copy_values, subtract_four_scaled, subtract_rows, subtract_scaled
from ._tuning import tuning

_subtract_rows = njit(cache=True, nogil=True)(subtract_rows)

# Values of a row that are taken from points to kernel while they are in the first-level cache.
_STRETCH = 512


class KernelRows(Protocol):
    """Rows of a kernel matrix in float32, as solvers see them; made by :func:`kernel_rows`.

    There are two kinds: a whole matrix, and a cache of rows that several threads may share. Parts
    of either that one solver uses alone are made by compiled code, see ``_smo``.
    """

    store: RowStore  # slot[i] is -1 where the row of sample i is not in memory
    whole: bool = False  # whether all rows are always in memory
    batch: int = 1  # how many missing rows are best requested at once
    working: int = 0  # largest working set; 0 where rows are not made in large numbers
    _scratch: ScratchPool

    def reading(self, index: np.ndarray) -> AbstractContextManager[None]:
        """Inside, the rows of the samples `index` are in memory, and no row in memory moves."""
        return nullcontext()

    def subset(self, index: np.ndarray) -> KernelRows:
        """The kernel matrix of the samples `index` alone, for one solver."""
        ...

    def values(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """``K[i, j]`` in float32, without caching any row."""
        ...

    def maker(self) -> AbstractContextManager[RowMaker]:
        """What one compiled loop needs to make rows itself; unused slots are taken back."""
        ...

    def scratch(self) -> AbstractContextManager[np.ndarray]:
        """Memory for the rows of parts that compiled loops make, float32; empty if they cannot."""
        return self._scratch.take()

    def refill(self, maker: RowMaker, keep: np.ndarray) -> bool:
        """Give a maker new slots, without evicting rows of `keep`; False if it uses none."""
        return False

    def subtract(self, v: np.ndarray, index: np.ndarray, coef: np.ndarray, keep: bool = True):
        """``v -= K[:, index] @ coef``; with `keep` False, missing rows need not be cached."""
        # Not all at once: a solver that needs room waits for all readers.
        batch = max(1, min(len(self.store.rows) // 2, 2 * tuning().uncached))
        for k in range(0, len(index), batch):
            part = index[k : k + batch]
            with self.reading(part):
                _subtract_rows(v, coef[k : k + batch], part, self.store.slot, self.store.rows)

    def add_sums(self, sums: np.ndarray, support: np.ndarray, coef: np.ndarray, points: np.ndarray):
        """``sums += coef @ K[support, points]``, without caching any row."""
        single, step = coef.astype(np.float32), tuning().uncached
        for k in range(0, len(support), step):
            part = slice(k, k + step)
            sums += single[:, part] @ self.values(support[part], points)


def kernel_sums(rows: KernelRows, support, coef, points, n_jobs=None) -> np.ndarray:
    """``coef @ K[support, points]``, (K, n); every kernel value is computed once, none is cached.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver import kernel_rows, kernel_sums
    >>> rows = kernel_rows(np.array([[0.0], [1.0]]), RBF(), 1.0, cache_size=1)
    >>> kernel_sums(rows, np.array([0]), np.array([[2.0]]), np.array([0, 1])).round(3)
    array([[2.   , 0.736]])
    """
    sums = np.zeros((len(coef), len(points)))
    used = np.flatnonzero(coef.any(axis=0))
    support, coef, step = support[used], coef[:, used], tuning().sum_points

    def add(start):
        here = slice(start, start + step)
        block = np.zeros((len(coef), len(points[here])))
        rows.add_sums(block, support, coef, points[here])
        sums[:, here] = block

    for _ in thread_map(add, range(0, len(points), step), n_jobs):
        pass
    return sums


# --- rows made in compiled loops ------------------------------------------------------------------


class Recent(NamedTuple):
    """The use of a cache's slots, and those that one solver may fill."""

    used: np.ndarray  # (n_slots,) int64: When each slot was last used, in ticks of `clock`.
    owner: np.ndarray  # (n_slots,) int64: Sample whose row is in a slot, -1 for none.
    clock: np.ndarray  # (1,) int64: Iterations of all solvers so far.
    reserve: np.ndarray  # int64: Slots that this solver may fill.
    left: np.ndarray  # (1,) int64: How many of them are left.


class RowMaker(NamedTuple):
    """What a compiled loop needs to make a row: a matrix to copy from, or points and slots."""

    # Where rows are copied, all of them are in memory or have a slot: `points` and `recent` are
    # None, and code for them is not compiled. A cache has no matrix.

    matrix: np.ndarray  # (n, n) float32: The whole kernel matrix, or empty.
    # (m,) int64: The rows of `matrix` that make up a part of it; empty for all.
    samples: np.ndarray
    points: Narrow | None = None  # Empty where rows are made in Python.
    recent: Recent | None = None


_NO_MATRIX = np.empty((0, 0), dtype=np.float32)
_NO_SAMPLES = np.empty(0, dtype=np.int64)
_NO_POINTS = Narrow(_NO_MATRIX, _NO_MATRIX, np.float32(1.0))


def copying(matrix: np.ndarray, samples: np.ndarray = _NO_SAMPLES) -> RowMaker:
    """A maker for a whole matrix, or for the samples of one."""
    return RowMaker(matrix, samples)


def making(recent: Recent, points: Narrow = _NO_POINTS) -> RowMaker:
    """A maker for a cache, of rows from points or, without points, of none."""
    return RowMaker(_NO_MATRIX, _NO_SAMPLES, points, recent)


@helper()
def copy_row(i, rows, slot, matrix, samples):
    """Put the row of sample i of a part where it belongs."""
    source, target = matrix[samples[i]], rows[i]
    for t in range(samples.size):
        target[t] = source[samples[t]]
    slot[i] = i


@helper()
def copy_rows(index, rows, slot, matrix, samples):
    """Put the missing rows of the samples `index` of a part where they belong."""
    for i in index:
        if slot[i] < 0:
            copy_row(i, rows, slot, matrix, samples)


@helper()
def _padded_point(points, i):
    z = np.zeros(points.columns.shape[0], dtype=points.Z.dtype)
    copy_values(z, points.Z[i])
    return z


@helper()
def _make_stretch(z, points, begin, stretch):
    """Kernel values of the padded point z with the points begin, begin + 1, ..."""
    point_distances(z, points.columns, begin, stretch)
    if points.ratio != np.float32(1.0):
        for t in range(stretch.size):
            stretch[t] *= points.ratio
    exp_neg(stretch)


@helper()
def make_row(i, rows, slot, points, recent, tick):
    """Make the row of sample i; False if rows are not made here, or no slot is left for it."""
    if points.Z.size == 0:
        return False
    s = i
    if recent.reserve.size > 0:  # else a part, in which every row has a slot of its own
        if recent.left[0] == 0:
            return False
        recent.left[0] -= 1
        s = recent.reserve[recent.left[0]]
    row = rows[s]
    z = _padded_point(points, i)
    for begin in range(0, row.size, _STRETCH):
        _make_stretch(z, points, begin, row[begin : begin + _STRETCH])
    recent.used[s] = tick
    recent.owner[s] = i
    # Last, because other threads may look at any time.
    slot[i] = s
    return True


@helper()
def missing_row(i, rows, slot, matrix, samples, points, recent, tick):
    """Make the row of sample i, see `RowMaker`; return its slot, or -1 if it cannot be made."""
    if recent is None:
        copy_row(i, rows, slot, matrix, samples)
        return i
    return np.int64(slot[i]) if make_row(i, rows, slot, points, recent, tick) else -1


@helper()
def _stretch_of(i, z, points, begin, slot, rows, made):
    """A stretch of the row of sample i, at the point z: from the store, or made in `made`."""
    if slot[i] >= 0:
        return rows[slot[i], begin : begin + made.size]
    _make_stretch(z, points, begin, made)
    return made


@helper()
def subtract_made_rows(v, coef, index, points, slot, rows):
    """v -= sum_k coef[k] * row(index[k]) in float64; missing rows are made and not stored."""
    # The sum is formed in the order of `index`, so that it is the same to the bit whatever other
    # solvers have left in the cache.
    z = np.zeros((index.size, points.columns.shape[0]), dtype=points.Z.dtype)
    for k in range(index.size):
        copy_values(z[k], points.Z[index[k]])
    made = np.empty((4, _STRETCH), dtype=np.float32)
    for begin in range(0, v.size, _STRETCH):
        target = v[begin : begin + _STRETCH]
        n = target.size
        k = 0
        while k + 4 <= index.size:
            subtract_four_scaled(
                target,
                (coef[k], coef[k + 1], coef[k + 2], coef[k + 3]),
                (
                    _stretch_of(index[k], z[k], points, begin, slot, rows, made[0, :n]),
                    _stretch_of(index[k + 1], z[k + 1], points, begin, slot, rows, made[1, :n]),
                    _stretch_of(index[k + 2], z[k + 2], points, begin, slot, rows, made[2, :n]),
                    _stretch_of(index[k + 3], z[k + 3], points, begin, slot, rows, made[3, :n]),
                ),
            )
            k += 4
        while k < index.size:
            row = _stretch_of(index[k], z[k], points, begin, slot, rows, made[0, :n])
            subtract_scaled(target, coef[k], row)
            k += 1


@njit(cache=True, nogil=True)
def add_made_rows(sums, coef, index, points):
    """sums[c] += sum_k coef[c, k] * row(index[k]) in float64, at the points of `columns`."""
    # Each kernel value is made once, for all c whose coefficient is not zero.
    made = np.empty(_STRETCH, dtype=np.float32)
    for begin in range(0, sums.shape[1], _STRETCH):
        end = min(sums.shape[1], begin + _STRETCH)
        for k in range(index.size):
            row = made[: end - begin]
            _make_stretch(_padded_point(points, index[k]), points, begin, row)
            for c in range(coef.shape[0]):
                if coef[c, k] != 0.0:
                    subtract_scaled(sums[c, begin:end], -coef[c, k], row)


# --- memory ---------------------------------------------------------------------------------------

# One large buffer is kept for the next fit, which finds its memory warm: the first touch of fresh
# memory costs as much as computing what is written to it. The system may reclaim its pages at any
# time (MADV_FREE): they are a cache, not a claim. On 20,000 rows of letter, one-vs-rest fits take
# 1.5 times as long without it (benchmarks/results.md, "Memory pool").
_lock = threading.Lock()
_kept: list[mmap.mmap] = []


def empty_rows(n_slots: int, m: int) -> np.ndarray:
    """An uninitialised float32 array of shape (n_slots, m)."""
    size, unit = 4 * n_slots * m, tuning().pooled_bytes
    if size < unit or not hasattr(mmap, "MADV_FREE"):
        return np.empty((n_slots, m), dtype=np.float32)
    size = -(-size // unit) * unit
    with _lock:
        memory = _kept.pop() if _kept and len(_kept[0]) >= size else None
    if memory is None:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
    whole = np.frombuffer(memory, dtype=np.float32)
    # Every view keeps this array alive; when the last one is gone, nothing can read it any more.
    weakref.finalize(whole, _give_back, memory).atexit = False
    return whole[: n_slots * m].reshape(n_slots, m)


def _give_back(memory):
    memory.madvise(mmap.MADV_FREE)
    with _lock:  # no new object in here, which could start a collection that comes here
        _kept.append(memory)
        _kept.sort(key=len)
        del _kept[:-1]  # one is enough: the largest


class ScratchPool:
    """Buffers of one size for several threads, each used by one thread at a time and kept."""

    def __init__(self, size: int):
        self._size = size
        self._free: list[np.ndarray] = []  # append and pop are atomic

    @contextmanager
    def take(self) -> Iterator[np.ndarray]:
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = empty_rows(1, self._size)[0]
        try:
            yield buffer
        finally:
            self._free.append(buffer)
