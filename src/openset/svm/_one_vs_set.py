"""The 1-vs-Set machine: a slab between two parallel planes for each class."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachineClassifier, SearchSpec, Traits
from ..base.fitted import require
from ..base.parameters import BOXES, C_CONSTRAINTS, SOLVER_CONSTRAINTS
from ._planes import Slab, find_slab

# Iterations per class before a fit on badly scaled features ends with a warning.
_MAX_ITER = 200_000

_PRESSURES = [2.0**k for k in range(-3, 3)]


class OneVsSetMachine(KernelMachineClassifier):
    """1-vs-Set machine: linear, each class between a near and a far plane.

    One linear SVM per class against the rest. Its plane moves to a near position delta_A, and a
    second plane at delta_Omega limits the class from the far side. Both are placed at decision
    values of training samples such that the risk is smallest: a slab as wide as the samples of the
    class, with a good F-measure. A slab reaches to infinity: the accepted region is smaller than a
    half-space but not bounded.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    p_near, p_far : float, default=0.0
        Pressures on the two planes: positive ones generalise (move the plane away from the class,
        where its neighbours allow it), negative ones specialise. Changing them needs no new fit.
    search : {"exhaustive", "greedy"}, default="exhaustive"
        Try all pairs of planes, or improve a first pair step by step.
    class_weight, tol
        As for :class:`OpenSetSVC`.
    max_iter : int, default=-1
        Largest number of iterations per class; -1 for 200,000, which only features that should be
        scaled need.
    cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`OpenSetSVC`.

    Attributes
    ----------
    near_, far_ : ndarray of shape (K,)
        The planes delta_A and delta_Omega under the present pressures, as decision values.
    bounded_ : ndarray of shape (K,), bool
        False, except for an empty slab, and in one dimension.
    classes_, unknown_label_, support_, support_vectors_, dual_coef_, intercept_, dual_objective_, \
kkt_gap_, n_iter_ : ndarray
        As for :class:`OpenSetSVC`.

    Notes
    -----
    The score is the distance of the decision value to the nearer plane, inside the slab, or to the
    plane that is violated, in units of the width of the slab. A slab without width scores -1.

    References
    ----------
    W. J. Scheirer, A. de R. Rocha, A. Sapkota, T. E. Boult, "Toward open set recognition", IEEE
    TPAMI 35(7), 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset.svm import OneVsSetMachine
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsSetMachine(p_near=0.5, p_far=0.5).fit(X[y < 2], y[y < 2])
    >>> model.predict(X[[0, 50]])
    array([0, 1])
    >>> model.predict(100 * X[[0, 50]])
    array([-1, -1])
    """

    _parameter_constraints: dict = {
        **C_CONSTRAINTS,
        "p_near": [Interval(Real, None, None, closed="neither")],
        "p_far": [Interval(Real, None, None, closed="neither")],
        "search": [StrOptions({"exhaustive", "greedy"})],
        **SOLVER_CONSTRAINTS,
    }

    # Not parameters: the method is linear.
    kernel = "linear"
    gamma = 1.0

    traits = Traits("1-vs-Set", known_unknowns="negatives of every machine")
    stored_types = (Slab,)
    fitted_attributes = {**KernelMachineClassifier.machine_attributes, "_slabs": ""}
    search_spec = SearchSpec(
        {"default": {"C": BOXES, "p_near": _PRESSURES, "p_far": _PRESSURES}},
        after_fit=("p_near", "p_far"),
    )

    def __init__(
        self,
        C: float | dict = 1.0,
        p_near: float = 0.0,
        p_far: float = 0.0,
        search: str = "exhaustive",
        class_weight: str | dict | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: int = 0,
        unknown_label: Any = "auto",
    ):
        super().__init__(
            1.0, "linear", tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        )
        self.C = C
        self.p_near = p_near
        self.p_far = p_far
        self.search = search
        self.class_weight = class_weight

    @property
    def solver_settings(self):
        # Without a width to fit the features, the solver may take very long to converge.
        settings = super().solver_settings
        if self.max_iter == -1:
            settings["max_iter"] = _MAX_ITER
        return settings

    def finish_machine(self, machine, path, rows, stop, **params):
        upper, lower = path.problem.upper, path.problem.lower
        samples = path.scores[0], upper > 0, upper - lower
        slab = find_slab(*samples, self.resolution, greedy=self.search == "greedy")
        return replace(machine, extra=slab)

    def finish_model(self, training, extras):
        self._slabs = extras

    def check_fitted(self):
        sizes = super().check_fitted()
        slabs = self._slabs
        fits = isinstance(slabs, list) and all(type(slab) is Slab for slab in slabs)
        require(fits and len(slabs) == sizes["K"], "_slabs is no list of one slab per class")
        planes = [number for slab in slabs for number in vars(slab).values()]
        fits = all(type(number) is float for number in planes) and np.isfinite(planes).all()
        require(fits and len(planes) == 4 * len(slabs), "_slabs has planes that are not finite")
        return sizes

    def take_classes(self, index):
        super().take_classes(index)
        self._slabs = [self._slabs[k] for k in index]

    @property
    def near_(self) -> np.ndarray:
        """(K,) near planes under the present pressure, as decision values."""
        check_is_fitted(self)
        return np.array([slab.near + self.p_near * slab.near_slope for slab in self._slabs])

    @property
    def far_(self) -> np.ndarray:
        """(K,) far planes under the present pressure, as decision values."""
        check_is_fitted(self)
        return np.array([slab.far + self.p_far * slab.far_slope for slab in self._slabs])

    def far_scores(self) -> np.ndarray:
        # An empty slab scores -1 everywhere; in one dimension a slab is an interval.
        tilted = np.asarray(self.dual_coef_ @ self.support_vectors_).any(axis=1)
        far = np.where(tilted & (self.n_features_in_ == 1), -np.inf, np.inf)
        return np.where(self.far_ <= self.near_, -1.0, far)

    def decide(self, raw):
        return slab_scores(raw, self.near_, self.far_)


def slab_scores(f: np.ndarray, near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Distance of decision values (n, K) to the nearer plane in widths: positive inside."""
    width = far - near
    inside = np.minimum(f - near, far - f)
    return np.where(width > 0, inside / np.where(width > 0, width, 1.0), -1.0)
