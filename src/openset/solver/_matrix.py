"""A whole kernel matrix in memory, and a part of one."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from ..utils import thread_map
from ._kernel_values import DistanceValues, KernelValues
from ._memory import empty_rows
from ._row_maker import RowMaker, fill_rows, row_maker
from ._rows import KernelRows, ScratchPool
from ._state import row_store
from ._tuning import tuning


class WholeMatrix(KernelRows):
    """All rows of the kernel matrix, computed at once.

    Parameters
    ----------
    values : KernelValues
    n_jobs : int or None
        Threads that fill the matrix.
    keep_distances : bool
        Keep the distances, so that another width costs one pass over them.
    """

    whole = True

    def __init__(self, values: KernelValues, n_jobs: int | None = 1, keep_distances: bool = False):
        m = values.n_rows
        self._values, self._n_jobs = values, n_jobs
        self.store = row_store(empty_rows(m, m), values.diagonal)
        self.store.slot[:] = np.arange(m)
        # A part, and the parts of that part, hold less than `share` of the rows each.
        share = tuning().share
        self._scratch = ScratchPool(int((share * m) ** 2 / (1 - share**2)))
        self._distances = None
        if keep_distances and isinstance(values, DistanceValues):
            self._distances = np.empty((m, m), dtype=np.float32)
            self._fill(self._distances, values.distances)
        self._compute()

    def use(self, gamma: float) -> None:
        self._values.use(gamma)
        self._compute()

    def maker(self) -> AbstractContextManager[RowMaker]:
        return nullcontext(row_maker(matrix=self.store.rows))

    def scratch(self) -> AbstractContextManager[np.ndarray]:
        return self._scratch.take()

    def subset(self, index: np.ndarray) -> WholeMatrix:
        return WholeMatrix(self._values.subset(index))

    def values(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return self.store.rows[i[:, None], j]

    def _compute(self):
        if self._distances is None:
            self._fill(self.store.rows, self._values)
            return

        def rescale(start):
            part = slice(start, start + 64)
            self._values.from_distances(self._distances[part], self.store.rows[part])

        for _ in thread_map(rescale, range(0, len(self._distances), 64), self._n_jobs):
            pass

    def _fill(self, matrix, values):
        """Fill a symmetric matrix tile by tile; the lower triangle is copied from the upper."""
        m, side = len(matrix), tuning().tile

        def fill(tile):
            i, j = tile
            index = np.arange(i, min(m, i + side))
            out = np.empty((len(index), min(m, j + side) - j), dtype=np.float32)
            values(index, j, out)
            matrix[i : i + out.shape[0], j : j + out.shape[1]] = out
            if i != j:
                matrix[j : j + out.shape[1], i : i + out.shape[0]] = out.T

        edges = range(0, m, side)
        tiles = [(i, j) for i in edges for j in edges if j >= i]
        for _ in thread_map(fill, tiles, self._n_jobs):
            pass


class MatrixPart(KernelRows):
    """Some samples of a whole matrix, for one solver: rows are copied when they are first needed.

    Parameters
    ----------
    matrix : ndarray of shape (m, m), float32
    samples : ndarray of shape (n,), int64
    diagonal : ndarray of shape (n,), float32
    """

    def __init__(self, matrix: np.ndarray, samples: np.ndarray, diagonal: np.ndarray):
        n = len(samples)
        self._matrix, self._samples = matrix, samples
        self.store = row_store(empty_rows(n, n), diagonal)
        self._maker = row_maker(matrix=matrix, samples=samples)

    def use(self, gamma: float) -> None:
        self.store.slot[:] = -1  # the matrix has changed

    def reading(self, index: np.ndarray) -> AbstractContextManager[None]:
        fill_rows(self._maker, self.store, index)
        return nullcontext()

    def maker(self) -> AbstractContextManager[RowMaker]:
        return nullcontext(self._maker)

    def subset(self, index: np.ndarray) -> MatrixPart:
        return MatrixPart(self._matrix, self._samples[index], self.store.diagonal[index])

    def values(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return self._matrix[self._samples[i][:, None], self._samples[j]]
