"""Plain SVMs: one-vs-rest, with one threshold or a given bias, one-vs-one, of one class alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from ..base import KernelMachineClassifier, Traits
from ..base.machines import batch_of
from ..base.parameters import BOXES, NUMBER, kernel_search, machine_traits, param, with_parameters
from ..kernels import Kernel, Linear
from ..solver import (
    LazyBatches,
    Settings,
    fixed_bias_problem,
    one_class_problem,
    solve_batches,
    svdd_problem,
    svm_problem,
)
from ._landmarks import LandmarkTraining

# Multipliers of the pairs that are described together.
_TOGETHER = 2**21
# Values of nu, the share of samples that one-class machines leave outside.
_NUS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]


@with_parameters
class OneVsRestSVC(KernelMachineClassifier):
    """Support vector classifier, one-vs-rest, that rejects what no class accepts.

    The plain SVM (``OpenSetSVC`` with lambda = 0) without any guarantee: a class whose bias is not
    negative accepts everything far away, and ``bounded_`` says so.

    Parameters
    ----------
    C, gamma, kernel, landmarks, class_weight, tol, max_iter, cache_size, n_jobs, device, \
random_state, verbose, unknown_label
        As for :class:`OpenSetSVC`; without landmarks, kernel may also be "linear", which is never
        bounded.

    Attributes
    ----------
    classes_, unknown_label_, bounded_, known_radius_, support_, support_vectors_, dual_coef_, \
intercept_, gamma_, dual_objective_, kkt_gap_, n_iter_ : ndarray
        As for :class:`OpenSetSVC`.

    References
    ----------
    C.-C. Chang, C.-J. Lin, "LIBSVM: a library for support vector machines", ACM Transactions on
    Intelligent Systems and Technology 2(3), 2011.

    Examples
    --------
    >>> from openset import OneVsRestSVC
    >>> model = OneVsRestSVC(gamma=0.5).fit([[0, 0], [0, 1], [5, 5], [5, 6]], [0, 0, 1, 1])
    >>> model.predict([[0, 0.5], [5, 5.5]])
    array([0, 1])
    """

    C: float | dict = 1.0
    gamma: float | str | dict = "scale"
    kernel: str | Kernel | Linear = "rbf"
    landmarks: int | ArrayLike | None = None
    class_weight: str | dict | None = None
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    unknown_label: Any = "auto"

    traits = machine_traits("SVM", condition="b_c < 0 for every class")

    @property
    def strategy(self):
        return None if self.landmarks is None else LandmarkTraining(self)

    def check_kernel(self, kernel):
        if self.landmarks is not None and not kernel.decaying:
            raise ValueError(
                f"landmarks need a kernel that decays with distance, not kernel={self.kernel!r}. "
                "Choose one such as 'rbf', or landmarks=None."
            )


def one_vs_one_bias(
    X: Any,
    y: ArrayLike,
    *,
    C: float = 1.0,
    gamma: float | str = 1.0,
    kernel: str | Kernel | Linear = "rbf",
    tol: float = 1e-3,
    cache_size: float = 1000,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Bias of the plain SVM between every two classes, the first in sorted order being positive.

    Swapping the two classes of a pair flips the sign, so the orientation has to be fixed; it is
    LIBSVM's. All pairs share one kernel matrix.

    Parameters
    ----------
    X : array-like of shape (m, d)
    y : array-like of shape (m,)
    C, gamma, kernel, tol, cache_size, n_jobs
        As for :class:`openset.OneVsRestSVC`; C and gamma are the same for all pairs.

    Returns
    -------
    ndarray of shape (K * (K - 1) / 2,)
        In the order (0, 1), (0, 2), ..., (1, 2), ... of the sorted classes.

    Examples
    --------
    >>> from openset.svm import one_vs_one_bias
    >>> one_vs_one_bias([[0.0], [1.0]], ["a", "b"], C=10.0).round(6) + 0.0
    array([0.])
    """
    for name, value in {"C": C, "gamma": gamma}.items():
        if isinstance(value, dict):
            raise ValueError(f"{name} must be the same for all pairs of classes, got {value!r}.")
    model = OneVsRestSVC(C, gamma, kernel, tol=tol, cache_size=cache_size, n_jobs=n_jobs)
    model._validate_params()
    training = model.prepare(X, y, None, min_classes=2)
    pairs, m = list(combinations(range(len(model.classes_)), 2)), len(training.codes)
    step = max(1, _TOGETHER // m)
    describe = partial(_pairs, training.codes, pairs, C)
    chunks = [(k, k + step) for k in range(0, len(pairs), step)]
    batches = LazyBatches(describe, chunks, 4 * len(pairs) * m)
    width, settings = training.gamma[0], Settings(tol, cache_size=cache_size, n_jobs=n_jobs)
    found = solve_batches(training.X, training.kernel, [width], batches, settings)
    return np.array([solved.bias[0] for together in found for solved in together])


def _pairs(codes, pairs, C, start, stop):
    """The SVMs of some pairs; rows of the other classes get an empty box and take no part."""
    first, second = np.array(pairs[start:stop]).T[..., None]
    signs = (codes == first).astype(np.float64) - (codes == second)
    return batch_of(svm_problem(signs, np.full(len(codes), float(C)), 0.0), np.zeros(1))


# Decision values of training samples lie around -1 and 1; many thresholds, which cost nothing.
_THRESHOLDS = [k / 10 for k in range(-5, 10)] + [0.95, 0.99]


@with_parameters
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

    C: float | dict = 1.0
    threshold: float | dict = param(0.0, NUMBER, dict)
    gamma: float | str | dict = "scale"
    kernel: str | Kernel | Linear = "rbf"
    class_weight: str | dict | None = None
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    traits = machine_traits("SVM with threshold", condition="b_c < threshold for every class")
    problem_params = ("C", "threshold")
    # The thresholds are the values of a path: all of one machine come from one solution.
    search_spec = kernel_search(
        {"C": BOXES, "threshold": _THRESHOLDS}, engine=("gamma", "C", "threshold"), path="threshold"
    )

    def score_map(self, solved, **params):
        threshold = params["threshold"]
        return np.ones(len(threshold)), -threshold


@with_parameters
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

    C: float | dict = 1.0
    bias: float | dict = param(-0.1, Interval(Real, None, 0.0, closed="right"), dict)
    mode: str = param("fixed", StrOptions({"fixed", "artificial"}))
    gamma: float | str | dict = "scale"
    kernel: str | Kernel | Linear = "rbf"
    class_weight: str | dict | None = None
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    traits = machine_traits("SVM without bias", bounded=True, condition="the given bias is < 0")
    problem_params = ("C", "bias")
    search_spec = kernel_search(
        {"C": BOXES, "bias": [-0.01, -0.05, -0.1, -0.25, -0.5, -1.0]}, engine=("gamma", "C", "bias")
    )

    def problem(self, signs, weight, **params):
        problem = svm_problem(signs, params["C"] * weight, 0.0)
        trained_with = params["bias"] if self.mode == "fixed" else 0.0
        return fixed_bias_problem(problem, trained_with), np.zeros(1)

    def score_map(self, solved, **params):
        # The problem has no bias of its own.
        return np.ones(1), np.array([params["bias"]])


@with_parameters
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

    nu: float | dict = param(0.5, Interval(Real, 0.0, 1.0, closed="neither"), dict)
    gamma: float | str | dict = "scale"
    kernel: str | Kernel | Linear = "rbf"
    normalize: bool = False
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    traits = Traits("OCSVM", one_class=True, bounded=True)
    min_classes = 1
    own_samples_only = True
    problem_params = ("nu",)
    search_spec = kernel_search({"nu": _NUS}, engine=("gamma", "nu"), path="nu")

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


@with_parameters
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

    C: float | dict = 1.0
    nu: float | dict | None = param(None, Interval(Real, 0.0, 1.0, closed="right"), dict, None)
    gamma: float | str | dict = "scale"
    kernel: str | Kernel = "rbf"
    tol: float = 1e-3
    max_iter: int = -1
    cache_size: float = 1000
    n_jobs: int | None = None
    device: str = "cpu"
    verbose: int = 0
    unknown_label: Any = "auto"

    fitted_attributes = {**KernelMachineClassifier.fitted_attributes, "radius_": "K"}
    traits = Traits("SVDD", one_class=True, bounded=True)
    min_classes = 1
    own_samples_only = True
    problem_params = ("C", "nu")
    search_spec = kernel_search({"nu": _NUS}, engine=("gamma", "C", "nu"))

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
        # R^2 = 2 b + a.a, or 0 where the multipliers were given.
        given = _is_given(solved.problem)
        squared = 0.0 if given else 2.0 * solved.bias[0] + _squared_norm(solved)[0]
        return replace(machine, extra={"radius_": np.sqrt(max(0.0, squared))})


def _is_given(problem):
    """Whether all boxes are closed."""
    return np.array_equal(problem.lower, problem.upper)


def _squared_norm(solved):
    """a.a of the centre a, at each total."""
    return np.einsum("tm,tm->t", solved.beta, solved.problem.p - solved.v)
