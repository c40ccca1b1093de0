"""Decision values of kernel expansions, for all classes at once."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ..utils.distances import NARROW
from ._expansion import Expansion
from ._tuning import tuning
from .cuda import on_gpu


def decision_values(
    X,
    support_vectors,
    coef: np.ndarray,
    bias: np.ndarray,
    kernel: Kernel | Linear,
    gamma: np.ndarray,
    n_jobs: int | None = None,
    device: str = "cpu",
) -> np.ndarray:
    """Evaluate ``f_c(x) = sum_i coef[c, i] k(gamma[c] |x - s_i|^2) + bias[c]``.

    Kernel values are float32. Scores within :data:`EXACT_BAND` of zero are computed again in
    float64, so that rounding never decides whether a sample is accepted.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), float64
        The samples to score.
    support_vectors : ndarray or CSR matrix of shape (n_sv, d), float64
        Samples with a coefficient.
    coef : ndarray of shape (K, n_sv)
        Coefficients of each class.
    bias : ndarray of shape (K,)
        Bias of each class.
    kernel : Kernel or Linear
        The kernel.
    gamma : ndarray of shape (K,)
        Width of the kernel of each class.
    n_jobs : int or None, default=None
        Number of threads.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute.

    Returns
    -------
    ndarray of shape (n, K)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver import decision_values
    >>> coef, bias, gamma = np.array([[2.0]]), np.array([-1.0]), np.array([1.0])
    >>> X = np.array([[0.0], [1.0], [9.0]])
    >>> decision_values(X, X[:1], coef, bias, RBF(), gamma).round(3)
    array([[ 1.   ],
           [-0.264],
           [-1.   ]])
    """
    return DecisionValues(support_vectors, coef, kernel, gamma)(X, bias, n_jobs, device)


class DecisionValues:
    """Kernel expansions of all classes, prepared once for many calls; threads may share them.

    Parameters
    ----------
    support_vectors, coef, kernel, gamma
        As for :func:`decision_values`. The arrays must not change afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver import DecisionValues
    >>> f = DecisionValues(np.array([[0.0]]), np.array([[2.0]]), RBF(), np.array([1.0]))
    >>> f(np.array([[0.0], [9.0]]), bias=np.array([-1.0]))
    array([[ 1.],
           [-1.]])
    """

    def __init__(
        self, support_vectors, coef: np.ndarray, kernel: Kernel | Linear, gamma: np.ndarray
    ):
        self._weights = None
        self._expansions = []
        if isinstance(kernel, Linear):
            self._weights = support_vectors.T @ coef.T
            return
        # Classes of one gamma share their kernel values, and all share distances from products.
        wide = not sparse.issparse(support_vectors) and support_vectors.shape[1] > NARROW
        for value in gamma[:1] if wide else np.unique(gamma):
            group = np.arange(len(gamma)) if wide else np.flatnonzero(gamma == value)
            used = np.flatnonzero(coef[group].any(axis=0))
            if wide and np.ptp(gamma) > 0:  # support vectors of the same classes side by side
                used = used[np.lexsort(coef[:, used] != 0)]
            if used.size:
                # No copy where all are used.
                every = np.array_equal(used, np.arange(coef.shape[1]))
                part = support_vectors if every else support_vectors[used]
                own = coef[group] if every else coef[np.ix_(group, used)]
                self._expansions.append((group, Expansion(part, own, kernel, gamma[group])))

    def __call__(self, X, bias: np.ndarray, n_jobs: int | None = None, device: str = "cpu"):
        """Decision values of the rows of X, shape (n, K); see :func:`decision_values`."""
        if self._weights is not None:
            return X @ self._weights + bias
        n, step = X.shape[0], tuning().points
        scores = np.tile(bias.astype(np.float64), (n, 1))
        for group, expansion in self._expansions:
            if on_gpu(device) and expansion.by_products:
                from .cuda.points import CudaExpansion

                CudaExpansion(expansion).evaluate(X, bias[group], scores, group)
                continue

            def evaluate(start, expansion=expansion, group=group):
                stop = min(n, start + step)
                scores[start:stop, group] = expansion.evaluate(X[start:stop], bias[group])

            for _ in thread_map(evaluate, range(0, n, step), n_jobs):
                pass
        return scores
