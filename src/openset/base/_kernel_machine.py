"""The base class of methods with one kernel machine per class."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import compute_sample_weight

from ..kernels import Kernel, Linear, get_kernel
from ..solver import KernelRows, Path, Problem, refined_path, svm_problem
from ..solver.points import squared_norms
from ..utils import answer_labels
from ._grid_scores import GridEngine
from ._kernel_expansion import KernelExpansionClassifier
from ._validation import find_unknown_label, validate_training_data
from .machines import (
    BinaryMachine,
    TrainingSet,
    merge_copies,
    pack_machines,
    train_one_class,
    train_one_vs_rest,
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


class KernelMachineClassifier(KernelExpansionClassifier, GridEngine):
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
            train = train_one_class if self.own_samples_only else train_one_vs_rest
            self.fit_machines(training, train)
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
        signs : ndarray of shape (m,) or (K, m)
            +1 for the class, -1 for the rest, 0 for rows that are held out. A search describes K
            machines at once where scores are decision values.
        weight : ndarray of shape (m,)
        **params

        Returns
        -------
        problem : Problem
        totals : ndarray of shape (T,) or (K, T)
            Sum of the multipliers for each value of the path parameter; T is 1 without one.
        """
        return svm_problem(signs, params["C"] * weight, 0.0), np.zeros((*signs.shape[:-1], 1))

    def finish_machine(
        self, machine: BinaryMachine, path: Path, rows: KernelRows, stop: threading.Event, **params
    ) -> BinaryMachine:
        """Return the machine that is stored; a method adds here what a search does without.

        Parameters
        ----------
        machine : BinaryMachine
            The solution, with :meth:`score_map` applied.
        path, rows, stop
            Path of length 1, kernel rows of the training set, event to be passed to the solver.
        **params

        Returns
        -------
        BinaryMachine
            What the method learnt in addition goes into ``extra``.
        """
        return machine

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

    def fit_machines(self, training: TrainingSet, train: Callable) -> None:
        """Train all machines and set the fitted attributes.

        Parameters
        ----------
        training : TrainingSet
            From :meth:`prepare`.
        train : callable
            Such as :func:`openset.base.machines.train_one_vs_rest`.
        """

        def problem_of(c, signs, weight):
            return self.problem(signs, weight, **training.params[c])

        limits = {name: self.solver_settings[name] for name in ("tol", "max_iter")}

        def reduce(c, path, rows, stop):
            path = refined_path(path, rows, stop=stop, **limits)
            (scale,), (shift,) = self.score_map(path, **training.params[c])
            machine = BinaryMachine.of(path[0], scale, shift)
            return self.finish_machine(machine, path, rows, stop, **training.params[c])

        machines: list = [None] * len(self.classes_)
        labels = self.classes_.tolist()
        trained = train(training, problem_of, reduce, self.n_jobs, **self.solver_settings)
        for done, (c, machine) in enumerate(trained, start=1):
            machines[c] = machine
            if self.verbose:
                print(
                    f"[{type(self).__name__}] {done}/{len(machines)}: class {labels[c]!r}, "
                    f"{len(machine.support)} support vectors, b = {machine.bias:.4g}"
                )
        self.store_machines(machines, training, training.X, training.rows)

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
