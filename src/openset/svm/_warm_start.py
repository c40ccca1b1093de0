"""Machines that go on from the multipliers of a fitted model, over a training set that has grown.

The box of an old sample and the sum of a machine's multipliers do not change when classes are
added: the present solution, with the new samples at zero, is feasible and nearly optimal.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ..base._machines import Machine, ProblemOf, Reduce, Setup
from ..solver import KernelRows, solve_path
from ..solver._path import feasible_near
from ..solver._sums import expansions
from ..solver._threads import thread_map

# Numbers of v that are held at a time: 256 MB of them.
_HELD = 2**25
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
        group = np.flatnonzero(setup.gamma == gamma)
        # Beside the sums below the old machines need few rows: unless the matrix is small, the
        # new machines decide whether the whole of it pays.
        n_machines = sum(c not in present.row for c in group) if m > _SMALL else len(group)
        rows = KernelRows(setup.X, setup.kernel, gamma, cache_size, n_machines, n_jobs)
        rows.stop = stop
        step = max(1, _HELD // m)
        for part in (group[k : k + step] for k in range(0, len(group), step)):
            old = [c for c in part if c in present.row]
            coef = present.coef[[present.row[c] for c in old]]
            sums = dict(zip(old, expansions(rows, present.found, coef, n_jobs), strict=True))

            def train(c, rows=rows, sums=sums):
                problem, totals = problem_of(c, setup.signs(c), setup.weight)
                starts = None
                if c in sums:
                    here = replace(problem, total=float(totals[0]))
                    beta = np.zeros(m)
                    beta[present.found] = present.coef[present.row[c]]
                    starts = [feasible_near(here, beta, here.p - sums.pop(c), rows)]
                path = solve_path(
                    problem, totals, rows, starts=starts, tol=tol, max_iter=max_iter, stop=stop
                )
                return reduce(c, path, rows)

            yield from zip(part, thread_map(train, part, n_jobs, stop), strict=True)


@dataclass(frozen=True)
class Present:
    """What a fitted model brings along.

    Attributes
    ----------
    found : ndarray of shape (n_sv,)
        Where its support vectors lie in the new training set, see :func:`locate`.
    coef : ndarray of shape (K_old, n_sv)
        Multipliers of its machines.
    row : dict of int to int
        For the code that a class of the model has in the new training set, its row of `coef`.
    """

    found: np.ndarray
    coef: np.ndarray
    row: dict[int, int]


def locate(support_vectors, X) -> np.ndarray:
    """Rows of X at which support vectors are found, in any order; -1 where they are not.

    Support vectors that are equal are given different rows while there are any.

    Parameters
    ----------
    support_vectors : ndarray or CSR matrix of shape (n_sv, d)
    X : ndarray or CSR matrix of shape (m, d)

    Returns
    -------
    ndarray of shape (n_sv,)
    """
    if sparse.issparse(support_vectors) and not sparse.issparse(X):
        support_vectors = support_vectors.toarray()
    elif sparse.issparse(X) and not sparse.issparse(support_vectors):
        support_vectors = sparse.csr_array(support_vectors)
    wanted: dict[Hashable, list[int]] = {}
    for s, key in enumerate(_keys(support_vectors)):
        wanted.setdefault(key, []).append(s)
    for same in wanted.values():
        same.reverse()  # the last is taken first
    found = np.full(support_vectors.shape[0], -1)
    for i, key in enumerate(_keys(X)):
        if same := wanted.get(key):
            found[same.pop()] = i
    return found


def _keys(X):
    """What tells rows apart, to the bit."""
    if not sparse.issparse(X):
        yield from (row.tobytes() for row in X)
        return
    X = X.tocsr()
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        columns, values = X.indices[begin:end], X.data[begin:end]
        stored = np.flatnonzero(values)  # a zero may be stored or not
        stored = stored[np.argsort(columns[stored])]
        yield columns[stored].astype(np.int64).tobytes(), values[stored].tobytes()
