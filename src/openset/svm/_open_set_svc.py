"""The open-set support vector machine of the paper, one-vs-rest, and its path along lambda."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from ..base import KernelMachineClassifier, validate_samples
from ..base.machines import merge_copies, per_class, row_keys, solve_classes
from ..base.parameters import (
    BOXES,
    SCALED_GAMMAS,
    kernel_search,
    machine_traits,
    param,
    with_parameters,
)
from ..kernels import Kernel
from ..solver import Settings, decision_values, one_class_problem, svm_problem
from ..utils import chosen_width
from ._landmarks import LandmarkTraining

# lambda in the default search: dense where regions are still large.
_LAMBDAS = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6]


@with_parameters
class OpenSetSVC(KernelMachineClassifier):
    """Open-set support vector classifier (OSSVM) with provably bounded acceptance regions.

    One kernel machine per class against the rest. Its objective contains ``lambda * b``, which
    pushes the bias b down. With a kernel that decays with distance, b < 0 means that the class
    accepts a bounded region only. The answer for a sample that no class accepts is
    ``unknown_label_``.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    lam : float or dict {class: float}, default=0.0
        lambda as a fraction, in [0, 1), of the sum of the boxes of the positive samples (C times
        their number without weights). 0 is the plain SVM.
    gamma : {"scale", "auto"} or float or dict {class: float}, default="scale"
        Width of the kernel: "scale" is 1 / (d * variance of X), "auto" 1 / d.
    kernel : str or Kernel, default="rbf"
        "rbf", "t_student", "rational_quadratic", "inverse_multiquadric" or an instance of
        :class:`openset.kernels.Kernel`.
    ensure_bounded : bool, default=True
        Raise lambda of a class just enough that its bias is at most -tol. Such a value always
        exists when there are negatives, a second class or known unknowns; ``lam_`` is the one used.
    landmarks : int or array-like of shape (p, d), default=None
        None trains the exact machine. For many samples (from about 10^5), a number of training
        samples to draw, or points: then the expansion of each class uses these landmarks instead
        of support vectors. See Notes.
    class_weight : "balanced" or dict {class: float}, default=None
        Factor of C for the samples of a class. A dict may name the unknown label, too: known
        unknowns count as one more class.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    max_iter : int, default=-1
        Largest number of solver iterations per machine, -1 for no limit (10^7 with landmarks).
    cache_size : float, default=1000
        Memory for kernel rows, in MB.
    n_jobs : int, default=None
        Threads over classes; None is 1, -1 all cores. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where machines are trained and samples scored; "auto" takes a GPU if there is one. The
        answers agree within `tol`. A GPU needs the extra ``openset[cuda]``.
    random_state : int, RandomState instance or None, default=None
        Draws the landmarks.
    verbose : int, default=0
        If positive, print one line per class.
    unknown_label : "auto" or int, float, str, default="auto"
        The answer for unknown samples; "auto" is -1 for numbers and "unknown" for strings, or a
        similar label if that is a class. Training rows that carry an explicit label are known
        unknowns: negatives of every machine, and never a class.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The known classes, sorted.
    unknown_label_ : object
        The answer for a sample that no class accepts.
    n_known_unknowns_ : int
        Number of training rows that carry an explicit unknown label.
    bounded_ : ndarray of shape (K,), bool
        Whether the region that a class accepts is bounded.
    known_radius_ : ndarray of shape (K,)
        A certificate: a sample farther than this from every positive support vector of the class
        is rejected by the class. inf where the region is not bounded.
    support_, support_vectors_ : ndarray of shape (n_sv,), ndarray or CSR matrix of shape (n_sv, d)
        The support vectors of all classes, and their rows in the X of fit.
    dual_coef_, intercept_ : ndarray of shapes (K, n_sv) and (K,)
        y_i alpha_i, and the bias b, of each class.
    gamma_, lam_ : ndarray of shape (K,)
        Kernel width and effective lambda fraction of each class.
    dual_objective_, kkt_gap_, n_iter_ : ndarray of shape (K,)
        Objective, largest violation of the optimality conditions and iterations of each machine.
    n_features_in_, feature_names_in_ : int, ndarray of shape (d,)
        Number of features, and their names where X had string names.

    Notes
    -----
    With `landmarks`, the objective is the same, but f_c is an expansion on the landmarks alone
    [2]_. What is exact: far away f_c tends to its bias, so regions are bounded under the same
    condition, and ``known_radius_`` holds. What is approximate: the optimum is that of the landmark
    model, which approaches the exact one as landmarks are added. If the bias of a class would
    exceed -tol, ``ensure_bounded`` holds it there; ``lam_`` is the lambda that this amounts to,
    and may reach 1. ``support_vectors_`` are landmarks, ``support_`` their rows in X (-1 for points
    that were given), ``dual_coef_`` their coefficients, of either sign; ``explain`` refers to the
    nearest landmark. ``add_classes`` is not available: call ``fit``.

    References
    ----------
    .. [1] P. R. Mendes Júnior, T. E. Boult, J. Wainer, A. Rocha, "Open-Set Support Vector
       Machines", IEEE Transactions on Systems, Man, and Cybernetics: Systems 52(6), 2022.
    .. [2] C. Williams, M. Seeger, "Using the Nyström Method to Speed Up Kernel Machines",
       Advances in Neural Information Processing Systems 13, 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> model.predict([[0, 0.5], [5, 5.5], [20, -20]])
    array(['left', 'right', 'unknown'], dtype='<U7')
    >>> model.bounded_
    array([ True,  True])
    """

    C: float | dict = 1.0
    lam: float | dict = param(0.0, Interval(Real, 0.0, 1.0, closed="left"), dict)
    gamma: float | str | dict = "scale"
    kernel: str | Kernel = "rbf"
    ensure_bounded: bool = True
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

    traits = machine_traits(
        "OSSVM",
        bounded=True,
        condition="b_c < 0 for every class, which ensure_bounded=True brings about",
    )
    fitted_attributes = {**KernelMachineClassifier.fitted_attributes, "lam_": "K"}
    min_classes = 1
    problem_params = ("C", "lam")
    search_spec = kernel_search(
        {"gamma": SCALED_GAMMAS[1:-1], "C": BOXES, "lam": _LAMBDAS},
        engine=("gamma", "C", "lam"),
        path="lam",
        bounded_switch="ensure_bounded",
    )

    @property
    def strategy(self):
        return None if self.landmarks is None else LandmarkTraining(self)

    def add_classes(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> OpenSetSVC:
        """Learn new classes in addition to the present ones: a fit to all data, old and new.

        The kernel width does not follow the new data: gamma="scale" and "auto" keep the value
        ``gamma_`` they had. Parameters given as a dict have to name the new classes, too; call
        ``set_params`` first.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
            All samples, old and new, in any order. They may include new samples of old classes; an
            old sample may be missing only if it is not a support vector.
        y : array-like of shape (m,)
            Their classes. Known unknowns of the first fit may have become a class, all or some.
        sample_weight : array-like of shape (m,), default=None
            As for :meth:`fit`.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset import OpenSetSVC
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OpenSetSVC(gamma=0.5).fit(X, y)
        >>> X, y = [*X, [0, 9], [1, 9]], [*y, "above", "above"]
        >>> model.add_classes(X, y).predict([[0, 0.5], [0.5, 9]])
        array(['left', 'above'], dtype='<U7')
        """
        self._validate_params()
        validate_samples(self, X, accept_sparse="csr")
        if self.landmarks is not None:
            raise ValueError(
                "add_classes checks that all support vectors are in X, and a model with landmarks "
                "does not keep them. Call fit with all data."
            )
        self.check_no_class_lost(y)
        grown = clone(self).set_params(**chosen_width(self))
        training = merge_copies(grown.prepare(X, y, sample_weight, self.min_classes))
        self.check_no_class_lost(grown.classes_.tolist())  # for want of weight
        missing = np.isin(row_keys(self.support_vectors_), row_keys(training.X), invert=True).sum()
        if missing:
            raise ValueError(
                f"{missing} of the {len(self.support_)} support vectors of the model are not in "
                "X: add_classes takes all data, old and new, scaled as before. Use fit otherwise."
            )
        grown.fit_machines(training)
        self.__dict__.update(vars(grown) | self.get_params(deep=False))
        return self

    def check_kernel(self, kernel):
        if not kernel.decaying:
            raise ValueError(
                f"kernel={self.kernel!r} does not decay with distance, so no region can be "
                "bounded. Choose a decaying kernel such as 'rbf', or OneVsRestSVC."
            )
        alone = len(self.classes_) == 1 and self.n_known_unknowns_ == 0
        if alone and per_class(self, "lam", self.lam)[0] == 0:
            raise ValueError(
                "lam=0 is not defined for a training set of one class "
                f"({self.classes_.tolist()!r}): without negatives lam is the fraction of samples "
                "that may be left outside. Choose lam in (0, 1), or add rows of known unknowns."
            )

    def problem(self, signs, weight, **params):
        boxes = params["C"] * weight
        if np.any(signs < 0):
            problem = svm_problem(signs, boxes, 0.0)
        else:
            problem = one_class_problem(signs > 0, 0.0, boxes)
        return problem, params["lam"] * problem.upper.sum(axis=-1, keepdims=True)

    @property
    def largest_bias(self):
        return -self.tol if self.ensure_bounded else None

    def finish_machine(self, machine, solved, **params):
        return replace(machine, extra=max(float(params["lam"][0]), _held_lam(solved)))

    def finish_model(self, training, extras):
        super().finish_model(training, extras)
        self.lam_ = np.array(extras)


def _held_lam(solved):
    """The smallest lambda whose bias is allowed, where a larger bias is held; else 0."""
    if solved.held is None:
        return 0.0
    return max(0.0, float(solved.held.beta.sum() / solved.problem.upper.sum()))


@dataclass(frozen=True)
class LambdaPath:
    """Bias, objective and size of every machine as functions of lambda.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The known classes, sorted.
    lams : ndarray of shape (T,)
        Fractions of the sum of the positive boxes.
    bias, objective : ndarray of shape (K, T)
        Bias b and dual objective of each class at each lambda.
    bounded : ndarray of shape (K, T), bool
        b < 0.
    n_support : ndarray of shape (K, T), int
        Number of support vectors.
    smallest_bounding : ndarray of shape (K,)
        Smallest lambda at which b = -tol; 0 where the plain SVM is bounded already.
    scores : ndarray of shape (K, T, n) or None
        Decision values of the validation samples.
    """

    classes: np.ndarray
    lams: np.ndarray
    bias: np.ndarray
    objective: np.ndarray
    bounded: np.ndarray
    n_support: np.ndarray
    smallest_bounding: np.ndarray
    scores: np.ndarray | None


def _checked_lams(lams: ArrayLike) -> np.ndarray:
    lams = np.asarray(lams, dtype=np.float64)
    if lams.ndim != 1 or lams.size == 0 or not np.all(np.diff(lams) > 0):
        raise ValueError(f"lams must be a list of increasing numbers, got {lams!r}.")
    if not (lams[0] >= 0 and lams[-1] < 1):
        raise ValueError(f"lams must lie in [0, 1), got values from {lams[0]:g} to {lams[-1]:g}.")
    return lams


def lambda_path(
    X: Any,
    y: ArrayLike,
    *,
    lams: ArrayLike | None = None,
    X_validation: Any = None,
    C: float | dict = 1.0,
    gamma: float | str | dict = "scale",
    kernel: str | Kernel = "rbf",
    sample_weight: ArrayLike | None = None,
    tol: float = 1e-3,
    cache_size: float = 1000,
    n_jobs: int | None = None,
) -> LambdaPath:
    """Follow every class of an OpenSetSVC along lambda.

    The bias of a class never rises with lambda; where it crosses zero, the region that the class
    accepts becomes bounded.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (m, d)
    y : array-like of shape (m,)
        At least two classes.
    lams : array-like of shape (T,), default=None
        Increasing fractions in [0, 1); None is the paper's 0, 0.05, ..., 0.95.
    X_validation : array-like or CSR matrix of shape (n, d), default=None
        Samples whose decision values are wanted along the path.
    C, gamma, kernel, sample_weight, tol, cache_size, n_jobs
        As for :class:`openset.OpenSetSVC`.

    Returns
    -------
    LambdaPath

    Examples
    --------
    >>> from openset.svm import lambda_path
    >>> X = [[-2.0], [-1.5], [1.5], [2.0], [0.0], [0.3]]
    >>> path = lambda_path(X, ["out"] * 4 + ["in"] * 2, lams=[0, 0.25, 0.5], gamma=1.0, tol=1e-6)
    >>> path.bias[1].round(4)
    array([ 0.4014,  0.0572, -0.279 ])
    >>> path.bounded[1]
    array([False, False,  True])
    """
    given = _checked_lams(np.arange(20) * 0.05 if lams is None else lams)
    model = OpenSetSVC(
        C=C, gamma=gamma, kernel=kernel, tol=tol, cache_size=cache_size, n_jobs=n_jobs
    )
    model._validate_params()
    training = model.prepare(X, y, sample_weight, min_classes=2)
    if X_validation is not None:
        X_validation = validate_samples(model, X_validation, accept_sparse="csr")
    # Zero first: below the smallest lambda that bounds a class there is one that does not, or 0.
    followed = np.union1d([0.0], given)
    wanted = slice(len(followed) - len(given), None)
    training = replace(training, params=[own | {"lam": followed} for own in training.params])
    settings = Settings(tol, cache_size=cache_size, n_jobs=n_jobs)
    paths: list[Any] = [None] * len(model.classes_)
    for together in solve_classes(training, model.problem, settings, largest_bias=-tol):
        for c, solved, _ in together:
            beta, bias, values = solved.beta[wanted], solved.bias[wanted], None
            if X_validation is not None:
                used = np.flatnonzero(beta.any(axis=0))
                expansion = training.X[used], beta[:, used], bias, training.kernel
                gammas = np.full(len(given), training.gamma[c])
                values = decision_values(X_validation, *expansion, gammas, n_jobs=n_jobs).T
            size = np.count_nonzero(beta, axis=1)
            paths[c] = bias, solved.objective[wanted], bias < 0, size, _held_lam(solved), values
    arrays: list[Any] = [np.array(values) for values in zip(*paths, strict=True)]
    if X_validation is None:
        arrays[-1] = None
    return LambdaPath(model.classes_, given, *arrays)
