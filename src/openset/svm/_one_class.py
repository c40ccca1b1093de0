"""One-class SVM for each class: what none of them recognises is unknown."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval

from ..base import KernelMachineClassifier, Traits
from ..base.parameters import KERNEL_CONSTRAINTS, SOLVER_CONSTRAINTS, kernel_search
from ..kernels import Kernel, Linear
from ..solver import one_class_problem


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
        return problem, params["nu"] * problem.upper.sum()

    def score_map(self, path, **params):
        scale, shift = super().score_map(path)
        return (scale / -path.bias if self.normalize else scale), shift
