"""Kernel rows of one training set, shared by every problem that is solved over it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
from joblib import effective_n_jobs

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ._kernel_values import kernel_values
from ._matrix import WholeMatrix
from ._row_cache import RowCache
from ._row_maker import RowMaker
from ._state import RowStore
from ._tuning import tuning


class KernelRows(Protocol):
    """Rows of a kernel matrix in float32, as solvers see them; made by :func:`kernel_rows`.

    There are three kinds: a whole matrix, a cache of rows that several threads may share, and a
    part of a matrix for one solver.

    Attributes
    ----------
    store : RowStore
        The rows in memory: the row of sample i is ``store.rows[store.slot[i]]`` unless
        ``store.slot[i]`` is -1.
    whole : bool
        Whether all rows are always in memory.
    batch : int
        How many missing rows are best requested at once.
    """

    store: RowStore
    whole: bool

    @property
    def batch(self) -> int:
        """How many missing rows are best requested at once."""

    def use(self, gamma: float) -> None:
        """Change to another width; the memory is kept, the rows are computed anew."""

    def reading(self, index: np.ndarray) -> AbstractContextManager[None]:
        """Inside, the rows of the samples `index` are in memory, and no row in memory moves."""

    def maker(self) -> AbstractContextManager[RowMaker]:
        """What one compiled loop needs to make rows itself; unused slots are taken back."""

    def refill(self, maker: RowMaker, keep: np.ndarray) -> bool:
        """Give a maker new slots, without evicting rows of `keep`; False if it uses none."""

    def subset(self, index: np.ndarray) -> KernelRows:
        """The kernel matrix of the samples `index` alone, for one solver."""

    def subtract(self, v: np.ndarray, index: np.ndarray, coef: np.ndarray, keep: bool = True):
        """``v -= K[:, index] @ coef``; with `keep` False, missing rows need not be cached."""

    def add_sums(self, sums: np.ndarray, support: np.ndarray, coef: np.ndarray, points: np.ndarray):
        """``sums += coef @ K[support, points]``, without caching any row."""


def kernel_rows(
    X,
    kernel: Kernel | Linear,
    gamma: float | np.ndarray,
    cache_size: float,
    n_solutions: int = 1,
    n_jobs: int | None = None,
) -> KernelRows:
    """Kernel rows of X: the whole matrix where it fits and pays, else a cache of rows.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
        The training set.
    kernel : Kernel or Linear
        The kernel.
    gamma : float or sequence of float
        Width of the kernel, or all widths that will be passed to ``use``; the first is in use.
    cache_size : float
        Budget in MB.
    n_solutions : int, default=1
        How many solutions will be found over the rows; decides whether the whole matrix pays.
    n_jobs : int or None, default=None
        Threads that will use the rows, and that fill a whole matrix.

    Returns
    -------
    KernelRows

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
    values = kernel_values(X, kernel, gammas.max())
    values.use(gammas[0])
    m, constants = values.n_rows, tuning()
    budget = int(cache_size * 2**20) // 4
    # The budget includes, for each thread, a subset of up to a fifth of the samples.
    part_size = min(budget // 8, (m // 5) ** 2)
    n_slots = max(budget - effective_n_jobs(n_jobs) * part_size, budget // 2) // m
    # One solution needs a small part of the rows. Many solutions need most of them, so that the
    # whole matrix pays, sooner where a row is expensive.
    enough = constants.narrow_solutions_per_row * m if values.narrow else constants.wide_solutions
    if m <= n_slots and (m <= constants.small or n_solutions * len(gammas) >= enough):
        return WholeMatrix(values, n_jobs, keep_distances=len(gammas) > 1 and 2 * m <= n_slots)
    return RowCache(values, n_slots, part_size)


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
