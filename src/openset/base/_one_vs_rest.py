"""One binary machine a class over one shared kernel: the base of the SVM family."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.utils import compute_sample_weight
from sklearn.utils._param_validation import Interval, StrOptions

from ..base import OpenSetClassifier
from ..kernels import Kernel, Linear, get_kernel
from ..solver import Problem, Solution, solve_grid
from ..solver._expansion import decision_values

# Grids of the search: the paper's widths for data in [0, 1], and widths in units of
# 1 / (features x variance) for data of any scale.
PAPER_GAMMAS = [2.0**k for k in range(-15, 16, 2)]
SCALED_GAMMAS = [2.0**k for k in range(-7, 10, 2)]
LAMBDAS = [k / 20 for k in range(20)]

# Relative slack of the certificate, so that rounding cannot break the promise.
_SLACK = 1e-5


@dataclass(frozen=True)
class Machine:
    """A trained binary machine, reduced to what prediction and reports need."""

    support: np.ndarray
    coef: np.ndarray
    bias: float
    lam: float
    objective: float
    kkt_gap: float
    n_iter: int


@dataclass(frozen=True)
class Setup:
    """A training set after validation: rows of weight zero gone, labels as codes."""

    X: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    kept: np.ndarray
    kernel: Kernel | Linear
    C: np.ndarray

    def signs(self, c) -> np.ndarray:
        """+1 for class c, -1 for the rest."""
        return np.where(self.codes == c, 1.0, -1.0)

    def boxes(self, c) -> np.ndarray:
        """C_i = C w_i for the machine of class c."""
        return self.C[c] * self.weight


class OneVsRestSVM(OpenSetClassifier):
    """Base of estimators with one kernel machine a class; subclasses say how one is trained."""

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0.0, None, closed="neither"), dict],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither"), dict],
        "kernel": [str, Kernel, Linear],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "unknown_label": "no_validation",
    }

    _paper_level = "class"
    _scaled_params = ("gamma",)

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
            Factor of C for each sample; rows of weight zero are left out.

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
        return Setup(X, codes, weight, kept, kernel, self._per_class("C", self.C))

    def _problem(self, signs, boxes, c) -> Problem:
        """The problem of class c, from signs (m,) in {-1, +1} and boxes C_i (m,)."""
        raise NotImplementedError

    def _machine(self, solution, problem, rows, c) -> Machine:
        """The machine of class c, from the solution of its problem."""
        raise NotImplementedError

    def _check_kernel(self, kernel):
        """Raise if the method is not defined for the kernel."""

    def decision_function(self, X) -> np.ndarray:
        """f_c(x) = sum_i y_i alpha_i k(x_i, x) + b_c; class c accepts where it is >= 0.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        X = self._begin_predict(X, accept_sparse="csr")
        support_vectors = self.support_vectors_
        if sparse.issparse(X) != sparse.issparse(support_vectors):
            # The model decides: converting it would cost more than converting the question.
            X = X.toarray() if sparse.issparse(X) else sparse.csr_array(X)
        return decision_values(
            X,
            support_vectors,
            self.dual_coef_,
            self.intercept_,
            get_kernel(self.kernel),
            self.gamma_,
            self.n_jobs,
        )

    def _class_weights(self, labels):
        weights = compute_sample_weight(self.class_weight, labels)
        if not np.all(weights > 0):
            raise ValueError(
                f"class_weight={self.class_weight!r} must be > 0 for every class; leave a class "
                "out of y to ignore it."
            )
        return weights

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
            variance = (weight @ X.multiply(X)).sum() / total - first**2
        else:
            variance = (weight @ (X - first) ** 2).sum() / total
        return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0

    def _per_class(self, name, value):
        """(K,) array of a parameter that is a number or a dict {class: number}."""
        classes = self.classes_.tolist()
        if not isinstance(value, dict):
            return np.full(len(classes), float(value))
        if set(value) != set(classes):
            raise ValueError(
                f"{name} is a dict for the classes {sorted(value, key=str)}, but y has "
                f"{classes}; give exactly one value for each class."
            )
        values = np.array([value[c] for c in classes], dtype=np.float64)
        (interval,) = (
            rule for rule in self._parameter_constraints[name] if isinstance(rule, Interval)
        )
        bad = [c for c, x in zip(classes, values, strict=True) if not interval.is_satisfied_by(x)]
        if bad:
            raise ValueError(
                f"{name}[{bad[0]!r}] must be {interval}, got {value[bad[0]]!r} instead."
            )
        return values

    def _train_all(self, setup):
        n_classes = len(self.classes_)
        machines = [None] * n_classes
        done = 0
        for gamma in np.unique(self.gamma_):
            group = np.flatnonzero(self.gamma_ == gamma)

            def problem_of(k, group=group):
                c = group[k]
                problem = self._problem(setup.signs(c), setup.boxes(c), c)
                return problem, np.array([problem.total])

            def reduce(k, path, rows, group=group):
                return self._machine(path[0], path.problem, rows, group[k])

            for _, k, machine in solve_grid(
                setup.X,
                setup.kernel,
                [gamma],
                len(group),
                problem_of,
                reduce,
                tol=self.tol,
                max_iter=self.max_iter,
                cache_size=self.cache_size,
                n_jobs=self.n_jobs,
            ):
                machines[group[k]] = machine
                done += 1
                if self.verbose:
                    print(
                        f"[{type(self).__name__}] {done}/{n_classes}: "
                        f"class {self.classes_[group[k]]!r}, "
                        f"{len(machine.support)} support vectors, b = {machine.bias:.4g}"
                    )
        return machines

    def _store(self, setup, machines):
        used = np.unique(np.concatenate([machine.support for machine in machines]))
        self.support_ = setup.kept[used]
        self.support_vectors_ = setup.X[used]
        self.dual_coef_ = np.zeros((len(machines), len(used)))
        for c, machine in enumerate(machines):
            self.dual_coef_[c, np.searchsorted(used, machine.support)] = machine.coef
        self.intercept_ = np.array([machine.bias for machine in machines])
        self.lam_ = np.array([machine.lam for machine in machines])
        self.dual_objective_ = np.array([machine.objective for machine in machines])
        self.kkt_gap_ = np.array([machine.kkt_gap for machine in machines])
        self.n_iter_ = np.array([machine.n_iter for machine in machines])
        self.known_radius_ = _known_radius(
            self.dual_coef_, self.intercept_, setup.kernel, self.gamma_
        )
        self.bounded_ = np.isfinite(self.known_radius_)


def reduce_solution(solution: Solution, lam: float) -> Machine:
    """The machine of a solution, without the arrays of the length of the training set."""
    support = np.flatnonzero(solution.beta)
    return Machine(
        support,
        solution.beta[support],
        solution.bias,
        lam,
        solution.objective,
        solution.kkt_gap,
        solution.n_iter,
    )


def _known_radius(coef, bias, kernel, gamma):
    """Distance from every positive support vector beyond which a class rejects; inf without one.

    Farther than r, the positive part of f is at most S+ k(gamma r^2), the negative part at most
    zero, so f < 0 as soon as k(gamma r^2) <= -b / S+.
    """
    radius = np.full(len(bias), np.inf)
    if not kernel.decaying:
        return radius
    positive = np.where(coef > 0, coef, 0.0).sum(axis=1)
    for c in np.flatnonzero(bias < 0):
        level = -bias[c] * (1 - _SLACK)
        radius[c] = (
            0.0 if level >= positive[c] else np.sqrt(kernel.inverse(level / positive[c]) / gamma[c])
        )
    return radius
