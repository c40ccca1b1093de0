"""SVM without a bias of its own: the bias is given, and negative."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..base import KernelMachineClassifier, Traits
from ..base.parameters import BOXES, kernel_search
from ..kernels import Kernel, Linear
from ..solver import fixed_bias_problem, svm_problem


class FixedBiasSVC(KernelMachineClassifier):
    """Support vector classifier, one-vs-rest, whose bias is chosen, not trained.

    With a kernel that decays with distance f_c tends to the bias far away from all samples. So a
    negative bias bounds every accepted region, whatever the data; which one is right is left to
    validation. Without a bias to train, the multipliers need no common sum, and the problem is
    solved two multipliers at a time, which move freely.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    bias : float <= 0 or dict {class: float}, default=-0.1
        The bias b. With 0 nothing is guaranteed.
    mode : {"fixed", "artificial"}, default="fixed"
        "fixed": the machine is trained with the bias, to make up for it. "artificial": it is
        trained without, and the bias added afterwards.
    gamma, kernel
        As for :class:`OpenSetSVC`; kernel may also be "linear", which is never bounded.
    class_weight, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`OpenSetSVC`.

    Attributes
    ----------
    intercept_ : ndarray of shape (K,)
        The bias of each class.
    classes_, unknown_label_, bounded_, known_radius_, support_, support_vectors_, dual_coef_, \
gamma_, dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`OpenSetSVC`.

    References
    ----------
    P. R. Mendes Júnior, T. E. Boult, J. Wainer, A. Rocha, "Open-Set Support Vector Machines", IEEE
    Transactions on Systems, Man, and Cybernetics: Systems 52(6), 2022 (as future work).

    Examples
    --------
    >>> from openset.svm import FixedBiasSVC
    >>> X = [[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]
    >>> model = FixedBiasSVC(gamma=0.5).fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> model.predict([[1.0], [11.5], [60.0]])
    array(['a', 'b', 'unknown'], dtype='<U7')
    >>> model.bounded_
    array([ True,  True])
    """

    _parameter_constraints: dict = {
        **KernelMachineClassifier._parameter_constraints,
        "bias": [Interval(Real, None, 0.0, closed="right"), dict],
        "mode": [StrOptions({"fixed", "artificial"})],
    }

    traits = Traits(
        "SVM without bias",
        bounded=True,
        condition="the given bias is < 0",
        known_unknowns="negatives of every machine",
    )
    problem_params = ("C", "bias")
    search_spec = kernel_search(
        {"C": BOXES, "bias": [-0.01, -0.05, -0.1, -0.25, -0.5, -1.0]}, engine=("gamma", "C", "bias")
    )

    def __init__(
        self,
        C: float | dict = 1.0,
        bias: float | dict = -0.1,
        mode: str = "fixed",
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
        self.bias = bias
        self.mode = mode
        self.class_weight = class_weight

    def problem(self, signs, weight, **params):
        problem = svm_problem(signs, params["C"] * weight, 0.0)
        trained_with = params["bias"] if self.mode == "fixed" else 0.0
        return fixed_bias_problem(problem, trained_with), np.zeros(1)

    def score_map(self, solved, **params):
        # The problem has no bias of its own.
        return np.ones(1), np.array([params["bias"]])
