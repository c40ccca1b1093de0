"""Features and kernel rows of the active rows of all landmark machines."""

from __future__ import annotations

import numpy as np
from joblib import effective_n_jobs

from ...kernels import Linear
from ...utils import thread_map
from .._matrix import MatrixPart
from .._memory import empty_rows
from .._row_cache import kernel_rows
from .._tuning import tuning


class Pool:
    """Features of all rows that are or were active, and their products where these fit."""

    def __init__(self, rows, cache_size, n_jobs):
        self._rows, self._n_jobs = rows, n_jobs
        self._cache_size = cache_size
        self.place = np.full(len(rows.codes), -1)
        self.psi = np.empty((0, 0), dtype=np.float32)
        self._size = 0
        side = max(tuning().small, int(np.sqrt(cache_size * 2**20 / 4)))
        side = min(len(rows.codes), side)
        self._gram = empty_rows(side, side)
        self._diagonal = np.empty(side, dtype=np.float32)

    def add(self, index):
        new = np.unique(index[self.place[index] < 0])
        if new.size == 0:
            return
        psi = self._rows.features(new)
        old, size = self._size, self._size + len(new)
        if size > len(self.psi):  # grow by doubling
            grown = np.empty((max(size, 2 * len(self.psi)), psi.shape[1]), dtype=np.float32)
            if old:
                grown[:old] = self.psi[:old]
            self.psi = grown
        self.psi[old:size] = psi
        self.place[new] = np.arange(old, size)
        self._size = size
        if self._gram is None:
            return
        if size > len(self._gram):
            self._gram = None
            return
        self._diagonal[old:size] = np.einsum("ij,ij->i", psi, psi)

        def fill(start):
            tile = slice(start, min(start + 512, size))
            products = self.psi[tile] @ self.psi[: tile.stop].T
            self._gram[tile, : tile.stop] = products
            self._gram[: tile.start, tile] = products[:, : tile.start].T

        for _ in thread_map(fill, range(old, size, 512), self._n_jobs):
            pass

    def rows(self, place):
        """Kernel rows of the features of some rows of the pool."""
        if self._gram is not None:
            return MatrixPart(self._gram, place, self._diagonal[place])
        share = self._cache_size / effective_n_jobs(self._n_jobs)
        return kernel_rows(self.psi[place], Linear(), 1.0, share)
