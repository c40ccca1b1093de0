"""Machines that go on from the multipliers of a fitted model, over a training set that has grown.

The box of an old sample and the sum of a machine's multipliers do not change when classes are
added: the present solution, with the new samples at zero, is feasible and nearly optimal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse

from ..base._machines import Machine, ProblemOf, Reduce, Setup
from ..solver import KernelRows, solve_path
from ..solver._path import feasible_near
from ..solver._sums import expansions
from ..solver._threads import thread_map

# Numbers of v that are held at a time: 256 MB of them.
_HELD = 2**25
# Values that are hashed while they are in the nearest cache.
_CHUNK = 2**15
# Rows of a kernel matrix that costs less than asking for its rows one by one.
_SMALL = 4096


def train_from(
    present: Present,
    setup: Setup,
    problem_of: ProblemOf,
    reduce: Reduce,
    n_jobs: int | None,
    *,
    tol: float,
    max_iter: int,
    cache_size: float,
    device: str,
) -> Iterator[tuple[int, Machine]]:
    """``train_one_vs_rest``, machines that exist already from their `present` multipliers on.

    On the CPU whatever the `device`: so few rows are needed that it has them soonest.
    """
    stop = threading.Event()
    m = len(setup.codes)
    for gamma in np.unique(setup.gamma):
        # The new ones first: they take longest.
        group = sorted(np.flatnonzero(setup.gamma == gamma), key=lambda c: c in present.row)
        # Beside the sums below the old machines need few rows: unless the matrix is small, the
        # new machines decide whether the whole of it pays.
        n_machines = sum(c not in present.row for c in group) if m > _SMALL else len(group)
        rows = KernelRows(setup.X, setup.kernel, gamma, cache_size, n_machines, n_jobs)
        rows.stop = stop
        step = max(1, _HELD // m)
        for part in (group[k : k + step] for k in range(0, len(group), step)):
            old = [c for c in part if c in present.row]
            sums = present.sums([present.row[c] for c in old], rows, n_jobs)
            sums = dict(zip(old, sums, strict=True))

            def train(c, rows=rows, sums=sums):
                problem, totals = problem_of(c, setup.signs(c), setup.weight)
                starts = None
                if c in sums:
                    here = replace(problem, total=float(totals[0]))
                    beta = present.beta(present.row[c])
                    starts = [feasible_near(here, beta, here.p - sums.pop(c), rows)]
                path = solve_path(
                    problem, totals, rows, starts=starts, tol=tol, max_iter=max_iter, stop=stop
                )
                return reduce(c, path, rows)

            yield from zip(part, thread_map(train, part, n_jobs, stop), strict=True)


class Trained:
    """The samples a model was trained on: what tells them apart, and K beta at each of them.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
    sums : list of K ndarrays of shape (m,), float32
    """

    def __init__(self, X, sums: list[np.ndarray]):
        self.keys = keys_of(X)
        self.sums = np.array(sums)


class Present:
    """What a fitted model brings along to a training set X that has grown.

    Parameters
    ----------
    support_vectors : ndarray or CSR matrix of shape (n_sv, d)
    coef : ndarray of shape (K_old, n_sv)
        Multipliers of its machines.
    row : dict of int to int
        For the code that a class of the model has in the new training set, its row of `coef`.
    trained : Trained or None
        What is remembered of its own training set, if anything.
    X : ndarray or CSR matrix of shape (m, d)

    Attributes
    ----------
    found : ndarray of shape (n_sv,)
        Where its support vectors lie in X, see :func:`locate`.
    """

    def __init__(self, support_vectors, coef, row, trained: Trained | None, X):
        keys = keys_of(X)
        self.found = locate(keys_of(support_vectors), keys)
        self.coef = coef
        self.row = row
        self._trained = trained
        self._remembered = np.full(len(keys), -1) if trained is None else locate(keys, trained.keys)

    def beta(self, row: int) -> np.ndarray:
        """Multipliers of a machine, zero for new samples, shape (m,)."""
        beta = np.zeros(len(self._remembered))
        beta[self.found] = self.coef[row]
        return beta

    def sums(self, machines: list[int], rows: KernelRows, n_jobs: int | None) -> np.ndarray:
        """K beta of some machines at all samples: remembered, or computed, shape (n, m)."""
        old = np.flatnonzero(self._remembered >= 0)
        new = np.flatnonzero(self._remembered < 0)
        sums = np.empty((len(machines), len(self._remembered)))
        if old.size:
            sums[:, old] = self._trained.sums[np.ix_(machines, self._remembered[old])]
        sums[:, new] = expansions(rows, self.found, self.coef[machines], new, n_jobs)
        return sums


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
