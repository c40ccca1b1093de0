"""Support vector data description for each class: the smallest ball around its samples."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from ..base import KernelMachineClassifier, Traits
from ..base.parameters import C_CONSTRAINTS, KERNEL_CONSTRAINTS, SOLVER_CONSTRAINTS, kernel_search
from ..kernels import Kernel
from ..solver import svdd_problem


class MulticlassSVDD(KernelMachineClassifier):
    """One support vector data description (SVDD) per class: a ball around its samples.

    The ball lies in the feature space of the kernel and is as small as possible, at a price C for
    each unit that a sample lies outside. With a centre a_c and a radius R_c the score of a class is
    ``R_c^2 - |phi(x) - a_c|^2``; the class with the largest answers, if that is not negative. Every
    accepted region is bounded.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Price of samples outside. With 1 or more the ball holds all samples. With
        1 / (number of samples) or less the radius is zero.
    nu : float in (0, 1] or dict {class: float}, default=None
        If given, it replaces `C` by 1 / (nu * number of samples); about a fraction nu of the
        samples is outside.
    gamma, kernel, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`OpenSetSVC`; the memory for kernel rows is that of one machine.

    Attributes
    ----------
    radius_ : ndarray of shape (K,)
        R of each class.
    intercept_ : ndarray of shape (K,)
        Score far away from all samples, R^2 - 1 - a.a.
    dual_coef_ : ndarray of shape (K, n_sv)
        2 alpha_i: the score is their kernel expansion plus the intercept. The alpha_i of a class
        add up to 1; its centre is the sum of alpha_i phi(x_i).
    classes_, unknown_label_, bounded_, known_radius_, support_, support_vectors_, gamma_, \
dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`OpenSetSVC`.

    References
    ----------
    .. [1] D. M. J. Tax, R. P. W. Duin, "Support vector data description", Machine Learning 54(1),
       2004.
    .. [2] W.-C. Chang, C.-P. Lee, C.-J. Lin, "A revisit to support vector data description",
       National Taiwan University, technical report, 2013.

    Examples
    --------
    >>> from openset.svm import MulticlassSVDD
    >>> X = [[0.0], [1.0], [3.0], [10.0], [11.0], [13.0]]
    >>> y = ["low", "low", "low", "high", "high", "high"]
    >>> model = MulticlassSVDD(gamma=0.5, tol=1e-6).fit(X, y)
    >>> model.predict([[0.5], [10.5], [30.0]])
    array(['low', 'high', 'unknown'], dtype='<U7')
    >>> (model.radius_**2).round(4)
    array([0.5223, 0.5223])
    """

    _parameter_constraints: dict = {
        "C": C_CONSTRAINTS["C"],
        "nu": [Interval(Real, 0.0, 1.0, closed="right"), dict, None],
        **KERNEL_CONSTRAINTS,
        **SOLVER_CONSTRAINTS,
    }

    fitted_attributes = {**KernelMachineClassifier.fitted_attributes, "radius_": "K"}
    traits = Traits("SVDD", one_class=True, bounded=True)
    min_classes = 1
    own_samples_only = True
    problem_params = ("C", "nu")
    search_spec = kernel_search(
        {"nu": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]}, engine=("gamma", "C", "nu")
    )

    class_attributes = (*KernelMachineClassifier.class_attributes, "radius_")

    def __init__(
        self,
        C: float | dict = 1.0,
        nu: float | dict | None = None,
        gamma: float | str | dict = "scale",
        kernel: str | Kernel = "rbf",
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
        self.nu = nu

    def check_kernel(self, kernel):
        if not kernel.decaying:
            raise ValueError(
                f"kernel={self.kernel!r} does not decay with distance, so there is no ball around "
                "a class. Choose a decaying kernel such as 'rbf'."
            )

    def problem(self, signs, weight, **params):
        member, nu = signs > 0, params["nu"]
        price = params["C"] if nu is None else 1.0 / (nu * weight[member].sum())
        return svdd_problem(member, price * weight, np.ones(len(signs))), np.ones(1)

    def score_map(self, path, **params):
        # The score is R^2 - |phi(x) - a|^2 = 2 phi(x).a - 1 + (R^2 - a.a), since k(x, x) = 1. It is
        # zero on the sphere, so the solver finds R^2 - a.a = 2 b, and the score is 2 f - 1. Without
        # an equality the multipliers were given, and R = 0.
        scale = np.full(len(path.totals), 2.0)
        if path.problem.total is not None:
            return scale, np.full(len(path.totals), -1.0)
        return scale, -1.0 - _squared_norm(path) - 2.0 * path.bias

    def finish_machine(self, machine, path, rows, stop, **params):
        # Record the radius: R^2 = 2 b + a.a, or 0 where the multipliers were given.
        if path.problem.total is None:
            return replace(machine, extra=0.0)
        squared = 2.0 * path.bias[0] + _squared_norm(path)[0]
        return replace(machine, extra=np.sqrt(max(0.0, squared)))

    def finish_model(self, training, extras):
        super().finish_model(training, extras)
        self.radius_ = np.array(extras)


def _squared_norm(path):
    """a.a of the centre a, at each total."""
    return np.einsum("tm,tm->t", path.beta, path.problem.p - path.v)
