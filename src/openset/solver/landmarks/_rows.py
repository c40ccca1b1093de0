"""The training rows of a landmark machine as the solver sees them, and what violates a machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from ...utils import thread_map
from ..cuda import on_gpu
from ._features import LandmarkFeatures


class Query(NamedTuple):
    """The present machines of some classes, whose violated constraints are to be found.

    Attributes
    ----------
    classes : ndarray of shape (k,)
        Codes of the classes.
    coef : ndarray of shape (k, r), float32
        Coefficients on the landmarks.
    bias : ndarray of shape (k,)
    target : float
        Rows of the class should score at least `target`, all others at most -`target`.
    floor : ndarray of shape (k,)
        Smaller violations are ignored.
    most : ndarray of shape (k,), int
        Largest number of violators to return per class.
    share : float
        Share of the rows to look at, a sample of all; 1 for all.
    """

    classes: np.ndarray
    coef: np.ndarray
    bias: np.ndarray
    target: float
    floor: np.ndarray
    most: np.ndarray
    share: float


# Row, position in `classes`, violation: three arrays of one length.
Violators = tuple[np.ndarray, np.ndarray, np.ndarray]


class TrainingRows(Protocol):
    """The rows of a training set, wherever they are stored.

    Attributes
    ----------
    codes : ndarray of shape (m,)
        Class of each row.
    weight : ndarray of shape (m,)
    on_gpu : bool
        Whether features are arrays of the GPU, and machines are trained there.
    """

    codes: np.ndarray
    weight: np.ndarray
    on_gpu: bool

    def features(self, index: np.ndarray) -> np.ndarray:
        """Features of some rows.

        Parameters
        ----------
        index : ndarray of shape (n,)

        Returns
        -------
        ndarray of shape (n, r), float32
        """
        ...

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """Coefficients on the landmarks, see :meth:`LandmarkFeatures.coefficients`.

        Parameters
        ----------
        w : ndarray of shape (k, r)

        Returns
        -------
        ndarray of shape (k, r)
        """
        ...

    def violators(self, query: Query, active: tuple[np.ndarray, np.ndarray]) -> Violators:
        """The worst violators of each class.

        Parameters
        ----------
        query : Query
        active : tuple of two arrays
            Pairs (row, position of the class in the query) that are left out, sorted by row.

        Returns
        -------
        tuple of ndarray
            Rows, positions of their classes, and sizes of the violations.
        """
        ...


def training_rows(
    X,
    codes: np.ndarray,
    weight: np.ndarray,
    features_of: LandmarkFeatures,
    cache_size: float,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> TrainingRows:
    """Training rows in the memory of this machine, or of its GPU.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
    codes, weight : ndarray of shape (m,)
    features_of : LandmarkFeatures
    cache_size : float
        Memory for kernel values in MB.
    n_jobs : int or None, default=None
        Number of threads.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where kernel values are computed and violators found.

    Returns
    -------
    TrainingRows
    """
    if on_gpu(device) and features_of.by_products:
        from ..cuda.landmarks import CudaRows

        return CudaRows(X, codes, weight, features_of)
    return LocalRows(X, codes, weight, features_of, cache_size, n_jobs)


class LocalRows(TrainingRows):
    """Training rows in the memory of this machine, see :func:`training_rows`.

    Their kernel values with the landmarks are stored where they fit, else computed in each round.
    """

    on_gpu = False

    def __init__(self, X, codes, weight, features_of, cache_size, n_jobs):
        self.codes, self.weight, self._map = codes, weight, features_of
        self._X, self._n_jobs = X, n_jobs
        # Every n-th row: each block is a sample of the rows, in whatever order these are.
        n = -(-len(codes) // features_of.block_rows)
        self._blocks = [slice(k, None, n) for k in range(n)]
        self._stored = None
        if 4 * len(codes) * features_of.n_features <= cache_size * 2**20:
            fill = thread_map(lambda b: features_of.kernel_values(X[b]), self._blocks, n_jobs)
            self._stored = list(fill)

    def coefficients(self, w):
        return self._map.coefficients(w)

    def features(self, index):
        step = self._map.block_rows
        psi = np.empty((len(index), self._map.n_features), dtype=np.float32)

        def fill(k):
            psi[k : k + step] = self._map(self._X[index[k : k + step]])

        for _ in thread_map(fill, range(0, len(index), step), self._n_jobs):
            pass
        return psi

    def violators(self, query, active):
        n = len(self._blocks)
        rows, position = active
        order = np.argsort(rows % n, kind="stable")
        rows, position = rows[order], position[order]
        ends = np.searchsorted(rows % n, np.arange(n + 1))
        worst = Worst(query)

        def find(k):
            block, here = self._blocks[k], slice(ends[k], ends[k + 1])
            stored = self._stored
            values = stored[k] if stored else self._map.kernel_values(self._X[block])
            pairs = rows[here] // n, position[here]
            found, *rest = block_violators(values, self.codes[block], worst.query, pairs)
            return found * n + k, *rest

        looked_at = range(int(np.ceil(query.share * n)))
        return worst.of(thread_map(find, looked_at, self._n_jobs))


def block_violators(values, codes, query: Query, active) -> Violators:
    """Violators among the rows of one block.

    Parameters
    ----------
    values : ndarray of shape (n, r), float32
        Kernel values of the rows with the landmarks.
    codes : ndarray of shape (n,)
    query : Query
    active : tuple of two arrays
        Rows and positions of the pairs that are left out.

    Returns
    -------
    rows, positions, violations
    """
    size = values @ query.coef.T
    size += query.bias.astype(np.float32)
    place = np.searchsorted(query.classes, codes)
    place[place == len(query.classes)] = 0
    own = np.flatnonzero(query.classes[place] == codes)
    size[own, place[own]] *= -1
    size += np.float32(query.target)
    size[active] = -np.inf
    rows, positions = np.nonzero(size > query.floor.astype(np.float32))
    return rows, positions, size[rows, positions]


class Worst:
    """The worst violators of each class among those of many blocks.

    Parameters
    ----------
    query : Query
    xp : module, default=numpy
        NumPy, or CuPy for violators on the GPU; the floor and `most` are its arrays.

    Attributes
    ----------
    query : Query
        The same query; its floor rises as violators are found that exceed it.
    """

    def __init__(self, query: Query, xp=np):
        self.query, self._xp = query, xp

    def of(self, parts: Iterable[Violators]) -> Violators:
        """The worst of all parts.

        Parameters
        ----------
        parts : iterable of tuples
            The violators of each block, see :meth:`TrainingRows.violators`.

        Returns
        -------
        tuple of ndarray
            As each of the parts.
        """
        held: list[Violators] = []
        limit = count = 2 * int(self.query.most.sum())
        for part in parts:
            held.append(part)
            count -= len(part[0])
            if count < 0:  # few at a time, and blocks to come need not list what cannot count
                held = [self._cut(held)]
                count = limit - len(held[0][0])
        return self._cut(held)

    def _cut(self, parts):
        xp, query = self._xp, self.query
        rows, positions, size = (xp.concatenate(part) for part in zip(*parts, strict=True))
        if not len(rows):
            return rows, positions, size
        order = xp.lexsort(xp.stack([key.astype(np.float64) for key in (rows, -size, positions)]))
        count = xp.bincount(positions, minlength=len(query.classes))
        own = positions[order]
        rank = xp.arange(len(order)) - (xp.cumsum(count) - count)[own]
        last = order[rank == query.most[own] - 1]
        floor = query.floor.copy()
        floor[positions[last]] = size[last]
        self.query = query._replace(floor=floor)
        order = order[rank < query.most[own]]
        return rows[order], positions[order], size[order]
