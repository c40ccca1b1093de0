"""The base class of methods with one kernel machine per class: fit, scores, certificate, search."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import is_dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_sample_weight

from ..kernels import Kernel, Linear, get_kernel
from ..solver import EXACT_BAND, DecisionValues, Problem, Settings, Solved, svm_problem
from ..solver.points import squared_norms
from ..utils import answer_labels, thread_map
from ._classifier import OpenSetClassifier
from ._validation import find_unknown_label, validate_samples, validate_training_data
from .fitted import require
from .machines import (
    BinaryMachine,
    GridScores,
    LatticeScores,
    SearchRows,
    Split,
    TrainingSet,
    known_radius,
    merge_copies,
    pack_machines,
    per_class,
    solve_classes,
    unit_gamma,
)
from .parameters import BOXES, POSITIVE, RULES, kernel_search

# Rounding error of a decision value from single-precision kernel values, however small `tol` is.
_ROUNDING = 1e-5

# Largest square of a row for a kernel without bound: its sums stay within float32.
_LARGEST_SQUARE = 1e30

# Smallest tolerance of the solver for boxes up to 1; below, rounding would keep it from ending.
_FINEST = 1e-14

# Sum of the coefficients of a machine in a model file, above which the file is damaged.
_LARGEST = 1e150


class KernelMachineClassifier(OpenSetClassifier):
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
    """

    _parameter_constraints: dict = {
        name: rule
        for name, rule in RULES.items()
        if name not in ("landmarks", "metric", "quantile")
    }

    kernel: str | Kernel | Linear
    n_jobs: int | None
    device: str
    support_: np.ndarray
    support_vectors_: Any
    dual_coef_: np.ndarray
    intercept_: np.ndarray
    gamma_: np.ndarray

    machine_attributes = {
        **{"support_": "n row", "support_vectors_": "n d", "dual_coef_": "K n", "gamma_": "K"},
        **{"intercept_": "K", "dual_objective_": "K", "kkt_gap_": "K", "n_iter_": "K int"},
    }
    fitted_attributes = {**machine_attributes, "known_radius_": "K inf"}

    # Parameters of a machine other than gamma, and the fewest classes.
    problem_params: tuple[str, ...] = ("C",)
    min_classes: int = 2
    # Whether each machine is trained on the samples of its class alone, and whether the method
    # counts samples (for a tail, say), so that copies of a row are not merged into one row.
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
        if self.strategy is not None:
            self.strategy.train(training)
        else:
            self.fit_machines(training if self.counts_samples else merge_copies(training))
        return self

    def prepare(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, min_classes: int
    ) -> TrainingSet:
        """Validate the arguments of fit and resolve the parameters of all machines."""
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
            The solution with :meth:`score_map` applied, or that of ``solved.held``.
        solved : Solved
            With one total.
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
            ``extra`` of each machine; dicts {attribute: value of the class} are stored.
        """
        for name in extras[0] if isinstance(extras[0], dict) else ():
            setattr(self, name, np.array([extra[name] for extra in extras]))
        self._certify()

    def check_kernel(self, kernel: Kernel | Linear) -> None:
        """Raise ValueError if the method is not defined for the kernel."""

    def class_sample_weights(self, labels: np.ndarray) -> np.ndarray:
        """Factors of samples with these labels, (m,), by ``class_weight``."""
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
        """Gamma as a number or a dict {class: number}, for X (m, d) and weights (m,)."""
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
        own = {name: getattr(self, name) for name in ("max_iter", "cache_size", "device")}
        return {"tol": max(self.tol, self._smallest_tol()), **own}

    def _smallest_tol(self):
        """What the KKT gap can reach: decision values are rounded in proportion to the boxes."""
        C = getattr(self, "C", 1.0)
        return _FINEST * max(1.0, *(C.values() if isinstance(C, dict) else [C]))

    def fit_machines(self, training: TrainingSet) -> None:
        """Train all machines on what :meth:`prepare` returned, and set the fitted attributes."""
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
        """Set the fitted attributes; machines are over points (p, d), `rows` (p,) of X."""
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
        """Score held-out rows under many settings on many splits, without a fit per setting."""
        scores = self.grid_scorer(settings, X, y, sample_weight, splits, n_jobs=n_jobs)
        yield from scores(np.ones((len(settings), len(splits)), dtype=bool))

    def grid_scorer(
        self,
        settings: Sequence[dict[str, Any]],
        X: Any,
        y: np.ndarray,
        sample_weight: np.ndarray,
        splits: Sequence[Split],
        *,
        n_jobs: int | None = None,
    ) -> Callable[[np.ndarray], Iterator[list[GridScores]]]:
        """Return what scores held-out rows under the settings on the splits that are wanted."""
        # Settings name values of ``search_spec.engine``; those missing are the estimator's. A width
        # given by name is resolved on the fitting rows of a split. X is from `check_search_data`.
        # It takes bools of shape (settings, splits); scores do not depend on what else is wanted.
        # What is in memory together is yielded together: each setting on each split once.
        strategy = self.strategy
        if strategy is not None and strategy.pays(max(len(fit) for fit, _, _ in splits)):
            return partial(strategy.scores, settings, X, y, sample_weight, splits, n_jobs)
        as_solved = type(self).score_map is KernelMachineClassifier.score_map
        data = SearchRows(self, X, y, sample_weight, splits)
        grids = [
            LatticeScores(data, lattice, chosen, as_solved, n_jobs)
            for lattice, chosen in data.lattices(settings)
        ]
        return lambda wanted: chain.from_iterable(grid.of(wanted) for grid in grids)

    def check_search_data(self, X: Any, y: np.ndarray, sample_weight: np.ndarray) -> Any:
        """Check data (m, d) and parameters as in fit; return X as :meth:`grid_scores` needs it."""
        plain = copy(self)
        # Rows of the unknown label are one more class here: a split says what they serve for.
        plain.unknown_label = "auto"
        if isinstance(self.gamma, str):
            plain.gamma = 1.0  # it is resolved for each split
        return plain.prepare(X, y, sample_weight, self.min_classes).X

    def raw_scores(self, X) -> np.ndarray:
        # f_c(x) = sum_i coef_ci k(x_i, x) + b_c
        X = validate_samples(self, X, accept_sparse="csr")
        return self.expand(X, self.support_vectors_, self.dual_coef_, self.intercept_)

    def expand(self, X, support_vectors, coef: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Kernel expansions (n, K) at X (n, d): vectors (n_sv, d), coef (K, n_sv), bias (K,)."""
        arrays, kernel = (support_vectors, coef, self.gamma_), self.kernel
        settings = kernel if isinstance(kernel, str) else (type(kernel), dict(vars(kernel)))
        exact = np.isinf(self.exact_band)  # the answer changes at other values than 0
        values = self.prepared(
            lambda: DecisionValues(support_vectors, coef, get_kernel(kernel), self.gamma_, exact),
            arrays,
            settings,
        )
        return values(X, bias, self.n_jobs, self.device)

    @property
    def exact_band(self) -> float:
        """Scores up to this absolute value are computed in double precision."""
        return EXACT_BAND if hasattr(self, "known_radius_") else np.inf

    def far_scores(self) -> np.ndarray:
        return self.far_values(self.intercept_)

    def far_values(self, at_bias: np.ndarray) -> np.ndarray:
        """`at_bias` (K,) if the decision values tend to the bias far away, else inf."""
        return np.where(get_kernel(self.kernel).decaying, at_bias, np.inf)

    def with_thresholds(self, thresholds: np.ndarray) -> OpenSetClassifier:
        # Where scores are kernel expansions the bias moves: then decision values near the new
        # threshold are computed in double precision, and the certificate holds there.
        if not hasattr(self, "known_radius_"):
            return super().with_thresholds(thresholds)
        moved = copy(self)
        moved.intercept_ = self.intercept_ - thresholds
        moved._certify()
        # Only the bias differs.
        moved.__dict__["_prepared"] = self.__dict__.setdefault("_prepared", [])
        return moved

    def check_fitted(self):
        sizes = super().check_fitted()
        if is_dataclass(self.kernel):
            replace(self.kernel)  # checks its parameters
        get_kernel(self.kernel)
        require(np.all(self.gamma_ > 0), "gamma_ is not positive")
        self.check_reach(self.support_vectors_, self.dual_coef_, self.intercept_)
        if "known_radius_" in vars(self):
            fresh = copy(self)
            fresh._certify()
            # A larger radius promises less; one of an unbounded class is infinite.
            radius, limit = self.known_radius_, fresh.known_radius_ * (1 - 1e-6)
            fits = (np.isinf(radius) == np.isinf(limit)) & (radius >= limit)
            require(fits.all(), "known_radius_ does not follow from intercept_ and dual_coef_")
        return sizes

    def check_reach(self, support_vectors, coef: np.ndarray, bias: np.ndarray) -> None:
        """Raise ValueError if coefficients are so large that sums of them may overflow."""
        with np.errstate(over="ignore"):
            reach = abs(coef)
            if not get_kernel(self.kernel).decaying:
                reach = reach @ abs(support_vectors)
            reach = reach.sum(axis=1) + abs(bias)
        require(np.all(reach < _LARGEST), "coefficients are so large that scores overflow")

    def take_classes(self, index: np.ndarray) -> None:
        super().take_classes(index)
        used = self.dual_coef_.any(axis=0)  # vectors that only supported a removed class go
        self.dual_coef_ = np.ascontiguousarray(self.dual_coef_[:, used])
        self.support_, self.support_vectors_ = self.support_[used], self.support_vectors_[used]

    def _certify(self):
        kernel = get_kernel(self.kernel)
        self.known_radius_ = known_radius(self.dual_coef_, self.intercept_, kernel, self.gamma_)
