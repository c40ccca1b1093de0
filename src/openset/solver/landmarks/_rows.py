"""The training rows of a landmark machine as the solver sees them, and what violates a machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ...utils import thread_map


class Query(NamedTuple):
    """The present machines of some classes, of which violated constraints are wanted.

    Attributes
    ----------
    classes : ndarray of shape (k,)
        Codes of the classes.
    weights : ndarray of shape (k, r), float32
    bias : ndarray of shape (k,)
    target : float
        Rows of the class shall score at least `target`, all others at most -`target`.
    floor : ndarray of shape (k,)
        Smaller violations are ignored.
    most : ndarray of shape (k,), int
        Largest number of violators to return per class.
    """

    classes: np.ndarray
    weights: np.ndarray
    bias: np.ndarray
    target: float
    floor: np.ndarray
    most: np.ndarray


# Row, position in `classes`, violation: three arrays of one length.
Violators = tuple[np.ndarray, np.ndarray, np.ndarray]


class TrainingRows(Protocol):
    """The rows of a training set as features, wherever they are stored.

    Attributes
    ----------
    codes : ndarray of shape (m,)
        Class of each row.
    weight : ndarray of shape (m,)
    """

    codes: np.ndarray
    weight: np.ndarray

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

    def violators(self, query: Query, active: Violators | tuple) -> Violators:
        """The worst violators of each class.

        Parameters
        ----------
        query : Query
        active : tuple of ndarray
            Pairs (row, position of the class in the query) that are left out.

        Returns
        -------
        tuple of ndarray
            Rows, positions of their classes, and sizes of the violations.
        """
        ...


class LocalRows(TrainingRows):
    """Training rows in the memory of this machine.

    Their features are stored where they fit, else computed again in each round.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
    codes, weight : ndarray of shape (m,)
    features_of : LandmarkFeatures
    cache_size : float
        Memory for features in MB.
    n_jobs : int or None
        Number of threads.
    """

    def __init__(self, X, codes, weight, features_of, cache_size, n_jobs):
        self.codes, self.weight = codes, weight
        self._X, self._map, self._n_jobs = X, features_of, n_jobs
        step = features_of.block_rows
        self._blocks = [slice(k, k + step) for k in range(0, len(codes), step)]
        self._stored = None
        if 4 * len(codes) * features_of.n_features <= cache_size * 2**20:
            self._stored = np.empty((len(codes), features_of.n_features), dtype=np.float32)
            self._each(lambda block: self._stored.__setitem__(block, features_of(X[block])))

    def features(self, index):
        if self._stored is not None:
            return self._stored[index]
        step = self._map.block_rows
        parts = [index[k : k + step] for k in range(0, len(index), step)]
        return np.concatenate(
            list(thread_map(lambda part: self._map(self._X[part]), parts, self._n_jobs))
        )

    def violators(self, query, active):
        rows, position = active
        order = np.argsort(rows, kind="stable")
        rows, position = rows[order], position[order]

        def find(block):
            psi = self._map(self._X[block]) if self._stored is None else self._stored[block]
            low, high = np.searchsorted(rows, [block.start, block.start + len(psi)])
            pairs = rows[low:high] - block.start, position[low:high]
            found, where, size = block_violators(psi, self.codes[block], query, pairs)
            return found + block.start, where, size

        return join_violators(self._each(find), query)

    def _each(self, function):
        return list(thread_map(function, self._blocks, self._n_jobs))


def block_violators(psi, codes, query: Query, active) -> Violators:
    """Violators among the rows of one block, at most ``query.most`` per class.

    Parameters
    ----------
    psi : ndarray of shape (n, r), float32
    codes : ndarray of shape (n,)
    query : Query
    active : tuple of two arrays
        Rows and positions of the pairs that are left out.

    Returns
    -------
    rows, positions, violations
    """
    size = psi @ query.weights.T
    size += query.bias.astype(np.float32)
    place = np.searchsorted(query.classes, codes)
    place[place == len(query.classes)] = 0
    own = np.flatnonzero(query.classes[place] == codes)
    size[own, place[own]] *= -1
    size += np.float32(query.target)
    size[active] = -np.inf
    rows, positions = np.nonzero(size > query.floor.astype(np.float32))
    return _worst((rows, positions, size[rows, positions]), query)


def join_violators(parts: Sequence[Violators], query: Query) -> Violators:
    """The worst violators of each class among those of all blocks.

    Parameters
    ----------
    parts : sequence of tuples
        The violators of each block, see :meth:`TrainingRows.violators`.
    query : Query

    Returns
    -------
    tuple of ndarray
        As each of the parts.
    """
    rows, positions, size = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _worst((rows, positions, size), query)


def _worst(found: Violators, query: Query) -> Violators:
    rows, positions, size = found
    count = np.bincount(positions, minlength=len(query.classes))
    if np.all(count <= query.most):
        return found
    order = np.lexsort((rows, -size, positions))
    rank = np.arange(len(order)) - (np.cumsum(count) - count)[positions[order]]
    order = order[rank < query.most[positions[order]]]
    return rows[order], positions[order], size[order]
