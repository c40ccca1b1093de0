"""Kernel rows of one training set, shared by every problem that is solved over it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import numpy as np

from ..utils import thread_map
from ._memory import empty_rows
from ._row_maker import RowMaker, row_maker
from ._state import RowStore, subtract_rows
from ._tuning import tuning

_NOTHING = np.empty(0, dtype=np.float32)


class KernelRows(Protocol):
    """Rows of a kernel matrix in float32, as solvers see them; made by :func:`kernel_rows`.

    There are two kinds: a whole matrix, and a cache of rows that several threads may share. Parts
    of either that one solver uses alone are made by compiled code, see ``_shrinking``.

    Attributes
    ----------
    store : RowStore
        The rows in memory: the row of sample i is ``store.rows[store.slot[i]]`` unless
        ``store.slot[i]`` is -1.
    whole : bool
        Whether all rows are always in memory.
    """

    store: RowStore
    whole: bool = False

    @property
    def gamma(self) -> float:
        """Width of the kernel; NaN where it is not known."""
        return np.nan

    @property
    def widths(self) -> list[KernelRows]:
        """Rows at each of the widths that are in memory at a time; the first are these."""
        return [self]

    @property
    def batch(self) -> int:
        """How many missing rows are best requested at once."""
        return 1

    @property
    def working(self) -> int:
        """Largest working set; 0 where rows are not made in large numbers."""
        return 0

    def use(self, *gammas: float) -> None:
        """Change to other widths, up to as many as `widths` has; the memory is kept."""

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
        return nullcontext(row_maker())

    def scratch(self) -> AbstractContextManager[np.ndarray]:
        """Memory for the rows of parts that compiled loops make, float32; empty if they cannot."""
        return nullcontext(_NOTHING)

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
                subtract_rows(v, coef[k : k + batch], part, self.store)

    def sums_outside(self, betas: np.ndarray, sums: np.ndarray) -> None:
        """``sums = betas @ K`` at the further samples of a whole matrix, which are not solved for.

        `betas` are solutions along a path, of shape (T, n); `sums` has shape (T, m - n).
        """
        return None

    def add_sums(self, sums: np.ndarray, support: np.ndarray, coef: np.ndarray, points: np.ndarray):
        """``sums += coef @ K[support, points]``, without caching any row."""
        single, step = coef.astype(np.float32), tuning().uncached
        for k in range(0, len(support), step):
            part = slice(k, k + step)
            sums += single[:, part] @ self.values(support[part], points)


def kernel_sums(
    rows: KernelRows,
    support: np.ndarray,
    coef: np.ndarray,
    points: np.ndarray,
    n_jobs: int | None = None,
) -> np.ndarray:
    """``coef @ K[support, points]``; each kernel value is computed once, and none is cached.

    Parameters
    ----------
    rows : KernelRows
        Kernel rows of the training set.
    support : ndarray of shape (n_sv,)
        Samples with a coefficient.
    coef : ndarray of shape (K, n_sv)
        Coefficients, one row per expansion.
    points : ndarray of shape (n,)
        Samples at which the sums are wanted.
    n_jobs : int or None, default=None
        Number of threads.

    Returns
    -------
    ndarray of shape (K, n)

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
