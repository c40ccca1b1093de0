"""Binary kernel machines, one per class: how they are trained, and what is stored of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from ..kernels import Kernel, Linear
from ..solver import KernelRows, Path, Problem, Solution, solve_grid
from ..utils import thread_map

__all__ = [
    "BinaryMachine",
    "ProblemOf",
    "Reduce",
    "TrainingSet",
    "merge_copies",
    "pack_machines",
    "row_keys",
    "train_one_class",
    "train_one_vs_rest",
]


# Values hashed at a time: they stay in the first-level cache.
_CHUNK = 2**15


@dataclass(frozen=True)
class BinaryMachine:
    """The trained machine of one class, reduced to what prediction and reports need."""

    support: np.ndarray  # (n_sv,) rows of the training set
    coef: np.ndarray  # (n_sv,) coefficients of their kernel functions
    bias: float
    objective: float
    kkt_gap: float
    n_iter: int
    extra: Any = None  # what a method adds, such as a threshold or the model of a tail

    @classmethod
    def of(
        cls, solution: Solution, scale: float = 1.0, shift: float = 0.0, extra: Any = None
    ) -> BinaryMachine:
        """Return the machine whose scores are ``scale * f + shift``, f those of the solution."""
        support = np.flatnonzero(solution.beta)
        coef, bias = scale * solution.beta[support], float(scale * solution.bias + shift)
        report = solution.objective, solution.kkt_gap, solution.n_iter
        return cls(support, coef, bias, *report, extra)


@dataclass(frozen=True)
class TrainingSet:
    """Validated training data with resolved parameters; rows of weight zero are dropped."""

    X: Any  # ndarray or CSR matrix of shape (m, d)
    codes: np.ndarray  # (m,)
    weight: np.ndarray  # (m,) sample weight times class weight
    rows: np.ndarray  # (m,) rows of the X that was passed
    kernel: Kernel | Linear
    gamma: np.ndarray  # (K,)
    params: list[dict[str, Any]]  # the other parameters of the K machines

    def signs(self, c: int) -> np.ndarray:
        """+1 for class c, -1 for the rest, shape (m,)."""
        return np.where(self.codes == c, 1.0, -1.0)

    def take(self, index: np.ndarray) -> TrainingSet:
        """Some of the rows."""
        return replace(
            self,
            X=self.X[index],
            codes=self.codes[index],
            weight=self.weight[index],
            rows=self.rows[index],
        )


# (class, signs, weight) -> problem and totals; (class, path, rows, stop) -> result.
ProblemOf = Callable[[int, np.ndarray, np.ndarray], tuple[Problem, np.ndarray]]
Reduce = Callable[[int, Path, KernelRows, threading.Event], Any]


def train_one_vs_rest(
    training: TrainingSet, problem_of: ProblemOf, reduce: Reduce, n_jobs: int | None, **settings
) -> Iterator[tuple[int, Any]]:
    """Train each class against the rest; classes with equal gamma share kernel rows.

    ``problem_of(c, signs, weight)`` gives the problem of class c and its totals.
    ``reduce(c, path, rows, stop)`` gives what is stored of the solved path, and passes `stop` on to
    whatever it solves itself. Yields each class with what `reduce` returned. The settings are tol,
    max_iter, cache_size and device of :func:`openset.solver.solve_grid`.
    """
    stop = threading.Event()
    for gamma in np.unique(training.gamma):
        group = np.flatnonzero(training.gamma == gamma)
        if 4 * len(training.codes) ** 2 > settings["cache_size"] * 2**20:
            group = _along_axis(training, group)

        def problem(k, group=group):
            return problem_of(group[k], training.signs(group[k]), training.weight)

        def keep(k, path, rows, group=group):
            return reduce(group[k], path, rows, stop)

        what = training.X, training.kernel, [gamma], len(group), problem, keep
        for _, k, result in solve_grid(*what, n_jobs=n_jobs, stop=stop, **settings):
            yield int(group[k]), result


def _along_axis(training, group):
    """Classes in the order of their means along the first principal axis of these.

    Machines of similar classes need the same kernel rows, so fewer rows are made again than in an
    arbitrary order.
    """
    codes, n = training.codes, len(training.codes)
    member = sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(codes.max() + 1, n))
    sums = member @ training.X
    sums = sums.toarray() if sparse.issparse(sums) else sums
    means = sums[group] / member.sum(axis=1)[group, None]
    means -= means.mean(axis=0)
    axis = np.ptp(means, axis=0)
    for _ in range(20):  # power iteration; the order need not be exact
        axis = (means @ axis) @ means
        axis /= np.linalg.norm(axis) or 1.0
    return group[np.argsort(means @ axis, kind="stable")]


def train_one_class(
    training: TrainingSet, problem_of: ProblemOf, reduce: Reduce, n_jobs: int | None, **settings
) -> Iterator[tuple[int, BinaryMachine]]:
    """Train each class on its own samples alone, which keeps kernel rows short.

    As :func:`train_one_vs_rest`, but `reduce` returns a BinaryMachine.
    """
    stop = threading.Event()

    def train(c):
        own = np.flatnonzero(training.codes == c)

        def problem(_):
            return problem_of(c, np.ones(len(own)), training.weight[own])

        def keep(_, path, rows):
            return reduce(c, path, rows, stop)

        X, gamma = training.X[own], training.gamma[[c]]
        ((_, _, machine),) = solve_grid(
            X, training.kernel, gamma, 1, problem, keep, stop=stop, **settings
        )
        return replace(machine, support=own[machine.support])

    yield from enumerate(thread_map(train, range(len(training.params)), n_jobs, stop))


def pack_machines(machines: list[BinaryMachine]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Join the machines of all classes into one kernel expansion.

    Return the rows of the training set that support any machine, shape (n_sv,), the coefficients,
    shape (K, n_sv), and the biases, shape (K,).
    """
    used = np.unique(np.concatenate([machine.support for machine in machines]))
    coef = np.zeros((len(machines), len(used)))
    for row, machine in zip(coef, machines, strict=True):
        row[np.searchsorted(used, machine.support)] = machine.coef
    return used, coef, np.array([machine.bias for machine in machines])


