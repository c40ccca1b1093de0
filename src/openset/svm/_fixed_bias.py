"""SVM without a bias of its own: the bias is given, and negative."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..base._classifier import Traits
from ..base._machines import Machine
from ..base._one_vs_rest import BOXES, PAPER_GAMMAS, SCALED_GAMMAS, OneVsRestSVM
from ..solver import fixed_bias_problem, svm_problem

_BIASES = [-0.01, -0.05, -0.1, -0.25, -0.5, -1.0]


class FixedBiasSVC(OneVsRestSVM):
    """Support vector classifier, one-vs-rest, whose bias is chosen, not trained.

    With a kernel that decays with distance f_c tends to the bias far away from all samples. So a
    negative bias bounds every accepted region, whatever the data; which one is right is left to
    validation. Without a bias to train, the multipliers need no common sum, and the problem is
    solved one multiplier at a time.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    bias : float <= 0 or dict {class: float}, default=-0.1
        The bias b. With 0 nothing is guaranteed.
    mode : {"fixed", "artificial"}, default="fixed"
        "fixed": the machine is trained with the bias, to make up for it. "artificial": it is
        trained without, and the bias added afterwards.
    gamma : {"scale", "auto"} or float or dict {class: float}, default="scale"
        Width of the kernel: "scale" is 1 / (d * variance of X), "auto" 1 / d.
    kernel : str or Kernel or Linear, default="rbf"
        As for :class:`OpenSetSVC`, and "linear", which is never bounded.
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
    Transactions on Systems, Man, and Cybernetics: Systems, 2021 (as future work).

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
        **OneVsRestSVM._parameter_constraints,
        "bias": [Interval(Real, None, 0.0, closed="right"), dict],
        "mode": [StrOptions({"fixed", "artificial"})],
    }

    _traits = Traits("SVM without bias", bounded=True, condition="the given bias is < 0")
    _machine_params = ("C", "bias")
    _default_grid = {"C": BOXES, "gamma": SCALED_GAMMAS, "bias": _BIASES}
    _paper_grid = {"gamma": PAPER_GAMMAS, "bias": _BIASES}

    def __init__(
        self,
        C=1.0,
        bias=-0.1,
        mode="fixed",
        gamma="scale",
        kernel="rbf",
        class_weight=None,
        tol=1e-3,
        max_iter=-1,
        cache_size=1000,
        n_jobs=None,
        device="cpu",
        verbose=0,
        unknown_label="auto",
    ):
        self.C = C
        self.bias = bias
        self.mode = mode
        self.gamma = gamma
        self.kernel = kernel
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.unknown_label = unknown_label

    def _problem(self, signs, weight, C, bias):
        problem = svm_problem(signs, C * weight, 0.0)
        trained_with = bias if self.mode == "fixed" else 0.0
        return fixed_bias_problem(problem, trained_with), np.zeros(1)

    def _machine(self, path, rows, stop, C, bias):
        return Machine.of(path[0], bias=float(bias))

    def _acceptance(self, path, C, bias):
        return path.scores + bias  # the problem has none of its own
