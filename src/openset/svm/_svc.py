"""The plain SVM, one-vs-rest with rejection: the paper's first baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base import KernelMachineClassifier, Traits
from ..kernels import Kernel, Linear
from ._landmarks import LANDMARK_CONSTRAINTS, LandmarkTraining


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
