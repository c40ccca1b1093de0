"""Biases of the plain SVM between pairs of classes."""

from __future__ import annotations

import threading
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..kernels import Kernel, Linear
from ..solver import kernel_rows, solve, svm_problem
from ..utils import thread_map
from ._svc import OneVsRestSVC


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
    pairs = list(combinations(range(len(model.classes_)), 2))
    width = training.gamma[0]
    rows = kernel_rows(training.X, training.kernel, width, cache_size, len(pairs), n_jobs)
    stop = threading.Event()
    boxes = np.full(len(training.codes), float(C))

    def bias(pair):
        # Rows of the other classes get an empty box and take no part.
        signs = (training.codes == pair[0]).astype(np.float64) - (training.codes == pair[1])
        return solve(svm_problem(signs, boxes, 0.0), rows, tol=tol, stop=stop).bias

    return np.array(list(thread_map(bias, pairs, n_jobs, stop)))
