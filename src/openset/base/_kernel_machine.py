"""The base class of methods with one kernel machine per class."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cache, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_sample_weight

from ..kernels import Kernel, Linear, get_kernel
from ..solver import LazyBatches, Problem, Settings, Solved, solve_batches, svm_problem
from ..solver.points import squared_norms
from ..utils import answer_labels, thread_map
from ._kernel_expansion import KernelExpansionClassifier
from ._validation import find_unknown_label, validate_training_data
from .machines import (
    BinaryMachine,
    TrainingSet,
    batch_of,
    merge_copies,
    pack_machines,
    solve_classes,
    without_copies,
)
from .parameters import (
    BOXES,
    C_CONSTRAINTS,
    KERNEL_CONSTRAINTS,
    POSITIVE,
    SOLVER_CONSTRAINTS,
    kernel_search,
    per_class,
    unit_gamma,
)

# Rounding error of a decision value from single-precision kernel values, however small `tol` is.
_ROUNDING = 1e-5

# Largest square of a row for a kernel without bound: its sums stay within float32.
_LARGEST_SQUARE = 1e30

# Smallest tolerance of the solver for boxes up to 1; below, rounding would keep it from ending.
_FINEST = 1e-14


# Rows to fit on, rows to score, and the codes of the classes whose machines are wanted.
Split = tuple[np.ndarray, np.ndarray, np.ndarray]


class GridScores(NamedTuple):
    """Scores of the validation rows of one split under T settings that form one path."""

    settings: list[list[int]]  # the settings that each of the T entries belongs to
    split: int
    scores: np.ndarray  # (T, n_validation, K), in memory one class of the split after the other
    far: np.ndarray  # (T, K) scores far away from all samples; inf if the kernel does not decay


class KernelMachineClassifier(KernelExpansionClassifier):
    """Base class of methods with one kernel machine per class.

    The machines are plain SVMs unless a subclass describes another quadratic program in
    :meth:`problem`. Its scores are the decision values of the machines, or, by :meth:`score_map`,
    an affine function of them. What else a method does is written in :meth:`finish_machine`, which
    runs per class at the end of its training, and in :meth:`finish_model`. All of these receive the
    parameters of the machine by name, as numbers, except for the path parameter, an array.

    Training, prediction, the certificate and the grid engine of a search follow from that.

    Parameters
    ----------
    gamma, kernel, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`openset.OpenSetSVC`.

    Attributes
    ----------
    problem_params : tuple of str
        Class attribute: the parameters of a machine other than gamma.
    min_classes : int
        Class attribute: fewest classes.
    counts_samples : bool
        Whether the method counts samples (for a tail, say), so that copies of a row are not merged
        into one row of their total weight.
    own_samples_only : bool
        Class attribute: whether each machine is trained on the samples of its class alone.
    """

    _parameter_constraints: dict = {**C_CONSTRAINTS, **KERNEL_CONSTRAINTS, **SOLVER_CONSTRAINTS}

    problem_params: tuple[str, ...] = ("C",)
    min_classes: int = 2
    own_samples_only: bool = False
    counts_samples: bool = False
    search_spec = kernel_search({"C": BOXES}, engine=("gamma", "C"))

    def __init__(
        self,
        gamma: float | str | dict = "scale",
        kernel: str | Kernel | Linear = "rbf",
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
        unknown_label: Any = "auto",
    ):
        self.gamma = gamma
        self.kernel = kernel
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.unknown_label = unknown_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # One-class machines reject a part of their own samples by design.
        tags.classifier_tags.poor_score = self.own_samples_only
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train one machine per class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
            Feature vectors.
        y : array-like of shape (m,)
            Their classes. Rows that carry an explicit `unknown_label` are known unknowns:
            negatives of every machine.
        sample_weight : array-like of shape (m,), default=None
            Weight of each sample; rows of weight zero are left out.

        Returns
        -------
        self
        """
        training = self.prepare(X, y, sample_weight, self.min_classes)
        strategy = self.strategy
        if strategy is not None:
            strategy.check_size(len(training.codes))
        if not self.counts_samples:
            training = merge_copies(training)
        if strategy is not None:
            strategy.train(training)
        else:
            self.fit_machines(training)
        return self

    def prepare(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, min_classes: int
    ) -> TrainingSet:
        """Validate the arguments of fit and resolve all parameters of the machines.

        Parameters
        ----------
        X, y, sample_weight
            As for :meth:`fit`.
        min_classes : int
            Fewest classes.

        Returns
        -------
        TrainingSet
        """
        X, codes, weight, rows = validate_training_data(
            self, X, y, sample_weight, accept_sparse="csr", min_classes=min_classes
        )
        kernel = get_kernel(self.kernel)
        self.check_kernel(kernel)
        if not kernel.decaying and not squared_norms(X).max() < _LARGEST_SQUARE:
            raise ValueError(
                f"X has rows with a square norm beyond {_LARGEST_SQUARE:g}, which is too large for "
                f"kernel={self.kernel!r}. Scale X, for instance with "
                "sklearn.preprocessing.StandardScaler."
            )
        labels = answer_labels(self.classes_, self.unknown_label_)
        weight = weight * self.class_sample_weights(labels[codes])
        self.gamma_ = per_class(self, "gamma", self.resolve_gamma(X, weight))
        columns = {name: per_class(self, name, getattr(self, name)) for name in self.problem_params}
        if self.solver_settings["tol"] > self.tol:
            warnings.warn(
                f"tol={self.tol:g} is smaller than double precision can reach; "
                f"tol={self.solver_settings['tol']:g} is used.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if path := self.search_spec.path:
            columns[path] = columns[path][:, None]
        classes = range(len(self.classes_))
        params = [{name: column[c] for name, column in columns.items()} for c in classes]
        return TrainingSet(X, codes, weight, rows, kernel, self.gamma_, params)

    def problem(
        self, signs: np.ndarray, weight: np.ndarray, **params
    ) -> tuple[Problem, np.ndarray]:
        """Describe the quadratic program of a machine.

        Parameters
        ----------
        signs : ndarray of shape (K, m)
            +1 for the class, -1 for the rest; K machines with equal parameters at once.
        weight : ndarray of shape (m,)
        **params

        Returns
        -------
        problem : Problem
        totals : ndarray of shape (T,) or (K, T)
            Sum of the multipliers for each value of the path parameter; T is 1 without one.
        """
        return svm_problem(signs, params["C"] * weight, 0.0), np.zeros(1)

    def score_map(self, solved: Solved, **params) -> tuple[np.ndarray, np.ndarray]:
        """Return how acceptance scores follow from decision values.

        Parameters
        ----------
        solved : Solved
            Solutions at T totals.
        **params

        Returns
        -------
        scale, shift
            Arrays of shape (T,): scores are ``scale[:, None] * solved.scores + shift[:, None]``.
        """
        return np.ones(len(solved.totals)), np.zeros(len(solved.totals))

    def finish_machine(self, machine: BinaryMachine, solved: Solved, **params) -> BinaryMachine:
        """Return the machine that is stored; a method adds here what a search does without.

        Parameters
        ----------
        machine : BinaryMachine
            The solution, with :meth:`score_map` applied.
        solved : Solved
            With one total. Where the bias had to be held at `largest_bias`, the machine is that
            of ``solved.held``.
        **params

        Returns
        -------
        BinaryMachine
            What the method learnt in addition goes into ``extra``.
        """
        return machine

    @property
    def largest_bias(self) -> float | None:
        """Bias at which a machine with negatives is held if it would exceed it; None for any."""
        return None

    @property
    def strategy(self) -> Any:
        """What trains the machines and scores settings instead of the exact solver, or None."""
        return None

    def finish_model(self, training: TrainingSet, extras: list) -> None:
        """Set fitted attributes that depend on all machines: here the certificate.

        Parameters
        ----------
        training : TrainingSet
        extras : list of K objects
            ``extra`` of each machine.
        """
        self._certify()

    def check_kernel(self, kernel: Kernel | Linear) -> None:
        """Raise ValueError if the method is not defined for the kernel.

        Parameters
        ----------
        kernel : Kernel or Linear
        """

    def class_sample_weights(self, labels: np.ndarray) -> np.ndarray:
        """Return the factor of each sample by ``class_weight``.

        Parameters
        ----------
        labels : ndarray of shape (m,)

        Returns
        -------
        ndarray of shape (m,)
        """
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return np.ones(len(labels))
        if isinstance(class_weight, dict):
            # The unknown label may have a weight although no row carries it.
            spare = find_unknown_label(self.unknown_label, np.array(list(class_weight)))
            if spare >= 0 and self.unknown_label not in np.unique(labels).tolist():
                class_weight = {c: w for c, w in class_weight.items() if c != self.unknown_label}
            for c, weight in class_weight.items():
                if not POSITIVE.is_satisfied_by(weight):
                    raise ValueError(
                        f"class_weight[{c!r}] must be {POSITIVE}, got {weight!r} instead; leave "
                        "a class out of y to ignore it."
                    )
        return compute_sample_weight(class_weight, labels)

    def resolve_gamma(self, X, weight: np.ndarray) -> float | dict:
        """Return gamma as a number, or as a dict {class: number}.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (m, d)
        weight : ndarray of shape (m,)

        Returns
        -------
        float or dict
        """
        if not isinstance(self.gamma, str):
            return self.gamma
        return 1.0 / X.shape[1] if self.gamma == "auto" else unit_gamma(X, weight)

    @property
    def resolution(self) -> float:
        """Precision to which the decision values of the training samples are known."""
        return max(self.tol, _ROUNDING)

    @property
    def solver_settings(self) -> dict[str, Any]:
        """The parameters of the solver, by name."""
        names = ("max_iter", "cache_size", "device")
        tol = max(self.tol, self._smallest_tol())
        return {"tol": tol, **{name: getattr(self, name) for name in names}}

    def _smallest_tol(self):
        """What the KKT gap can reach: decision values are rounded in proportion to the boxes."""
        C = getattr(self, "C", 1.0)
        return _FINEST * max(1.0, *(C.values() if isinstance(C, dict) else [C]))

    def fit_machines(self, training: TrainingSet) -> None:
        """Train all machines and set the fitted attributes.

        Parameters
        ----------
        training : TrainingSet
            From :meth:`prepare`.
        """
        settings = Settings(**self.solver_settings, n_jobs=self.n_jobs)
        options = {"refine": True, "largest_bias": self.largest_bias}
        machines: list = [None] * len(self.classes_)
        labels, done = self.classes_.tolist(), 0
        for together in solve_classes(
            training, self.problem, settings, own_samples=self.own_samples_only, **options
        ):
            finish = partial(self._finish, training)
            for c, machine in thread_map(finish, together, self.n_jobs):
                machines[c], done = machine, done + 1
                if self.verbose:
                    print(
                        f"[{type(self).__name__}] {done}/{len(machines)}: class {labels[c]!r}, "
                        f"{len(machine.support)} support vectors, b = {machine.bias:.4g}"
                    )
        self.store_machines(machines, training, training.X, training.rows)

    def _finish(self, training, trained):
        c, solved, samples = trained
        params = training.params[c]
        if solved.held is not None:
            machine = BinaryMachine.of(solved.held, samples=samples)
        else:
            (scale,), (shift,) = self.score_map(solved, **params)
            machine = BinaryMachine.of(solved[0], scale, shift, samples)
        return c, self.finish_machine(machine, solved, **params)

    def store_machines(
        self, machines: list[BinaryMachine], training: TrainingSet, points: Any, rows: np.ndarray
    ) -> None:
        """Set the fitted attributes.

        Parameters
        ----------
        machines : list of K BinaryMachine
            Their ``support`` counts `points`.
        training : TrainingSet
        points : ndarray or CSR matrix of shape (p, d)
            Points of the kernel expansions.
        rows : ndarray of shape (p,)
            Rows of the X of fit that these are.
        """
        used, self.dual_coef_, self.intercept_ = pack_machines(machines)
        self.support_ = rows[used]
        self.support_vectors_ = points[used]
        self.dual_objective_ = np.array([machine.objective for machine in machines])
        self.kkt_gap_ = np.array([machine.kkt_gap for machine in machines])
        self.n_iter_ = np.array([machine.n_iter for machine in machines])
        self.finish_model(training, [machine.extra for machine in machines])

    def grid_scores(
        self,
        settings: Sequence[dict[str, Any]],
        X: Any,
        y: np.ndarray,
        sample_weight: np.ndarray,
        splits: Sequence[Split],
        *,
        n_jobs: int | None = None,
    ) -> Iterator[list[GridScores]]:
        """Score held-out rows under many settings on many splits, without a fit per setting.

        Parameters
        ----------
        settings : sequence of dict
            Values of the parameters in ``search_spec.engine``; those missing are taken from the
            estimator. A width given by name ("scale") is resolved on the fitting rows of a split.
        X : ndarray or CSR matrix of shape (m, d)
            From :meth:`check_search_data`.
        y, sample_weight : ndarray of shape (m,)
        splits : sequence of (fit, validation, classes)
            Rows to fit on, rows to score, and the classes whose scores are wanted, as indices in
            the sorted classes of y.
        n_jobs : int, default=None
            Number of threads.

        Yields
        ------
        list of GridScores
            What is in memory together: each setting on each split once, in no particular order.
        """
        strategy = self.strategy
        if strategy is not None and strategy.pays(max(len(fit) for fit, _, _ in splits)):
            training = X, y, sample_weight, splits
            yield from ([scores] for scores in strategy.scores(settings, *training, n_jobs))
            return
        spec = self.search_spec
        full = [{name: getattr(self, name) for name in spec.engine} | own for own in settings]
        numeric = {i: own for i, own in enumerate(full) if not isinstance(own["gamma"], str)}
        if numeric:
            data = _SearchRows(self, X, y, sample_weight, dict(enumerate(splits)))
            yield from _score(data, _Lattice(spec, numeric), n_jobs)
        for name in sorted({own["gamma"] for own in full if isinstance(own["gamma"], str)}):
            named = copy(self)
            named.gamma = name
            for s, split in enumerate(splits):
                fit = split[0]
                gamma = named.resolve_gamma(X[fit], _weights(self, y, sample_weight, fit))
                own = {i: {**v, "gamma": gamma} for i, v in enumerate(full) if v["gamma"] == name}
                lattice = _Lattice(spec, own)
                data = _SearchRows(self, X, y, sample_weight, {s: split})
                yield from _score(data, lattice, n_jobs)

    def check_search_data(self, X: Any, y: np.ndarray, sample_weight: np.ndarray) -> Any:
        """Check data and parameters as in fit, and return X as :meth:`grid_scores` needs it.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
        y, sample_weight : ndarray of shape (m,)

        Returns
        -------
        ndarray or CSR matrix of shape (m, d)
        """
        plain = copy(self)
        # Rows of the unknown label are one more class here: a split says what they serve for.
        plain.unknown_label = "auto"
        if isinstance(self.gamma, str):
            plain.gamma = 1.0  # it is resolved for each split
        return plain.prepare(X, y, sample_weight, self.min_classes).X


class _Lattice:
    """The widths, parameter tuples and path values that occur, and the settings at each point."""

    def __init__(self, spec, settings: dict[int, dict[str, Any]]):
        self.path = spec.path
        self.names = [name for name in spec.engine if name not in ("gamma", spec.path)]
        self.at: dict[tuple, list[int]] = {}
        for i, setting in settings.items():
            point = tuple(setting[name] for name in self.names)
            on_path = setting[self.path] if self.path else None
            self.at.setdefault((setting["gamma"], point, on_path), []).append(i)
        gammas, points, values = zip(*self.at, strict=True)
        self.gammas = sorted(set(gammas))
        self.points = list(dict.fromkeys(points))
        self.values = sorted(set(values)) if self.path else [None]

    def params(self, point: tuple) -> dict[str, Any]:
        """Parameters by name; the path parameter is the array of all its values."""
        params = dict(zip(self.names, point, strict=True))
        if self.path:
            params[self.path] = np.array(self.values, dtype=np.float64)
        return params

    def settings(self, gamma: float, point: tuple) -> list[list[int]]:
        return [self.at.get((gamma, point, value), []) for value in self.values]


class _SearchRows:
    """The rows of a search: of each split those that take part, and the problems over them."""

    def __init__(self, model, X, y, sample_weight, splits):
        self.model, self.X, self.splits = model, X, splits
        self.y, self.codes = y, np.unique(y, return_inverse=True)[1]
        self.sample_weight = sample_weight
        self.fitting = cache(self.fitting)

    def fitting(self, s):
        """Rows of a split that take part, copies merged as in a fit; their codes and weights."""
        fit = self.splits[s][0]
        weight = _weights(self.model, self.y, self.sample_weight, fit)
        if not self.model.counts_samples:
            kept, weight = without_copies(self.X[fit], self.codes[fit], weight)
            fit = fit[kept]
        return fit, self.codes[fit], weight

    def batch(self, lattice, s, point):
        """The machines of a split at one point of the lattice."""
        fit, codes, weight = self.fitting(s)
        _, validation, classes = self.splits[s]
        signs = np.where(codes == classes[:, None], 1.0, -1.0)
        described = self.model.problem(signs, weight, **lattice.params(point))
        return batch_of(*described, fit, validation)


def _score(data, lattice, n_jobs):
    """Yield lists of GridScores: solve all machines of all splits on the lattice."""
    model, splits = data.model, data.splits
    kernel, points = get_kernel(model.kernel), lattice.points
    groups = [(s, k) for s in splits for k in range(len(points))]
    batches = LazyBatches(
        lambda s, k: data.batch(lattice, s, points[k]),
        groups,
        sum(len(splits[s][0]) * len(splits[s][2]) for s, _ in groups),
    )
    as_solved = type(model).score_map is KernelMachineClassifier.score_map
    settings = Settings(**model.solver_settings, n_jobs=n_jobs)
    found = solve_batches(
        *(data.X, kernel, lattice.gammas, batches, settings),
        keep="scores" if as_solved else "machines",
    )
    mapped: list = []  # scores and scores far away of the machines of a batch
    for together in found:
        results = []
        for part in together:
            s, k = groups[part.batch]
            if as_solved:
                widths, scores, far = part.widths, part.scores, part.bias
            else:
                scale, shift = model.score_map(part, **lattice.params(points[k]))
                mapped.append(
                    (scale[:, None] * part.scored + shift[:, None], scale * part.bias + shift)
                )
                if len(mapped) < len(splits[s][2]):
                    continue
                widths = [part.width]
                scores, far = (np.stack(values) for values in zip(*mapped, strict=True))
                scores, far, mapped = scores[:, None], far[None], []
            members = [m for g in widths for m in lattice.settings(lattice.gammas[g], points[k])]
            scores = scores.transpose(1, 2, 3, 0)
            scores = scores.reshape(len(members), *scores.shape[2:])
            far = far.swapaxes(1, 2).reshape(len(members), -1)
            if not kernel.decaying:
                far = np.full(far.shape, np.inf)
            results.append(GridScores(members, s, scores, far))
        yield results


def _weights(model, y, sample_weight, fit):
    """Sample weights times class weights of the fitting rows, as in a fit."""
    if isinstance(getattr(model, "class_weight", None), dict):  # may name a withheld class
        return sample_weight[fit] * model.class_sample_weights(y)[fit]
    return sample_weight[fit] * model.class_sample_weights(y[fit])
