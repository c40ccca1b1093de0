"""Training from the multipliers of a fitted model, on a training set that has grown.

The box of an old sample and the sum of a machine's multipliers do not change when classes are
added: the present solution, with the new samples at zero, is feasible and nearly optimal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse

from ..base.machines import BinaryMachine, ProblemOf, Reduce, TrainingSet, row_keys
from ..solver import KernelRows, feasible_near, kernel_rows, kernel_sums, solve_path
from ..solver.points import NARROW
from ..utils import thread_map

# Numbers of K beta in memory at a time: 256 MB.
_HELD = 2**25
# Up to this many samples the whole kernel matrix costs less than separate rows.
_SMALL = 4096


class WarmStart:
    """The multipliers of a fitted model, placed in a training set that has grown.

    `coef` has shape (K_old, n_sv). `row` maps the code that a class of the model has in the new
    training set to its row of `coef`. `found` are the rows of the support vectors in that set.
    """

    def __init__(self, support_vectors, coef, row: dict[int, int], training: TrainingSet):
        self.found = locate(row_keys(support_vectors), row_keys(training.X))
        self.coef, self.row = coef, row
        self._n_samples = len(training.codes)

    def beta(self, c: int) -> np.ndarray:
        """Multipliers of class c, zero for new samples, shape (m,)."""
        beta = np.zeros(self._n_samples)
        beta[self.found] = self.coef[self.row[c]]
        return beta

    def sums(self, classes: list[int], rows: KernelRows, n_jobs: int | None) -> np.ndarray:
        """K beta of old classes at all samples, shape (len(classes), m)."""
        coef = self.coef[[self.row[c] for c in classes]]
        return kernel_sums(rows, self.found, coef, np.arange(self._n_samples), n_jobs)


def train_from(
    start: WarmStart,
    training: TrainingSet,
    problem_of: ProblemOf,
    reduce: Reduce,
    n_jobs: int | None,
    *,
    tol: float,
    max_iter: int,
    cache_size: float,
    device: str,
) -> Iterator[tuple[int, BinaryMachine]]:
    """``train_one_vs_rest`` with a warm start for the classes that the model knows.

    It runs on the CPU whatever the `device`: few rows are needed.
    """
    stop = threading.Event()
    m = len(training.codes)
    for gamma in np.unique(training.gamma):
        # New classes first: they take longest.
        group = np.flatnonzero(training.gamma == gamma).tolist()
        group.sort(key=lambda c: c in start.row)
        # Old classes need few rows after their sums: unless the matrix is small, only the new
        # classes decide whether computing all of it pays.
        n_machines = sum(c not in start.row for c in group) if m > _SMALL else len(group)
        rows = kernel_rows(training.X, training.kernel, gamma, cache_size, n_machines, n_jobs)
        step = max(1, _HELD // m)
        for part in (group[k : k + step] for k in range(0, len(group), step)):
            old = [c for c in part if c in start.row]
            sums = dict(zip(old, start.sums(old, rows, n_jobs), strict=True))

            def train(c, rows=rows, sums=sums):
                problem, totals = problem_of(c, training.signs(c), training.weight)
                starts = None
                if c in sums:
                    here = replace(problem, total=float(totals[0]))
                    starts = [feasible_near(here, start.beta(c), here.p - sums.pop(c), rows)]
                path = solve_path(
                    problem, totals, rows, starts=starts, tol=tol, max_iter=max_iter, stop=stop
                )
                return reduce(c, path, rows, stop)

            yield from zip(part, thread_map(train, part, n_jobs, stop), strict=True)


def pays(training: TrainingSet) -> bool:
    """Whether a warm start is faster than a fit: where compiled loops make kernel rows.

    Otherwise the decision values of the present model cost as many kernel values as a fit. Measured
    in the benchmark "classes".
    """
    return not sparse.issparse(training.X) and training.X.shape[1] <= NARROW


def locate(wanted: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Positions of the keys `wanted` among `keys`, both in any order; -1 where they are missing.

    Equal keys are given different positions as long as there are any.
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
