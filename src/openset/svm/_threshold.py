"""The plain SVM with one threshold on its decision values, chosen by the search."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from ..base import KernelMachineClassifier, Traits
from ..base.parameters import BOXES, kernel_search
from ..kernels import Kernel, Linear

# Decision values of training samples lie around -1 and 1; more thresholds than OpenSetSVC has
# values of lambda, since they cost nothing.
_THRESHOLDS = [k / 10 for k in range(-5, 10)] + [0.95, 0.99]


class ThresholdSVC(KernelMachineClassifier):
    """Support vector classifier, one-vs-rest, that accepts where f(x) >= threshold.

    The rival of :class:`OpenSetSVC` in its own paper: train the plain SVM, then move all planes
    by the same amount, which validation chooses. Far away from all samples f_c tends to its bias
    b_c, so a region is bounded if the threshold is larger; nothing makes it so.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    threshold : float or dict {class: float}, default=0.0
        Smallest decision value that is accepted; with 0 this is :class:`OneVsRestSVC`.
    gamma, kernel
        As for :class:`OpenSetSVC`; kernel may also be "linear", which is never bounded.
    class_weight, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`OpenSetSVC`.

    Attributes
    ----------
    intercept_ : ndarray of shape (K,)
        b_c - threshold.
    classes_, unknown_label_, bounded_, known_radius_, support_, support_vectors_, dual_coef_, \
gamma_, dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`OpenSetSVC`.

    References
    ----------
    P. R. Mendes Júnior, T. E. Boult, J. Wainer, A. Rocha, "Open-Set Support Vector Machines", IEEE
    Transactions on Systems, Man, and Cybernetics: Systems 52(6), 2022, which compares the rule
    f(x) > epsilon with its own.

    Examples
    --------
    >>> from openset.svm import ThresholdSVC
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
    >>> model = ThresholdSVC(gamma=0.5, threshold=0.3).fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> model.predict([[1.0], [11.5], [60.0]])
    array(['a', 'b', 'unknown'], dtype='<U7')
    >>> model.bounded_
    array([ True,  True])
    """

    _parameter_constraints: dict = {
        **KernelMachineClassifier._parameter_constraints,
        "threshold": [Interval(Real, None, None, closed="neither"), dict],
    }
    traits = Traits(
        "SVM with threshold",
        condition="b_c < threshold for every class",
        known_unknowns="negatives of every machine",
    )
    problem_params = ("C", "threshold")
    # The thresholds are the values of a path: all of one machine come from one solution.
    search_spec = kernel_search(
        {"C": BOXES, "threshold": _THRESHOLDS}, engine=("gamma", "C", "threshold"), path="threshold"
    )

    def __init__(
        self,
        C: float | dict = 1.0,
        threshold: float | dict = 0.0,
        gamma: float | str | dict = "scale",
        kernel: str | Kernel | Linear = "rbf",
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
        self.threshold = threshold
        self.class_weight = class_weight

    def score_map(self, solved, **params):
        threshold = params["threshold"]
        return np.ones(len(threshold)), -threshold
