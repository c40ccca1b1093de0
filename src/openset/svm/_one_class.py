"""One-class machines for each class: a one-class SVM, or the smallest ball around its samples."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from ..base import KernelMachineClassifier, Traits
from ..base.parameters import C_CONSTRAINTS, KERNEL_CONSTRAINTS, SOLVER_CONSTRAINTS, kernel_search
from ..kernels import Kernel, Linear
from ..solver import one_class_problem, svdd_problem


class MulticlassOneClassSVM(KernelMachineClassifier):
    """One one-class SVM per class, each trained on the samples of its class alone.

    Every machine separates its samples from the origin of the kernel's feature space; the class
    with the largest decision value f_c(x) = sum_i alpha_i k(x_i, x) - rho_c answers, if that is
    not negative. With a kernel that decays with distance every accepted region is bounded.

    Parameters
    ----------
    nu : float in (0, 1) or dict {class: float}, default=0.5
        Upper bound of the fraction of training samples of a class that are left outside, and lower
        bound of the fraction that are support vectors.
    gamma, kernel
        As for :class:`OpenSetSVC`; kernel may also be "linear", which is never bounded.
    normalize : bool, default=False
        Divide f_c by rho_c, so that the decision values of classes with different nu and gamma are
        comparable: -1 far away from all samples. Only for a decaying kernel.
    tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        As for :class:`OpenSetSVC`; the memory for kernel rows is that of one machine.

    Attributes
    ----------
    intercept_ : ndarray of shape (K,)
        -rho of each class.
    dual_coef_ : ndarray of shape (K, n_sv)
        alpha_i in [0, 1] (times the sample weight), with the sum nu * l over the l samples of the
        class. Both are divided by rho with ``normalize=True``.
    classes_, unknown_label_, bounded_, known_radius_, support_, support_vectors_, gamma_, \
dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`OpenSetSVC`.

    Notes
    -----
    :meth:`predict_set` is the multi-label reading of [2]_: all classes that accept.

    References
    ----------
    .. [1] D. A. Pritsos, E. Stamatatos, "Open-set classification for automated genre
       identification", European Conference on Information Retrieval, 2013.
    .. [2] B. Heflin, W. Scheirer, T. E. Boult, "Detecting and classifying scars, marks, and tattoos
       found in the wild", IEEE International Conference on Biometrics: Theory, Applications and
       Systems, 2012.

    Examples
    --------
    >>> from openset.svm import MulticlassOneClassSVM
    >>> X = [[0.0], [1.0], [3.0], [10.0], [11.0], [13.0]]
    >>> y = ["low", "low", "low", "high", "high", "high"]
    >>> model = MulticlassOneClassSVM(gamma=0.5, tol=1e-6).fit(X, y)
    >>> model.predict([[0.5], [10.5], [30.0]])
    array(['low', 'high', 'unknown'], dtype='<U7')
    >>> model.decision_function([[0.5], [2.0]]).round(4)
    array([[-0.7166,  0.0463],
           [-0.7166, -0.0524]])
    """

    _parameter_constraints: dict = {
        "nu": [Interval(Real, 0.0, 1.0, closed="neither"), dict],
        "normalize": ["boolean"],
        **KERNEL_CONSTRAINTS,
        **SOLVER_CONSTRAINTS,
    }

    traits = Traits("OCSVM", one_class=True, bounded=True)
    min_classes = 1
    own_samples_only = True
    problem_params = ("nu",)
    search_spec = kernel_search(
        {"nu": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]},
        engine=("gamma", "nu"),
        path="nu",
    )

    def __init__(
        self,
        nu: float | dict = 0.5,
        gamma: float | str | dict = "scale",
        kernel: str | Kernel | Linear = "rbf",
        normalize: bool = False,
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
        self.nu = nu
        self.normalize = normalize

    def check_kernel(self, kernel):
        if self.normalize and not kernel.decaying:
            raise ValueError(
                f"normalize=True divides by rho, which is positive for a decaying kernel only, "
                f"not for kernel={self.kernel!r}. Use normalize=False."
            )

    def problem(self, signs, weight, **params):
        problem = one_class_problem(signs > 0, 0.0, weight)
        return problem, params["nu"] * problem.upper.sum(axis=-1, keepdims=True)

    def score_map(self, solved, **params):
        scale, shift = super().score_map(solved)
        return (scale / -solved.bias if self.normalize else scale), shift


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
        price = params["C"]
        if nu is not None:
            price = 1.0 / (nu * np.where(member, weight, 0.0).sum(axis=-1, keepdims=True))
        problem = svdd_problem(member, price * weight, np.ones(signs.shape[-1]))
        return problem, problem.total

    def score_map(self, solved, **params):
        # The score is R^2 - |phi(x) - a|^2 = 2 phi(x).a - 1 + (R^2 - a.a), since k(x, x) = 1. It is
        # zero on the sphere, so the solver finds R^2 - a.a = 2 b, and the score is 2 f - 1. Where
        # the multipliers were given, R = 0.
        scale = np.full(len(solved.totals), 2.0)
        if not _is_given(solved.problem):
            return scale, np.full(len(solved.totals), -1.0)
        return scale, -1.0 - _squared_norm(solved) - 2.0 * solved.bias

    def finish_machine(self, machine, solved, **params):
        # Record the radius: R^2 = 2 b + a.a, or 0 where the multipliers were given.
        if _is_given(solved.problem):
            return replace(machine, extra=0.0)
        squared = 2.0 * solved.bias[0] + _squared_norm(solved)[0]
        return replace(machine, extra=np.sqrt(max(0.0, squared)))

    def finish_model(self, training, extras):
        super().finish_model(training, extras)
        self.radius_ = np.array(extras)


def _is_given(problem):
    """Whether all boxes are closed."""
    return np.array_equal(problem.lower, problem.upper)


def _squared_norm(solved):
    """a.a of the centre a, at each total."""
    return np.einsum("tm,tm->t", solved.beta, solved.problem.p - solved.v)
