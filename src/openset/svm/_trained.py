"""The samples a model was trained on, found again in another training set."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..base._machines import Setup

# Values that are hashed while they are in the nearest cache.
_CHUNK = 2**15


class Trained:
    """The samples a model was trained on: what tells them apart, and K beta at each of them.

    Parameters
    ----------
    setup : Setup
    sums : list of K ndarrays of shape (m,), float32
    """

    def __init__(self, setup: Setup, sums: list[np.ndarray]):
        self.kernel = setup.kernel
        self.gamma = setup.gamma
        self.keys = keys_of(setup.X)
        self.sums = np.array(sums)


def locate(wanted: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Where the keys `wanted` are found among `keys`, both in any order; -1 where they are not.

    Equal ones are given different places while there are any.

    Parameters
    ----------
    wanted : ndarray of shape (n,)
    keys : ndarray of shape (m,)

    Returns
    -------
    ndarray of shape (n,)
    """
    found = np.full(len(wanted), -1)
    asked, order = np.argsort(wanted, kind="stable"), np.argsort(keys, kind="stable")
    wanted, keys = wanted[asked], keys[order]
    before = np.arange(len(wanted)) - np.searchsorted(wanted, wanted)  # equal ones
    place = np.searchsorted(keys, wanted) + before
    there = place < len(keys)
    there[there] = keys[place[there]] == wanted[there]
    found[asked[there]] = order[place[there]]
    return found


def keys_of(X) -> np.ndarray:
    """What tells rows apart: 64-bit hashes of their values, equal for dense and sparse, shape (m,).

    The values are scrambled, then summed with an odd factor for each column; a zero adds nothing,
    so it may be stored or not.
    """
    factors = np.random.default_rng(0).integers(
        2**64, size=X.shape[1], dtype=np.uint64
    ) | np.uint64(1)
    if sparse.issparse(X):
        X = X.tocsr()
        return sparse.csr_array((_scrambled(X.data), X.indices, X.indptr), shape=X.shape) @ factors
    step = max(1, _CHUNK // X.shape[1])
    parts = [_scrambled(X[k : k + step]) @ factors for k in range(0, len(X), step)]
    return np.concatenate(parts)


def _scrambled(values):
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits
