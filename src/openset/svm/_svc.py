"""The plain SVM: one-vs-rest with rejection, the paper's first baseline, and one-vs-one."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base import KernelMachineClassifier, Traits
from ..base.machines import batch_of
from ..kernels import Kernel, Linear
from ..solver import LazyBatches, Settings, solve_batches, svm_problem
from ._landmarks import LANDMARK_CONSTRAINTS, LandmarkTraining

# Multipliers of the pairs that are described together.
_TOGETHER = 2**21


class OneVsRestSVC(KernelMachineClassifier):
    """Support vector classifier, one-vs-rest, that rejects what no class accepts.

    The plain SVM (``OpenSetSVC`` with lambda = 0) without any guarantee: a class whose bias is not
    negative accepts everything far away, and ``bounded_`` says so.

    Parameters
    ----------
    C : float or dict {class: float}, default=1.0
        Upper bound of the multipliers.
    gamma, kernel
        As for :class:`OpenSetSVC`; kernel may also be "linear", which is never bounded.
    landmarks
        As for :class:`OpenSetSVC`; the kernel has to decay then.
    class_weight, tol, max_iter, cache_size, n_jobs, device, random_state, verbose, unknown_label
        As for :class:`OpenSetSVC`.

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

    _parameter_constraints: dict = {
        **KernelMachineClassifier._parameter_constraints,
        **LANDMARK_CONSTRAINTS,
    }
    traits = Traits(
        "SVM", condition="b_c < 0 for every class", known_unknowns="negatives of every machine"
    )

    def __init__(
        self,
        C: float | dict = 1.0,
        gamma: float | str | dict = "scale",
        kernel: str | Kernel | Linear = "rbf",
        landmarks: int | ArrayLike | None = None,
        class_weight: str | dict | None = None,
        tol: float = 1e-3,
        max_iter: int = -1,
        cache_size: float = 1000,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        unknown_label: Any = "auto",
    ):
        super().__init__(
            gamma, kernel, tol, max_iter, cache_size, n_jobs, device, verbose, unknown_label
        )
        self.C = C
        self.landmarks = landmarks
        self.class_weight = class_weight
        self.random_state = random_state

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
