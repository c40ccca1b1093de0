"""Decision values of kernel expansions, for all classes at once and within bounded memory."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..kernels import Kernel, Linear
from ..utils import thread_map
from ._device import on_gpu
from ._geometry import (
    columns_of,
    direct_distances,
    expand_distances,
    needs_differences,
    safe_dtype,
)

# Test points and support vectors of one tile: a tile of kernel values stays in the second-level
# cache between the product that makes it and the product that uses it.
_POINTS = 256
_SUPPORT = 1024

# Scores this close to zero are computed again in float64, so that rounding never decides an
# answer and the certificate holds; beside it, the rounding error of the float32 sum itself.
_BAND = 1e-4
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
    """f_c(x) = sum_i coef[c, i] k(gamma[c] |x - s_i|^2) + bias[c].

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, d), float64
    support_vectors : ndarray or CSR matrix of shape (n_sv, d), float64
    coef : ndarray of shape (K, n_sv)
    bias, gamma : ndarray of shape (K,)
    kernel : Kernel or Linear
    n_jobs : int or None
    device : {"cpu", "cuda", "auto"}, default="cpu"

    Returns
    -------
    ndarray of shape (n, K)
    """
    if not kernel.decaying:
        weights = support_vectors.T @ coef.T
        return X @ weights + bias
    scores = np.empty((X.shape[0], len(bias)))
    gpu = on_gpu(device)
    if gpu:
        from ._cuda_expansion import CudaExpansion
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
            stop = min(X.shape[0], start + _POINTS)
            scores[start:stop, group] = expansion.evaluate(X[start:stop], bias[group])

        for _ in thread_map(evaluate, range(0, X.shape[0], _POINTS), n_jobs):
            pass
    return scores


class Expansion:
    """Kernel expansions of classes with one gamma."""

    def __init__(self, support_vectors, coef, kernel, gamma):
        self.kernel = kernel
        self.scale = np.sqrt(gamma)
        self._sparse = sparse.issparse(support_vectors)
        # Centring keeps the expanded distances accurate; it would fill a sparse matrix.
        self.center = 0.0 if self._sparse else support_vectors.mean(axis=0)
        self.support = self._scaled(support_vectors)
        self.norms = _squared_norms(self.support)
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
            self._fast_support = np.hstack(
                [-2 * self.support, self.norms[:, None], ones], dtype=dtype, casting="same_kind"
            )
        self._fast_coef = self.coef.astype(np.float32)
        self.band = _BAND + _ROUNDING * np.abs(coef).sum(axis=1)

    @property
    def by_products(self) -> bool:
        """Whether distances come from dense products: what the GPU does."""
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
        """Scaled test points, so far away at most that their squares do not overflow."""
        with np.errstate(over="ignore"):
            Z = self._scaled(X)
        values = Z.data if self._sparse else Z
        np.clip(values, -self.far, self.far, out=values)
        return Z

    def _fast_sum(self, Z):
        """Float32, with |z|^2 + |s|^2 - 2 z.s as one product of the extended points."""
        ones = np.ones((len(Z), 1))
        Z = np.hstack([Z, ones, _squared_norms(Z)[:, None]], dtype=np.float32, casting="same_kind")
        scores = np.zeros((len(Z), self.coef.shape[1]))
        # Cut from one buffer: fresh memory costs more than the arithmetic.
        memory = np.empty(len(Z) * _SUPPORT, dtype=np.float32)
        for start in range(0, len(self._fast_support), _SUPPORT):
            support = self._fast_support[start : start + _SUPPORT]
            s = memory[: len(Z) * len(support)].reshape(len(Z), len(support))
            np.matmul(Z, support.T, out=s)
            np.maximum(s, 0, out=s)
            scores += self.kernel.value(s, out=s) @ self._fast_coef[start : start + _SUPPORT]
        return scores

    def _sum(self, Z, coef):
        """Distances in float64; kernel values in the precision of `coef`."""
        norms = _squared_norms(Z)
        scores = np.zeros((Z.shape[0], coef.shape[1]))
        for start in range(0, self.support.shape[0], _SUPPORT):
            part = slice(start, start + _SUPPORT)
            support = self.support[part]
            s = np.empty((Z.shape[0], support.shape[0]), dtype=coef.dtype)
            if self._direct:
                everyone = np.arange(Z.shape[0])
                direct_distances(Z, columns_of(support), everyone, 0, support.shape[0], s)
            else:
                dots = Z @ support.T
                dots = dots.toarray() if self._sparse else dots
                expand_distances(dots, norms, self.norms[part], s)
            scores += self.kernel.value(s, out=s) @ coef[part]
        return scores


def _squared_norms(Z):
    if sparse.issparse(Z):
        return np.asarray(Z.multiply(Z).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", Z, Z)
