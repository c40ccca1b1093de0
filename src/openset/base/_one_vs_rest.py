"""One kernel machine a class: the base of the SVM family."""

from __future__ import annotations

import threading
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import compute_sample_weight
from sklearn.utils._param_validation import Interval, StrOptions

from ..kernels import Kernel, Linear, get_kernel
from ..solver import KernelRows, Path, Problem, decision_values, svm_problem
from ._classifier import OpenSetClassifier
from ._machines import Machine, Setup, known_radius, pack, train_one_vs_rest

# Grids of the search: the paper's widths for data in [0, 1], and widths in units of
# 1 / (features x variance) for data of any scale; and boxes.
PAPER_GAMMAS = [2.0**k for k in range(-15, 16, 2)]
SCALED_GAMMAS = [2.0**k for k in range(-7, 10, 2)]
BOXES = [1.0, 8.0]

# What single-precision kernel values leave uncertain in a decision value, however tight `tol` is.
_ROUNDING = 1e-5

# What parameters may be, for ``_parameter_constraints``.
_POSITIVE = Interval(Real, 0.0, None, closed="neither")
BOX_RULES = {
    "C": [_POSITIVE, dict],
    "class_weight": [StrOptions({"balanced"}), dict, None],
}
KERNEL_RULES = {
    "gamma": [StrOptions({"scale", "auto"}), _POSITIVE, dict],
    "kernel": [str, Kernel, Linear],
}
SOLVER_RULES = {
    "tol": [_POSITIVE],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "cache_size": [_POSITIVE],
    "n_jobs": [Integral, None],
    "device": [StrOptions({"cpu", "cuda", "auto"})],
    "verbose": ["verbose"],
    "unknown_label": "no_validation",
}


class OneVsRestSVM(OpenSetClassifier):
    """Base of estimators with one kernel machine a class; subclasses say how one is trained.

    The machines are plain SVMs unless a subclass defines another :meth:`_problem`. It may also
    define what becomes of a solution: at fitting :meth:`_machine`, in a search over many settings
    :meth:`_acceptance`. All three get the parameters of the machine by name, as numbers, but
    `_path_param` as an array.
    """

    _parameter_constraints: dict = {**BOX_RULES, **KERNEL_RULES, **SOLVER_RULES}

    # The parameters that make a machine beside gamma, and the one among them, if any, along which
    # only the sum of the multipliers varies: its values are solved as one path.
    _machine_params: tuple[str, ...] = ("C",)
    _path_param: str | None = None

    _min_classes = 2
    _train = staticmethod(train_one_vs_rest)

    _paper_level = "class"
    _scaled_params = ("gamma",)
    _default_grid = {"C": BOXES, "gamma": SCALED_GAMMAS}
    _paper_grid = {"gamma": PAPER_GAMMAS}

    @property
    def _engine_params(self):
        """What the grid engine of a search may vary: nothing if more than machines is fitted."""
        return () if self._post_params else ("gamma", *self._machine_params)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Train one machine a class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
            Feature vectors.
        y : array-like of shape (m,)
            Their classes.
        sample_weight : array-like of shape (m,), default=None
            Weight of each sample; rows of weight zero are left out.

        Returns
        -------
        self
        """
        setup = self._prepare(X, y, sample_weight, self._min_classes)
        self._store(setup, self._train_all(setup))
        return self

    def _prepare(self, X, y, sample_weight, min_classes):
        """Validate the arguments of fit and settle everything that does not need a solver."""
        X, codes, weight, kept = self._begin_fit(
            X, y, sample_weight, accept_sparse="csr", min_classes=min_classes
        )
        kernel = get_kernel(self.kernel)
        self._check_kernel(kernel)
        weight = weight * self._class_weights(self.classes_[codes])
        self.gamma_ = self._per_class("gamma", self._resolve_gamma(X, weight))
        columns = [self._per_class(name, getattr(self, name)) for name in self._machine_params]
        params = [
            dict(zip(self._machine_params, values, strict=True))
            for values in zip(*columns, strict=True)
        ]
        for machine in params:
            if self._path_param is not None:
                machine[self._path_param] = np.array([machine[self._path_param]])
        return Setup(X, codes, weight, kept, kernel, self.gamma_, params)

    def _problem(self, signs, weight, **params) -> tuple[Problem, np.ndarray]:
        """The problem of a machine, and its total for each value of the path parameter.

        Parameters
        ----------
        signs : ndarray of shape (m,)
            +1 for the class, -1 for the rest, 0 for rows that are held out.
        weight : ndarray of shape (m,)
        **params
            The machine parameters.
        """
        return svm_problem(signs, params["C"] * weight, 0.0), np.zeros(1)

    def _machine(self, path: Path, rows: KernelRows, stop, **params) -> Machine:
        """The machine of a path of one."""
        return Machine.of(path[0])

    def _acceptance(self, path: Path, **params) -> np.ndarray:
        """Acceptance scores of all m rows at each total, shape (T, m)."""
        return path.scores

    def _check_kernel(self, kernel):
        """Raise if the method is not defined for the kernel."""

    def _raw_scores(self, X):
        """f_c(x) = sum_i coef_ci k(x_i, x) + b_c."""
        X = self._begin_predict(X, accept_sparse="csr")
        return self._expand(X, self.support_vectors_, self.dual_coef_, self.intercept_)

    def _expand(self, X, support_vectors, coef, bias):
        if sparse.issparse(X) != sparse.issparse(support_vectors):
            # The model decides: converting it would cost more than converting the question.
            X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
        kernel = get_kernel(self.kernel)
        return decision_values(
            X, support_vectors, coef, bias, kernel, self.gamma_, self.n_jobs, self.device
        )

    def _class_weights(self, labels):
        class_weight = getattr(self, "class_weight", None)
        if isinstance(class_weight, dict):
            for c, weight in class_weight.items():
                if not _POSITIVE.is_satisfied_by(weight):
                    raise ValueError(
                        f"class_weight[{c!r}] must be {_POSITIVE}, got {weight!r} instead; leave "
                        "a class out of y to ignore it."
                    )
        return compute_sample_weight(class_weight, labels)

    def _resolve_gamma(self, X, weight):
        if not isinstance(self.gamma, str):
            return self.gamma
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        return self._unit_gamma(X, weight)

    def _unit_gamma(self, X, weight):
        """1 / (features x variance): the width at which distances are of the order of one."""
        total = weight.sum() * X.shape[1]
        first = (weight @ X).sum() / total
        if sparse.issparse(X):
            stored = np.repeat(weight, np.diff(X.indptr))
            squares = stored @ (X.data - first) ** 2 + (total - stored.sum()) * first**2
        else:
            squares = (weight @ (X - first) ** 2).sum()
        variance = squares / total
        if np.sqrt(variance) <= 1e-13 * abs(first):  # what rounding makes of equal numbers
            return 1.0
        gamma = 1.0 / (X.shape[1] * variance)
        if not 0 < gamma < np.inf:
            raise ValueError(
                f"The variance of X is {variance:g}: too large or too small for gamma='scale'. "
                "Scale X, for instance with sklearn.preprocessing.StandardScaler."
            )
        return gamma

    def _per_class(self, name, value):
        """(K,) array of a parameter that is a number, None or a dict {class: number}."""
        classes = self.classes_.tolist()
        if value is None:
            return np.full(len(classes), None)
        if not isinstance(value, dict):
            return np.full(len(classes), float(value))
        if set(value) != set(classes):
            raise ValueError(
                f"{name} is a dict for the classes {sorted(value, key=str)}, but y has "
                f"{classes}; give exactly one value for each class."
            )
        (interval,) = (
            rule for rule in self._parameter_constraints[name] if isinstance(rule, Interval)
        )
        bad = [c for c in classes if not interval.is_satisfied_by(value[c])]
        if bad:
            raise ValueError(
                f"{name}[{bad[0]!r}] must be {interval}, got {value[bad[0]]!r} instead."
            )
        return np.array([value[c] for c in classes], dtype=np.float64)

    def _train_all(self, setup, train=None):
        stop = threading.Event()

        def problem_of(c, signs, weight):
            return self._problem(signs, weight, **setup.params[c])

        def reduce(c, path, rows):
            return self._machine(path, rows, stop, **setup.params[c])

        machines = [None] * len(self.classes_)
        labels = self.classes_.tolist()
        train = train or self._train
        settings = {**self._solver_settings, "stop": stop}
        trained = train(setup, problem_of, reduce, self.n_jobs, **settings)
        for done, (c, machine) in enumerate(trained, start=1):
            machines[c] = machine
            if self.verbose:
                print(
                    f"[{type(self).__name__}] {done}/{len(machines)}: class {labels[c]!r}, "
                    f"{len(machine.support)} support vectors, b = {machine.bias:.4g}"
                )
        return machines

    @property
    def _resolution(self):
        """How well the solver knows the decision values of the training samples."""
        return max(self.tol, _ROUNDING)

    @property
    def _solver_settings(self):
        names = ("tol", "max_iter", "cache_size", "device")
        return {name: getattr(self, name) for name in names}

    def _store(self, setup, machines):
        used, self.dual_coef_, self.intercept_ = pack(machines)
        self.support_ = setup.kept[used]
        self.support_vectors_ = setup.X[used]
        self.dual_objective_ = np.array([machine.objective for machine in machines])
        self.kkt_gap_ = np.array([machine.kkt_gap for machine in machines])
        self.n_iter_ = np.array([machine.n_iter for machine in machines])
        self._conclude(setup, [machine.extra for machine in machines])

    def _conclude(self, setup, extras):
        """Set what else is known after fitting: here, how far a class that accepts f >= 0 goes."""
        self.known_radius_ = known_radius(
            self.dual_coef_, self.intercept_, setup.kernel, self.gamma_
        )
        self.bounded_ = np.isfinite(self.known_radius_)
