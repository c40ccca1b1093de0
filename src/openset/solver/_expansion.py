"""Decision values of kernel expansions, for all classes at once and within bounded memory."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ..utils.distances import direct_distances, expand_distances, padded_columns
from ._kernel_values import needs_differences, safe_dtype, squared_norms
from ._tuning import tuning
from .cuda import on_gpu

# Scores this close to zero are computed again in float64, so that rounding never decides an
# answer and the certificate holds. The rounding error of the float32 sum itself is added to it.
EXACT_BAND = 1e-4
_ROUNDING = 4e-7

# Norm of a test point at which every kernel value has vanished for good.
_FAR = 1e15


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
    if isinstance(kernel, Linear):
        weights = support_vectors.T @ coef.T
        return X @ weights + bias
    scores = np.empty((X.shape[0], len(bias)))
    gpu, step = on_gpu(device), tuning().points
    if gpu:
        from .cuda.expansion import CudaExpansion
    # Classes of one gamma share their kernel values.
    for value in np.unique(gamma):
        group = np.flatnonzero(gamma == value)
        used = np.flatnonzero(coef[group].any(axis=0))
        if used.size == 0:
            scores[:, group] = bias[group]
            continue
        expansion = Expansion(support_vectors[used], coef[np.ix_(group, used)], kernel, value)
        if gpu and expansion.by_products:
            CudaExpansion(expansion).evaluate(X, bias[group], scores, group)
            continue

        def evaluate(start, expansion=expansion, group=group):
            stop = min(X.shape[0], start + step)
            scores[start:stop, group] = expansion.evaluate(X[start:stop], bias[group])

        for _ in thread_map(evaluate, range(0, X.shape[0], step), n_jobs):
            pass
    return scores


class Expansion:
    """Kernel expansions of classes with one gamma.

    Parameters
    ----------
    support_vectors : ndarray or CSR matrix of shape (n_sv, d)
    coef : ndarray of shape (K, n_sv)
    kernel : Kernel
    gamma : float
    """

    def __init__(self, support_vectors, coef: np.ndarray, kernel: Kernel, gamma: float):
        self.kernel = kernel
        self.scale = np.sqrt(gamma)
        self._sparse = sparse.issparse(support_vectors)
        # Centring keeps the expanded distances accurate; it would fill a sparse matrix.
        self.center = 0.0 if self._sparse else support_vectors.mean(axis=0)
        self.support = self._scaled(support_vectors)
        self.norms = squared_norms(self.support)
        largest = self.norms.max()
        self.far = max(_FAR, 1e3 * np.sqrt(largest)) / np.sqrt(support_vectors.shape[1])
        # Clusters that lie far apart for their gamma, or a kernel that is steep near zero.
        self._direct = not self._sparse and needs_differences(kernel, np.sqrt(2 * largest))
        self.coef = np.ascontiguousarray(coef.T)
        # The product below rounds the norms too, hence the factor.
        dtype = safe_dtype(kernel, np.sqrt(2 * largest), expanded=True)
        self.fast = dtype == np.float32 and not self._sparse
        if self.fast:
            ones = np.ones((len(self.norms), 1))
            extended = np.hstack([-2 * self.support, self.norms[:, None], ones])
            self._fast_support = extended.astype(np.float32)
        self._fast_coef = self.coef.astype(np.float32)
        self.band = EXACT_BAND + _ROUNDING * np.abs(coef).sum(axis=1)

    @property
    def by_products(self) -> bool:
        """Whether distances come from dense products, the only way on the GPU."""
        return not (self._sparse or self._direct)

    def evaluate(self, X, bias):
        Z = self._prepare(X)
        if self.fast:
            scores = self._fast_sum(Z) + bias
        else:
            scores = self._sum(Z, self._fast_coef) + bias
        close = np.flatnonzero((np.abs(scores) <= self.band).any(axis=1))
        if close.size:
            scores[close] = self._sum(Z[close], self.coef) + bias
        return scores

    def _scaled(self, X):
        return (X * self.scale).tocsr() if self._sparse else (X - self.center) * self.scale

    def _prepare(self, X):
        """Scaled test points, clipped so that their squares do not overflow."""
        with np.errstate(over="ignore"):
            Z = self._scaled(X)
        values = Z.data if self._sparse else Z
        np.clip(values, -self.far, self.far, out=values)
        return Z

    def _fast_sum(self, Z):
        """Float32, with |z|^2 + |s|^2 - 2 z.s as one product of the extended points."""
        ones = np.ones((len(Z), 1))
        Z = np.hstack([Z, ones, squared_norms(Z)[:, None]], dtype=np.float32, casting="same_kind")
        scores = np.zeros((len(Z), self.coef.shape[1]))
        step = tuning().support
        # One buffer for all tiles: fresh memory costs more than the arithmetic.
        memory = np.empty(len(Z) * step, dtype=np.float32)
        for start in range(0, len(self._fast_support), step):
            support = self._fast_support[start : start + step]
            s = memory[: len(Z) * len(support)].reshape(len(Z), len(support))
            np.matmul(Z, support.T, out=s)
            np.maximum(s, 0, out=s)
            scores += self.kernel.value(s, out=s) @ self._fast_coef[start : start + step]
        return scores

    def _sum(self, Z, coef):
        """Distances in float64; kernel values in the precision of `coef`."""
        norms, everyone, step = squared_norms(Z), np.arange(Z.shape[0]), tuning().support
        scores = np.zeros((Z.shape[0], coef.shape[1]))
        for start in range(0, self.support.shape[0], step):
            part = slice(start, start + step)
            support = self.support[part]
            s = np.empty((Z.shape[0], support.shape[0]), dtype=coef.dtype)
            if self._direct:
                direct_distances(Z, padded_columns(support), everyone, 0, s)
            else:
                dots = Z @ support.T
                dots = dots.toarray() if self._sparse else dots
                expand_distances(dots, norms, self.norms[part], 0.0, s)
            scores += self.kernel.value(s, out=s) @ coef[part]
        return scores
