"""Machines that go on from the multipliers of a fitted model, over a training set that has grown.

The box of an old sample and the sum of a machine's multipliers do not change when classes are
added: the present solution, with the new samples at zero, is feasible and nearly optimal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..base._machines import Machine, ProblemOf, Reduce, Setup
from ..solver import KernelRows, feasible_near, kernel_rows, kernel_sums, solve_path
from ..utils import thread_map
from ._trained import Trained, keys_of, locate

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
    stop: threading.Event,
) -> Iterator[tuple[int, Machine]]:
    """``train_one_vs_rest``, machines that exist already from their `present` multipliers on.

    On the CPU whatever the `device`: so few rows are needed that it has them soonest.
    """
    m = len(setup.codes)
    for gamma in np.unique(setup.gamma):
        # The new ones first: they take longest.
        group = sorted(np.flatnonzero(setup.gamma == gamma), key=lambda c: c in present.row)
        # Beside the sums below the old machines need few rows: unless the matrix is small, the
        # new machines decide whether the whole of it pays.
        n_machines = sum(c not in present.row for c in group) if m > _SMALL else len(group)
        rows = kernel_rows(setup.X, setup.kernel, gamma, cache_size, n_machines, n_jobs)
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


class Present:
    """What a fitted model brings along to a training set that has grown.

    Parameters
    ----------
    support_vectors : ndarray or CSR matrix of shape (n_sv, d)
    coef : ndarray of shape (K_old, n_sv)
        Multipliers of its machines.
    row : dict of int to int
        For the code that a class of the model has in the new training set, its row of `coef`.
    trained : Trained or None
        What is remembered of its own training set, if anything.
    setup : Setup
        The training set that has grown.

    Attributes
    ----------
    found : ndarray of shape (n_sv,)
        Where its support vectors lie in it, see :func:`locate`.
    """

    def __init__(self, support_vectors, coef, row, trained: Trained | None, setup: Setup):
        keys = keys_of(setup.X)
        self.found = locate(keys_of(support_vectors), keys)
        self.coef = coef
        self.row = row
        self._trained = trained
        self._remembered = np.full(len(keys), -1)
        # Sums of another kernel, or another width, would be of no use.
        if (
            trained is not None
            and trained.kernel == setup.kernel
            and all(setup.gamma[c] == trained.gamma[k] for c, k in row.items())
        ):
            self._remembered = locate(keys, trained.keys)

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
        sums[:, new] = kernel_sums(rows, self.found, self.coef[machines], new, n_jobs)
        return sums
