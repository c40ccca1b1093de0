"""Binary kernel machines, one per class: how they are trained, for a fit and for a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import groupby, product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval

from ..kernels import Kernel, Linear, get_kernel
from ..solver import (
    Batch,
    BatchSolver,
    LazyBatches,
    Problem,
    Scores,
    Settings,
    Solution,
    Solved,
    solve_batches,
)

# Values hashed at a time: they stay in the first-level cache.
_CHUNK = 2**15
# Multipliers of the problems that are described together.
_TOGETHER = 2**21
# Relative slack of the radius, so that rounding cannot break the promise.
_SLACK = 1e-5


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
        """The machine with scores ``scale * f + shift``; `samples`: the rows it is over."""
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
        of_rows: dict[str, Any] = {
            name: getattr(self, name)[index] for name in ("X", "codes", "weight", "rows")
        }
        return replace(self, **of_rows)


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
    """Solve the problem of each class; yield lists of what is in memory together."""
    # Each class is solved against the rest, or with `own_samples` on its own samples alone, which
    # keeps kernel rows short. Classes with equal gamma share kernel rows. The options are those of
    # `solve_batches`.
    n_totals = max((np.size(value) for value in training.params[0].values()), default=1)
    own, step = {}, max(1, _TOGETHER // (len(training.codes) * n_totals))
    if own_samples:
        own, step = {c: np.flatnonzero(training.codes == c) for c in range(len(training.params))}, 1
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
            yield list(zip(classes, together, map(own.get, classes), strict=True))


def _chunks(training, classes, step):
    """Classes with equal parameters, up to `step` at a time."""
    params = [{k: np.asarray(v).tolist() for k, v in own.items()} for own in training.params]
    groups = [list(same) for _, same in groupby(classes, params.__getitem__)]
    return [tuple(same[k : k + step]) for same in groups for k in range(0, len(same), step)]


def _describe(training, problem, own, *classes):
    """The problems of classes with equal parameters."""
    params = training.params[classes[0]]
    if own:
        rows = own[classes[0]]
        return batch_of(*problem(np.ones((1, len(rows))), training.weight[rows], **params), rows)
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
    """Classes in the order of their means along the first principal axis of these."""
    # Machines of similar classes need the same kernel rows, so fewer rows are made again than in an
    # arbitrary order.
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
    """Rows (n_sv,) that support any machine, their coefficients (K, n_sv), and biases (K,)."""
    used = np.unique(np.concatenate([machine.support for machine in machines]))
    coef = np.zeros((len(machines), len(used)))
    for row, machine in zip(coef, machines, strict=True):
        row[np.searchsorted(used, machine.support)] = machine.coef
    return used, coef, np.array([machine.bias for machine in machines])


def known_radius(
    coef: np.ndarray, bias: np.ndarray, kernel: Kernel | Linear, gamma: np.ndarray
) -> np.ndarray:
    """Distances (K,) from all positive support vectors beyond which classes reject; inf: none."""
    # Farther than r, the positive part of f is at most S+ k(gamma r^2), the negative part at most
    # zero, so f < 0 as soon as k(gamma r^2) <= -b / S+. `coef` is (K, n_sv), the others (K,).
    radius = np.full(len(bias), np.inf)
    if isinstance(kernel, Linear):
        return radius
    # One row at a time: with many classes the coefficients take hundreds of megabytes.
    positive = [np.where(row > 0, row, 0.0).sum() for row in coef]
    for c in np.flatnonzero(bias < 0):
        level = -bias[c] * (1 - _SLACK)
        inside = level < positive[c]
        # The root first: gamma may be so small that the quotient overflows.
        reach = np.sqrt(kernel.inverse(level / positive[c])) if inside else 0.0
        radius[c] = reach / np.sqrt(gamma[c])
    return radius


def merge_copies(training: TrainingSet) -> TrainingSet:
    """Equal rows of one class as one row, the first, whose weight is the sum of theirs."""
    # This changes neither the objective nor the scores: the multipliers of copies only occur as
    # their sum, whose box is the sum of their boxes.
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
    """64-bit hashes of the rows of X, (m,), equal for dense and sparse layout."""
    # The values are scrambled, then summed with an odd factor for each column; a zero adds nothing,
    # so it may be stored or not.
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


def per_class(estimator: Any, name: str, value: float | dict | None) -> np.ndarray:
    """One value per class, (K,), of the parameter `name`: number, None or {class: number}."""
    classes = estimator.classes_.tolist()
    if value is None:
        return np.full(len(classes), None)
    if not isinstance(value, dict):
        return np.full(len(classes), float(value))
    if set(value) != set(classes):
        raise ValueError(
            f"{name} is a dict for the classes {sorted(value, key=str)}, but y has "
            f"{classes}; give exactly one value for each class."
        )
    rules = estimator._parameter_constraints[name]
    (interval,) = (rule for rule in rules if isinstance(rule, Interval))
    bad = [c for c in classes if not interval.is_satisfied_by(value[c])]
    if bad:
        raise ValueError(f"{name}[{bad[0]!r}] must be {interval}, got {value[bad[0]]!r} instead.")
    return np.array([value[c] for c in classes], dtype=np.float64)


def unit_gamma(X, weight: np.ndarray) -> float:
    """Return 1 / (features x variance): the width at which distances are of the order of one.

    X is an ndarray or a CSR matrix of shape (m, d), `weight` has shape (m,).
    """
    n_features = X.shape[1]
    if sparse.issparse(X):
        # Weight of each stored number, and of all the zeros that are not stored.
        values = np.append(X.data, 0.0)
        shares = np.repeat(weight, np.diff(X.indptr))
        shares = np.append(shares, weight.sum() * n_features - shares.sum())
        if X.nnz == X.shape[0] * n_features:
            values, shares = values[:-1], shares[:-1]
    else:
        values, shares = X.ravel(), np.repeat(weight, n_features)
    low, high = values.min(), values.max()
    if low == high:
        return 1.0
    # Moved to 0 and scaled to at most 1: no square overflows, and a common offset costs no digit.
    size = high / 2 - low / 2
    values = (values - low) / 2 / size
    shares = shares / shares.sum()
    # Not by BLAS, whose idle threads would keep the cores busy.
    mean = np.sum(shares * values)
    variance = 4 * np.sum(shares * (values - mean) ** 2)
    with np.errstate(over="ignore", divide="ignore", under="ignore"):
        gamma = 1.0 / (n_features * variance) / size / size
    if not np.finfo(np.float64).tiny <= gamma < np.inf:
        raise ValueError(
            f"The variance of X is about 1e{np.log10(variance) + 2 * np.log10(size):.0f}: too "
            "large or too small for gamma='scale'. Scale X, for instance with "
            "sklearn.preprocessing.StandardScaler."
        )
    return float(gamma)


# Rows to fit on, rows to score, and the codes of the classes whose machines are wanted.
Split = tuple[np.ndarray, np.ndarray, np.ndarray]


class GridScores(NamedTuple):
    """Scores of the validation rows of one split under T settings that form one path."""

    settings: list[list[int]]  # the wanted settings that each of the T entries belongs to
    split: int
    scores: np.ndarray  # (T, n_validation, K), in memory one class of the split after the other
    far: np.ndarray  # (T, K) scores far away from all samples; inf if the kernel does not decay


class Lattice:
    """The widths, parameter tuples and path values that occur, and the settings at each point."""

    def __init__(self, spec, settings: dict[int, dict[str, Any]]):
        self.path = spec.path
        # C last: its values ascend, and each is solved from the one before.
        names = (name for name in spec.engine if name not in ("gamma", spec.path))
        self.names = sorted(names, key="C".__eq__)
        self.at: dict[tuple, list[int]] = {}
        for i, setting in settings.items():
            point = tuple(setting[name] for name in self.names)
            on_path = setting[self.path] if self.path else None
            self.at.setdefault((setting["gamma"], point, on_path), []).append(i)
        gammas, points, values = zip(*self.at, strict=True)
        self.gammas = sorted(set(gammas))
        self.points = sorted(set(points))
        self.values = sorted(set(values)) if self.path else [None]

    def params(self, k: int) -> dict[str, Any]:
        """Parameters of point k by name; the path parameter is the array of all its values."""
        params = dict(zip(self.names, self.points[k], strict=True))
        if self.path:
            params[self.path] = np.array(self.values, dtype=np.float64)
        return params

    def wanted(self, wanted: np.ndarray) -> np.ndarray:
        """Whether any setting at a point and a width is wanted, (splits, points, widths) bool."""
        points, gammas = ({v: n for n, v in enumerate(own)} for own in (self.points, self.gammas))
        at_cells = np.zeros((wanted.shape[1], len(points), len(gammas)), dtype=bool)
        for (gamma, point, _), settings in self.at.items():
            at_cells[:, points[point], gammas[gamma]] |= wanted[settings].any(axis=0)
        return at_cells

    def settings(self, widths: list[int], k: int) -> list[list[int]]:
        """The settings of point k at some widths, path value by path value."""
        keys = product((self.gammas[g] for g in widths), [self.points[k]], self.values)
        return [self.at.get(key, []) for key in keys]

    def follows(self, k: int) -> bool:
        """Whether point k has a larger C than the one before, and else the same parameters."""
        return k > 0 and self.names[-1:] == ["C"] and self.points[k][:-1] == self.points[k - 1][:-1]


class SearchRows:
    """The rows of a search: of each split those that take part, and the problems over them."""

    def __init__(self, model, X, y, sample_weight, splits):
        self.model, self.X, self.splits = model, X, splits
        self.y, self.codes = y, np.unique(y, return_inverse=True)[1]
        self.sample_weight = sample_weight
        self.fitting = cache(self.fitting)

    def lattices(
        self, settings: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[Lattice, Sequence[int]]]:
        """Yield lattices of all settings, and the splits they are for."""
        spec, named, every = self.model.search_spec, copy(self.model), range(len(self.splits))
        default = {name: getattr(self.model, name) for name in spec.engine}
        by_name: dict[str, dict[int, dict]] = {}  # of the width; "" for numbers
        for i, own in enumerate(settings):
            gamma = (setting := default | own)["gamma"]
            by_name.setdefault(gamma if isinstance(gamma, str) else "", {})[i] = setting
        for named.gamma, group in sorted(by_name.items()):
            if not named.gamma:
                yield Lattice(spec, group), every
                continue
            for s in every:  # a width given by name depends on the fitting rows
                width = {"gamma": named.resolve_gamma(self.X[self.splits[s][0]], self.weights(s))}
                yield Lattice(spec, {i: setting | width for i, setting in group.items()}), [s]

    def weights(self, s):
        """Sample weights times class weights of the fitting rows of a split, as in a fit."""
        fit, of_classes = self.splits[s][0], self.model.class_sample_weights
        if isinstance(getattr(self.model, "class_weight", None), dict):  # may name a withheld class
            return self.sample_weight[fit] * of_classes(self.y)[fit]
        return self.sample_weight[fit] * of_classes(self.y[fit])

    def fitting(self, s):
        """Rows of a split that take part, copies merged as in a fit; their codes and weights."""
        fit, weight = self.splits[s][0], self.weights(s)
        if not self.model.counts_samples:
            kept, weight = without_copies(self.X[fit], self.codes[fit], weight)
            fit = fit[kept]
        return fit, self.codes[fit], weight

    def batch(self, lattice, s, k):
        """The machines of a split at point k of the lattice."""
        fit, codes, weight = self.fitting(s)
        _, validation, classes = self.splits[s]
        signs = np.where(codes == classes[:, None], 1.0, -1.0)
        described = self.model.problem(signs, weight, **lattice.params(k))
        return batch_of(*described, fit, validation)._replace(follows=lattice.follows(k))


class LatticeScores:
    """Scores of some splits on a lattice; `as_solved`: they are decision values."""

    def __init__(
        self,
        data: SearchRows,
        lattice: Lattice,
        splits: Sequence[int],
        as_solved: bool,
        n_jobs: int | None,
    ):
        self.data, self.lattice, self.splits, self.as_solved = data, lattice, splits, as_solved
        self.kernel, self.n_jobs = get_kernel(data.model.kernel), n_jobs
        self.groups = list(product(splits, range(len(lattice.points))))
        self._kept: BatchSolver | None = None

    def _solver(self):
        """The solver of all machines; that of all splits is kept, of which there is one."""
        if self._kept is not None:
            return self._kept
        data, splits = self.data, self.data.splits
        n_numbers = sum(len(splits[s][0]) * len(splits[s][2]) for s, _ in self.groups)
        solver = BatchSolver(
            data.X,
            self.kernel,
            self.lattice.gammas,
            LazyBatches(partial(data.batch, self.lattice), self.groups, n_numbers),
            Settings(**data.model.solver_settings, n_jobs=self.n_jobs),
            keep="scores" if self.as_solved else "machines",
        )
        if len(self.splits) == len(splits):
            self._kept = solver
        return solver

    def of(self, wanted: np.ndarray) -> Iterator[list[GridScores]]:
        """Solve the machines of the settings and splits that are wanted, of all as bools."""
        at_cells = self.lattice.wanted(wanted[:, self.splits])
        if not at_cells.any():
            return
        found = self._solver().solve(at_cells.reshape(len(self.groups), -1))
        if not self.as_solved:
            found = _mapped(self.data, self.lattice, self.groups, found)
        for together in found:
            results = []
            for part in together:
                s, k = self.groups[part.batch]
                members = self.lattice.settings(part.widths, k)
                scores = part.scores.transpose(1, 2, 3, 0)
                scores = scores.reshape(len(members), *scores.shape[2:])
                far = part.bias.swapaxes(1, 2).reshape(len(members), -1)
                if not self.kernel.decaying:
                    far = np.full(far.shape, np.inf)
                members = [[i for i in own if wanted[i, s]] for own in members]
                results.append(GridScores(members, s, scores, far))
            yield results


def _mapped(data, lattice, groups, found):
    """Solved machines as scores of their batches, by the `score_map` of the method."""
    machines: list = []  # scores and scores far away of the machines of a batch
    for together in found:
        batches = []
        for part in together:
            s, k = groups[part.batch]
            scale, shift = data.model.score_map(part, **lattice.params(k))
            scores = scale[:, None] * part.scored + shift[:, None]
            machines.append((scores, scale * part.bias + shift))
            if len(machines) == len(data.splits[s][2]):
                scores, far = map(np.stack, zip(*machines, strict=True))
                batches.append(Scores(part.batch, [part.width], scores[:, None], far[None]))
                machines = []
        yield batches
