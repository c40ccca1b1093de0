"""SVMs whose planes are placed after training: decision boundary carving, and 1-vs-Set slabs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..base import KernelMachineClassifier, SearchSpec
from ..base.fitted import require
from ..base.parameters import BOXES, NUMBER, machine_traits, param, with_parameters
from ..kernels import Kernel, Linear
from ..utils.compiled import njit

# Position of the plane within the best interval. Its ends are sample scores, where rounding would
# decide: stay just inside.
_POSITIONS = {"permissive": 0.01, "centre": 0.5, "restrictive": 0.99}


@with_parameters
class DecisionBoundaryCarving(KernelMachineClassifier):
    """Support vector classifier whose decision boundaries are carved (DBC).

    One SVM per class against the rest, whose plane is then moved parallel to itself to where the
    balanced error on the training samples is smallest: class c accepts where f_c(x) >= epsilon_c.
    Nothing is guaranteed: a class with b_c >= epsilon_c accepts everything far away, and
    ``bounded_`` says so.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    gamma, kernel
        As for :class:`OpenSetSVC`; kernel may also be "linear", which is never bounded.
    tie : {"centre", "permissive", "restrictive"}, default="centre"
        The error is the same between two neighbouring sample scores. Which position of the best
        interval (the nearest to 0 of several) is taken: its middle, or just inside its lower or
        its upper end.
    class_weight, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`OpenSetSVC`.

    Attributes
    ----------
    epsilon_ : ndarray of shape (K,)
        How far the plane of each class was moved: towards the class where positive.
    intercept_ : ndarray of shape (K,)
        b_c - epsilon_c.
    classes_, unknown_label_, bounded_, known_radius_, support_, support_vectors_, dual_coef_, \
