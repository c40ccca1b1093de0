"""Signs of the bias between pairs of classes, for the paper's bias table."""

from __future__ import annotations

import threading
from itertools import combinations

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from ..kernels import get_kernel
from ..solver import KernelRows, solve, svm_problem
from ..solver._threads import thread_map


def one_vs_one_bias(
    X,
    y,
    *,
    C: float = 1.0,
    gamma: float = 1.0,
    kernel="rbf",
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
        As for :class:`openset.OneVsRestSVC`.

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
    for name, value in {"C": C, "gamma": gamma, "tol": tol, "cache_size": cache_size}.items():
        if not value > 0:
            raise ValueError(f"{name} must be > 0, got {name}={value!r}.")
    X, y = check_X_y(X, y, dtype=np.float64, accept_sparse="csr")
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"one_vs_one_bias needs at least 2 classes; y has {classes.tolist()!r}.")
    pairs = list(combinations(range(len(classes)), 2))
    rows = KernelRows(X, get_kernel(kernel), gamma, cache_size, len(pairs), n_jobs)
    boxes = np.full(len(codes), float(C))

    rows.stop = threading.Event()

    def bias(pair):
        # Rows of the other classes get an empty box and take no part.
        signs = (codes == pair[0]).astype(np.float64) - (codes == pair[1])
        return solve(svm_problem(signs, boxes, 0.0), rows, tol=tol).bias

    return np.array(list(thread_map(bias, pairs, n_jobs, rows.stop)))
