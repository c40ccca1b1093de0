"""Binary kernel machines, one per class: how they are trained, and what is stored of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

import numpy as np
from scipy import sparse

from ..kernels import Kernel, Linear
from ..solver import Batch, LazyBatches, Problem, Settings, Solution, Solved, solve_batches

__all__ = [
    "BinaryMachine",
    "TrainingSet",
    "merge_copies",
    "pack_machines",
    "row_keys",
    "solve_classes",
]


# Values hashed at a time: they stay in the first-level cache.
_CHUNK = 2**15
# Multipliers of the problems that are described together.
_TOGETHER = 2**21


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
        cls, solution: Solution, scale: float = 1.0, shift: float = 0.0, samples: Any = None
    ) -> BinaryMachine:
        """Return the machine whose scores are ``scale * f + shift``, f those of the solution.

        `samples` are the rows of the training set that the solution is over, None for all.
        """
        support = np.flatnonzero(solution.beta)
        coef, bias = scale * solution.beta[support], float(scale * solution.bias + shift)
        report = solution.objective, solution.kkt_gap, solution.n_iter
        return cls(support if samples is None else samples[support], coef, bias, *report)


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

    def take(self, index: np.ndarray) -> TrainingSet:
        """Some of the rows."""
        return replace(
            self,
            X=self.X[index],
            codes=self.codes[index],
            weight=self.weight[index],
            rows=self.rows[index],
        )


# (signs, weight, **params) -> problem and totals, see KernelMachineClassifier.problem
Describe = Callable[..., tuple[Problem, np.ndarray]]
# Class, its solutions, and the rows of the training set they are over; None for all rows.
SolvedClass = tuple[int, Solved, np.ndarray | None]


def solve_classes(
    training: TrainingSet,
    problem: Describe,
    settings: Settings,
    *,
    own_samples: bool = False,
    **options,
) -> Iterator[list[SolvedClass]]:
    """Solve the problem of each class; yield lists of what is in memory together.

    Each class is solved against the rest, or with `own_samples` on its own samples alone, which
    keeps kernel rows short. Classes with equal gamma share kernel rows. The options are those of
    :func:`openset.solver.solve_batches`.
    """
    n_totals = max((np.size(value) for value in training.params[0].values()), default=1)
    own, step = None, max(1, _TOGETHER // (len(training.codes) * n_totals))
    if own_samples:
        own, step = [np.flatnonzero(training.codes == c) for c in range(len(training.params))], 1
    rows_are_made_again = 4 * len(training.codes) ** 2 > settings.cache_size * 2**20
    for gamma in np.unique(training.gamma):
        group = np.flatnonzero(training.gamma == gamma)
        if rows_are_made_again and not own_samples:
            group = _along_axis(training, group)
        chunks = _chunks(training, group.tolist(), step)
        describe = partial(_describe, training, problem, own)
        batches = LazyBatches(describe, chunks, 4 * len(group) * len(training.codes))
        arguments = training.X, training.kernel, [gamma], batches, settings
        for together in solve_batches(*arguments, **options):
            classes = [chunks[solved.batch][solved.index] for solved in together]
            rows = [None if own is None else own[c] for c in classes]
            yield list(zip(classes, together, rows, strict=True))


def _chunks(training, classes, step):
    """Classes with equal parameters, up to `step` at a time."""

    def key(c):
        return {name: np.asarray(value).tolist() for name, value in training.params[c].items()}

    groups = [list(same) for _, same in groupby(classes, key)]
    return [tuple(same[k : k + step]) for same in groups for k in range(0, len(same), step)]


def _describe(training, problem, own, *classes):
    """The problems of classes with equal parameters."""
    params = training.params[classes[0]]
    if own is not None:
        (c,) = classes
        signs = np.ones((1, len(own[c])))
        return batch_of(*problem(signs, training.weight[own[c]], **params), own[c])
    signs = np.where(training.codes == np.array(classes)[:, None], 1.0, -1.0)
    return batch_of(*problem(signs, training.weight, **params))


def batch_of(
    problem: Problem,
    totals: np.ndarray,
    rows: np.ndarray | None = None,
    scored: np.ndarray | None = None,
) -> Batch:
    """Several problems as one batch; totals of shape (T,) are those of all of them."""
    shape = len(problem.p), np.shape(totals)[-1]
    of_each = None if problem.total is None else np.broadcast_to(totals, shape)
    return Batch(problem.p, problem.lower, problem.upper, of_each, rows, scored)


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