def merge_copies(training: TrainingSet) -> TrainingSet:
    """Equal rows of one class as one row, the first, whose weight is the sum of theirs.

    This changes neither the objective nor the scores: the multipliers of copies only occur as
    their sum, whose box is the sum of their boxes.
    """
    kept, weight = without_copies(training.X, training.codes, training.weight)
    if len(kept) == len(training.codes):
        return training
    return replace(training.take(kept), weight=weight)


def without_copies(X, codes: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of equal rows of each class, sorted, and the sum of their weights."""
    everything = np.arange(len(codes)), weight
    keys = row_keys(X)
    order = np.lexsort((keys, codes))
    new = np.ones(len(keys), dtype=bool)
    new[1:] = np.diff(keys[order]) != 0
    new[1:] |= np.diff(codes[order]) != 0
    if new.all():
        return everything
    first = order[new]  # the sort is stable
    group = np.empty(len(keys), dtype=np.intp)
    group[order] = np.cumsum(new) - 1
    copies = np.delete(np.arange(len(keys)), first)
    differences = X[copies] - X[first[group[copies]]]
    if abs(differences).max() > 0:  # two rows with one key
        return everything
    kept = np.sort(first)
    return kept, np.bincount(group, weight)[group[kept]]


def row_keys(X) -> np.ndarray:
    """64-bit hashes of the rows of X, equal for dense and sparse layout, shape (m,).

    The values are scrambled, then summed with an odd factor for each column; a zero adds nothing,
    so it may be stored or not.
    """
    factors = _factors(X.shape[1])
    if sparse.issparse(X):
        X = X.tocsr()
        return sparse.csr_array((_scrambled(X.data), X.indices, X.indptr), shape=X.shape) @ factors
    step = max(1, _CHUNK // X.shape[1])
    parts = [_scrambled(X[k : k + step]) @ factors for k in range(0, len(X), step)]
    return np.concatenate(parts)


@lru_cache(maxsize=1)  # sparse data may have millions of columns
def _factors(n):
    return np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64) | np.uint64(1)


def _scrambled(values):
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits
