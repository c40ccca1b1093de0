"""Support vector data description for each class: the smallest ball around its samples."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval

from ..base._classifier import Traits
from ..base._machines import Machine, train_one_class
from ..base._one_vs_rest import (
    BOX_RULES,
    KERNEL_RULES,
    PAPER_GAMMAS,
    SCALED_GAMMAS,
    SOLVER_RULES,
    OneVsRestSVM,
)
from ..solver import svdd_problem


class MulticlassSVDD(OneVsRestSVM):
    """One support vector data description (SVDD) a class: a ball around its samples.

    The ball lies in the feature space of the kernel and is as small as possible, at a price C for
    each unit that a sample lies outside. With a centre a_c and a radius R_c the score of a class is
    ``R_c^2 - |phi(x) - a_c|^2``; the class with the largest answers, if that is not negative. Every
    accepted region is bounded.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Price of samples outside. From 1 on no price is too high to pay: the ball holds all
        samples. At 1 / (number of samples) or below, the radius is zero.
    nu : float in (0, 1] or dict {class: float}, default=None
        The price as a fraction instead: C = 1 / (nu * number of samples), with about nu the
        fraction of samples outside. Takes the place of `C` where it is given.
    gamma : {"scale", "auto"} or float or dict {class: float}, default="scale"
        Width of the kernel: "scale" is 1 / (d * variance of X), "auto" 1 / d.
    kernel : str or Kernel, default="rbf"
        As for :class:`OpenSetSVC`.
    tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
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
        "C": BOX_RULES["C"],
        "nu": [Interval(Real, 0.0, 1.0, closed="right"), dict, None],
        **KERNEL_RULES,
        **SOLVER_RULES,
    }

    _traits = Traits("SVDD", one_class=True, bounded=True)
    _min_classes = 1
    _machine_params = ("C", "nu")
    _train = staticmethod(train_one_class)
    _default_grid = {"gamma": SCALED_GAMMAS, "nu": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]}
    _paper_grid = {"gamma": PAPER_GAMMAS}

    def __init__(
        self,
        C=1.0,
        nu=None,
        gamma="scale",
        kernel="rbf",
        tol=1e-3,
        max_iter=-1,
        cache_size=1000,
        n_jobs=None,
        device="cpu",
        verbose=0,
        unknown_label="auto",
    ):
        self.C = C
        self.nu = nu
        self.gamma = gamma
        self.kernel = kernel
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.unknown_label = unknown_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Samples on the sphere are accepted or not by what rounding makes of a zero.
        tags.classifier_tags.poor_score = True
        return tags

    def _check_kernel(self, kernel):
        if not kernel.decaying:
            raise ValueError(
                f"kernel={self.kernel!r} does not decay with distance, so it has no ball of its "
                "own around a class. Choose a decaying kernel such as 'rbf'."
            )

    def _problem(self, signs, weight, C, nu):
        member = signs > 0
        price = C if nu is None else 1.0 / (nu * weight[member].sum())
        return svdd_problem(member, price * weight, np.ones(len(signs))), np.ones(1)

    def _machine(self, path, rows, stop, C, nu):
        machine = Machine.of(path[0])
        offset = float(_offset(path)[0])
        radius = np.sqrt(max(0.0, 2 * offset + _squared_norm(path)[0]))
        return Machine.of(path[0], coef=2 * machine.coef, bias=2 * offset - 1.0, extra=radius)

    def _acceptance(self, path, C, nu):
        return 2 * (_offset(path)[:, None] - path.v)

    def _conclude(self, setup, extras):
        super()._conclude(setup, extras)
        self.radius_ = np.array(extras)


def _squared_norm(path):
    """a.a of the centre a, at each total."""
    return np.einsum("tm,tm->t", path.beta, path.problem.p - path.v)


def _offset(path):
    """(R^2 - a.a) / 2, so that the score is twice its excess over v = k(x, x) / 2 - phi(x).a.

    On the sphere the score is zero: the offset is the bias of the solver. Without an equality the
    multipliers were given, and R = 0.
    """
    return path.bias if path.problem.total is not None else -0.5 * _squared_norm(path)
