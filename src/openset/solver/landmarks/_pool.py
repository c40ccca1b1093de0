"""Features and kernel rows of the active rows of all landmark machines."""

from __future__ import annotations

import numpy as np
from joblib import effective_n_jobs

from ...kernels import Linear
from ...utils import thread_map
from ...utils.compiled import njit
from .._matrix import MatrixPart
from .._memory import empty_rows
from .._row_cache import kernel_rows
from .._row_maker import copy_row
from .._tuning import tuning

# The machines share the products of all rows if these are at most this many times what the machines
# need at first: they will need more.
_COMMON = 8
# Rows whose features are computed at a time.
_APPENDED = 2**15
# Place of the slack, whose features are zero.
SLACK = 0


class Pool:
    """Features of the rows that are active in any machine, and their products where these fit.

    Parameters
    ----------
    rows : TrainingRows
    n_machines : int
    cache_size : float
        Memory for products in MB.
    n_jobs : int or None

    Attributes
    ----------
    place : ndarray of shape (m,)
        Where the features of each row are, -1 where they are not available.
    psi : array of shape (n, r), float32
        The features, those of the slack first.
    """

    def __init__(self, rows, n_machines, cache_size, n_jobs):
        self._rows, self._n_jobs, self._cache_size = rows, n_jobs, cache_size
        self._per_machine = cache_size * 2**20 / n_machines
        self._side = int(np.sqrt(cache_size * 2**20 / 4))
        self._side = min(len(rows.codes) + 1, max(tuning().small, self._side))
        self._gram = None
        self.place = np.full(len(rows.codes), -1)
        self.psi = None
        self._size = 0

    def hold(self, active):
        """Make the rows of all machines available, one array each. Others may be forgotten."""
        index = np.unique(np.concatenate(active))
        new = index[self.place[index] < 0]
        if self.psi is None:
            products = sum(len(own) ** 2 for own in active)
            common = len(index) ** 2 <= _COMMON * products and not self._rows.on_gpu
            if common and len(index) < self._side:
                self._gram = empty_rows(self._side, self._side)
                self._diagonal = np.empty(self._side, dtype=np.float32)
        elif self._gram is not None and self._size + len(new) > self._side:
            self._gram = None
        if self.psi is not None and self._gram is None:
            self._forget_all_but(index)
        for k in range(0, len(new), _APPENDED):
            part = new[k : k + _APPENDED]
            self._append(part, self._rows.features(part))

    def places(self, active):
        """Where the features of the slack and of some rows are."""
        return np.append(SLACK, self.place[active])

    def _forget_all_but(self, index):
        known = np.append(SLACK, np.sort(self.place[index[self.place[index] >= 0]]))
        rows = np.empty(self._size, dtype=np.intp)
        held = np.flatnonzero(self.place >= 0)
        rows[self.place[held]] = held
        self.place[held] = -1
        for k in range(0, len(known), 4096):  # in place: rows only move to the front
            self.psi[k : k + 4096][: len(known) - k] = self._take(known[k : k + 4096])
        self.place[rows[known[1:]]] = np.arange(1, len(known))
        self._size = len(known)

    def _append(self, new, psi):
        xp = self._xp = array_module_of(psi)
        if self.psi is None:
            self.psi, self._size = xp.zeros((len(new) + 1, psi.shape[1]), dtype=np.float32), 1
        old, size = self._size, self._size + len(new)
        if size > len(self.psi):
            shape = size + size // 4, psi.shape[1]
            if xp is np:
                self.psi.resize(shape, refcheck=False)  # without a second copy in memory
            else:
                self.psi, psi_before = xp.empty(shape, dtype=np.float32), self.psi
                self.psi[:old] = psi_before[:old]
        self.psi[old:size] = psi
        self.place[new] = np.arange(old, size)
        self._size = size
        if self._gram is None:
            return
        old = 0 if old == 1 else old  # the slack with the first rows
        self._diagonal[old:size] = (self.psi[old:size] ** 2).sum(axis=1)

        def fill(start):
            tile = slice(start, min(start + 512, size))
            products = self.psi[tile] @ self.psi[: tile.stop].T
            self._gram[tile, : tile.stop] = products
            self._gram[: tile.start, tile] = products[:, : tile.start].T

        for _ in thread_map(fill, range(old, size, 512), self._n_jobs):
            pass

    def kernel(self, place, known):
        """Kernel rows of the features of some rows, and their matrix if it may be kept.

        `known` is the matrix of the first of these rows, as it was returned before, or None.
        """
        n = len(place)
        if self._gram is not None:
            return MatrixPart(self._gram, place, self._diagonal[place]), None
        if n > tuning().small:
            share = self._cache_size / effective_n_jobs(self._n_jobs)
            return kernel_rows(self._take(place), Linear(), 1.0, share), None
        gram = np.empty((n, n), dtype=np.float32)
        k = 0 if known is None else len(known)
        if k:
            gram[:k, :k] = known
        psi = self._take(place)
        gram[k:] = psi[k:] @ psi.T
        gram[:k, k:] = gram[k:, :k].T
        rows = MatrixPart(gram, np.arange(n), gram.diagonal().copy())
        return rows, gram if 4 * n * n <= self._per_machine else None

    def product(self, place, weights):
        """psi[place] @ weights in float64, in blocks."""
        parts = [place[k : k + 1024] for k in range(0, len(place), 1024)]
        return np.concatenate([self._take(part) @ weights for part in parts])

    def _take(self, place):
        return self.psi[self._xp.asarray(place)]

    def weighted_sums(self, places, betas):
        """beta @ psi[place] in float64 for each machine, shape (k, r)."""
        sums = np.zeros((len(places), self.psi.shape[1]))

        def add(k):
            for start in range(0, len(places[k]), 1024):
                part = slice(start, start + 1024)
                sums[k] += betas[k][part] @ self.psi[places[k][part]]

        for _ in thread_map(add, range(len(places)), self._n_jobs):
            pass
        return sums


@njit(cache=True, nogil=True)
def submatrix(matrix, index):
    """The rows and columns `index` of a square matrix."""
    part = np.empty((len(index), len(index)), dtype=matrix.dtype)
    for i in range(len(index)):
        copy_row(matrix[index[i]], index, part[i])
    return part


def array_module_of(array):
    """NumPy, or CuPy for an array of the GPU."""
    if isinstance(array, np.ndarray):
        return np
    import cupy

    return cupy