gamma_, dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`OpenSetSVC`.

    References
    ----------
    F. de O. Costa, E. Silva, M. Eckmann, W. J. Scheirer, A. Rocha, "Open set source camera
    attribution and device linking", Pattern Recognition Letters 39, 2014.

    Examples
    --------
    >>> from openset.svm import DecisionBoundaryCarving
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
    >>> model = DecisionBoundaryCarving(gamma=0.5).fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> model.predict([[1.0], [11.5], [6.0]])
    array(['a', 'b', 'unknown'], dtype='<U7')
    """

    C: float | dict = 1.0
    gamma: float | str | dict = "scale"
    kernel: str | Kernel | Linear = "rbf"
    tie: str = param("centre", StrOptions(set(_POSITIONS)))
    class_weight: str | dict | None = None
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    fitted_attributes = {**KernelMachineClassifier.fitted_attributes, "epsilon_": "K"}

    traits = machine_traits("DBC", condition="b_c < epsilon_c for every class")

    def score_map(self, solved, **params):
        problem = solved.problem
        weight = problem.upper - problem.lower
        fitted = weight > 0
        # Scores that agree to the resolution count as equal: rounding must not put the plane
        # between samples on the margin.
        steps = np.rint(0.5 / self.resolution)
        scores = np.rint(solved.scores[0, fitted] * steps) / steps
        positive = problem.upper[fitted] > 0
        epsilon = carve(scores, positive, weight[fitted], _POSITIONS[self.tie])
        return np.ones(1), np.array([-epsilon])

    def finish_machine(self, machine, solved, **params):
        _, (shift,) = self.score_map(solved)
        return replace(machine, extra={"epsilon_": -shift})


def carve(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, position: float) -> float:
    """The threshold of scores of shape (m,) with the smallest balanced error."""
    # It lies in the best interval at `position`, 0 and 1 being the ends. An interval that rejects
    # all positive samples is never the best.
    values, group = np.unique(scores, return_inverse=True)
    missed, rejected = _weights_below(group, positive, weight)
    balanced = 1.0 - missed / missed[-1] + rejected / rejected[-1]
    best = np.flatnonzero(balanced[:-1] >= balanced[:-1].max() - 1e-12)
    # Neighbouring best entries form one interval; below the first value there is room for one.
    runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
    ends = np.append(values[0] - 1.0, values)
    low = np.array([ends[run[0]] for run in runs])
    high = np.array([ends[run[-1] + 1] for run in runs])
    nearest = np.argmin(np.maximum(0.0, np.maximum(low, -high)))
    return float(low[nearest] + position * (high[nearest] - low[nearest]))


def _weights_below(group, positive, weight):
    """Weights of the positive and of the other samples in the first k groups, k = 0, 1, ..."""
    return [
        np.append(0.0, np.bincount(group, weight * kind).cumsum()) for kind in (positive, ~positive)
    ]


# Smaller widths of a slab are treated as this one.
_NARROWEST = 1e-4
# Iterations per class before a fit on badly scaled features ends with a warning.
_MAX_ITER = 200_000

_PRESSURES = [2.0**k for k in range(-3, 3)]


@dataclass(frozen=True)
class Slab:
    """Two planes at given pressures p: near + p_near * near_slope, far + p_far * far_slope."""

    near: float
    far: float
    near_slope: float
    far_slope: float


@with_parameters
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

    C: float | dict = 1.0
    p_near: float = param(0.0, NUMBER)
    p_far: float = param(0.0, NUMBER)
    search: str = param("exhaustive", StrOptions({"exhaustive", "greedy"}))
    class_weight: str | dict | None = None
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    # Not parameters: the method is linear.
    kernel = "linear"
    gamma = 1.0

    traits = machine_traits("1-vs-Set")
    stored_types = (Slab,)
    fitted_attributes = {**KernelMachineClassifier.machine_attributes, "_slabs": ""}
    search_spec = SearchSpec(
        {"default": {"C": BOXES, "p_near": _PRESSURES, "p_far": _PRESSURES}},
        after_fit=("p_near", "p_far"),
    )

    @property
    def solver_settings(self):
        # Without a width to fit the features, the solver may take very long to converge.
        settings = super().solver_settings
        if self.max_iter == -1:
            settings["max_iter"] = _MAX_ITER
        return settings

    def finish_machine(self, machine, solved, **params):
        upper, lower = solved.problem.upper, solved.problem.lower
        samples = solved.scores[0], upper > 0, upper - lower
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


def find_slab(
    scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, resolution: float, greedy: bool
) -> Slab:
    """The slab between two of m decision values with the smallest risk; see `risk`."""
    # Scores closer than `resolution` count as equal. `greedy` looks for a local minimum instead of
    # trying all pairs.
    steps = np.rint(0.5 / resolution)  # a whole number, so that 1 and -1, the margin, are steps
    _, group = np.unique(np.rint(scores * steps), return_inverse=True)
    n = group.max() + 1
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, group, scores)
    np.maximum.at(high, group, scores)
    hits, others = _weights_below(group, positive, weight)
    spread = max(np.ptp(scores[positive]), _NARROWEST)
    near, far = _descend(low, high, hits, others, spread)
    if not greedy:
        near, far = _exhaust(low, high, hits, others, spread, near, far)

    has_positive, has_negative = np.diff(hits) > 0, np.diff(others) > 0
    near_slope = far_slope = 0.0
    if has_positive[near] and near == 0:
        near_slope = -spread / 2
    elif has_positive[near] and has_negative[near - 1]:
        near_slope = (high[near - 1] - low[near]) / 2
    last = np.flatnonzero(has_positive)[-1]
    if far == n - 1 or (has_positive[far] and far < last and has_negative[far + 1]):
        far_slope = spread / 2
    return Slab(float(low[near]), float(high[far]), float(near_slope), float(far_slope))


@njit(cache=True, nogil=True)
def risk(width, spread, found, retrieved, total):
    """Open-set risk of a slab: too wide or too narrow, plus twice the inverse of the F-measure."""
    # `spread` is the width of the scores of the positive samples. `found`, `retrieved` and `total`
    # are the weights of the positive samples inside, of all samples inside, of all positive
    # samples.
    if found <= 0.0:
        return 1e99
    ratio = max(width, _NARROWEST) / spread
    # 2 / F = 1 / precision + 1 / recall
    return max(ratio, 1.0) + max(1.0 / ratio, 1.0) + (retrieved + total) / found


@njit(cache=True, nogil=True)
def _risk_between(low, high, hits, others, spread, i, j):
    """Risk of the slab from value i to value j; see `find_slab`."""
    found = hits[j + 1] - hits[i]
    retrieved = found + others[j + 1] - others[i]
    return risk(high[j] - low[i], spread, found, retrieved, hits[-1])


@njit(cache=True, nogil=True)
def _exhaust(low, high, hits, others, spread, near, far):
    """Try all pairs of planes except those too wide or too narrow to be better than the best."""
    n = low.size
    total = hits[n]
    best = _risk_between(low, high, hits, others, spread, near, far)
    first = 0
    for i in range(n):
        left = total - hits[i]
        if left <= 0.0:
            break
        # One of the two width terms is 1; the third is smallest if all positives left are found.
        room = best - 1.0 - (left + total) / left
        first = max(first, i)
        while first < n and room * max(high[first] - low[i], _NARROWEST) < spread:
            first += 1
        for j in range(first, n):
            if high[j] - low[i] > room * spread:
                break
            value = _risk_between(low, high, hits, others, spread, i, j)
            if value < best:
                best = value
                near, far = i, j
    return near, far


def _descend(low, high, hits, others, spread):
    """From planes around the positive samples to a pair that no single step improves."""
    n = len(low)
    has_positive, has_negative = np.diff(hits) > 0, np.diff(others) > 0
    value = partial(_risk_between, low, high, hits, others, spread)
    after_positive = np.append(False, has_positive[:-1])
    starts = np.flatnonzero(has_negative & (low < 0) & ~after_positive)
    near = int(starts[-1]) if starts.size else 0
    far = min(int(np.flatnonzero(has_positive)[-1]) + 1, n - 1)
    near = min(near, far)
    # Each plane in turn over all positions that widen the slab, the first smallest on ties.
    near = min(range(near, -1, -1), key=lambda i: value(i, far))
    far = min(range(far, n), key=lambda j: value(near, j))
    near = min(range(near, -1, -1), key=lambda i: value(i, far))
    best = value(near, far)
    while True:
        steps = [(near - 1, far), (near + 1, far), (near, far - 1), (near, far + 1)]
        steps = [(i, j) for i, j in steps if 0 <= i <= j < n]
        values = [value(*step) for step in steps]
        if not values or min(values) >= best:
            return near, far
        best = min(values)
        near, far = steps[values.index(best)]
