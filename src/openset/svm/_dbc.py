"""Decision boundary carving: an SVM whose plane is moved after training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..base import KernelMachineClassifier, Traits
from ..kernels import Kernel, Linear

# Position of the plane within the best interval. Its ends are sample scores, where rounding would
# decide: stay just inside.
_POSITIONS = {"permissive": 0.01, "centre": 0.5, "restrictive": 0.99}


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

    _parameter_constraints: dict = {
        **KernelMachineClassifier._parameter_constraints,
        "tie": [StrOptions(set(_POSITIONS))],
    }

    fitted_attributes = {**KernelMachineClassifier.fitted_attributes, "epsilon_": "K"}

    traits = Traits(
        "DBC",
        condition="b_c < epsilon_c for every class",
        known_unknowns="negatives of every machine",
    )

    class_attributes = (*KernelMachineClassifier.class_attributes, "epsilon_")

    def __init__(
        self,
        C: float | dict = 1.0,
        gamma: float | str | dict = "scale",
        kernel: str | Kernel | Linear = "rbf",
        tie: str = "centre",
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
            gamma, kernel, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        )
        self.C = C
        self.tie = tie
        self.class_weight = class_weight

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
        return replace(machine, extra=-shift)

    def finish_model(self, training, extras):
        super().finish_model(training, extras)
        self.epsilon_ = np.array(extras)


def carve(scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, position: float) -> float:
    """The threshold of scores of shape (m,) with the smallest balanced error.

    It lies in the best interval at `position`, 0 and 1 being the ends. An interval that rejects all
    positive samples is never the best.
    """
    values, group = np.unique(scores, return_inverse=True)
    # Entry j: the threshold is above the first j values.
    missed, rejected = (
        np.append(0.0, np.bincount(group, weight * own, len(values)).cumsum())
        for own in (positive, ~positive)
    )
    balanced = 1.0 - missed / missed[-1] + rejected / rejected[-1]
    best = np.flatnonzero(balanced[:-1] >= balanced[:-1].max() - 1e-12)
    # Neighbouring best entries form one interval; below the first value there is room for one.
    runs = np.split(best, np.flatnonzero(np.diff(best) > 1) + 1)
    ends = np.append(values[0] - 1.0, values)
    low = np.array([ends[run[0]] for run in runs])
    high = np.array([ends[run[-1] + 1] for run in runs])
    nearest = np.argmin(np.maximum(0.0, np.maximum(low, -high)))
    return float(low[nearest] + position * (high[nearest] - low[nearest]))
