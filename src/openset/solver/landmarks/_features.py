"""Features of a landmark (Nyström) machine.

With landmarks z_1, ..., z_p and K_zz = L L', the feature vector of a sample is
psi(x) = L^-1 (k(z_1, x), ..., k(z_p, x)). A kernel machine whose expansion is restricted to the
landmarks is a linear machine in these features: f(x) = w' psi(x) + b, and its coefficients on the
landmarks are a = L'^-1 w.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.blas import strsm
from scipy.linalg.lapack import dpstrf

from ...utils.distances import (
    center_of,
    direct_distances,
    expand_distances,
    padded_columns,
    squared_norms,
)
from .._precision import needs_differences, safe_dtype

# A landmark whose feature-space distance to the span of the others is below the root of this adds
# nothing but rounding errors, and is dropped.
_NULL = 1e-5

# Norm beyond which every kernel value of a sample has vanished.
_FAR = 1e15

# Numbers per block of features: enough rows for fast products, and few blocks in flight.
_BLOCK = 2**22


class LandmarkFeatures:
    """The map psi from samples to the features of a landmark machine.

    Parameters
    ----------
    landmarks : ndarray or CSR matrix of shape (p, d), float64
        Distinct or not; those that the others represent are dropped.
    kernel : Kernel
        A decaying kernel.
    gamma : float
        Its width.

    Attributes
    ----------
    kept : ndarray of shape (r,)
        The landmarks in use, in the order of the features; r is the number of features.
    by_products : bool
        Whether distances may be computed from matrix products (in float64) and dense arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver.landmarks import LandmarkFeatures
    >>> Z = np.array([[0.0], [1.0], [1.0]])
    >>> features = LandmarkFeatures(Z, RBF(), 1.0)
    >>> psi = features(Z)
    >>> psi.shape
    (3, 2)
    >>> (psi @ psi.T).round(3)
    array([[1.   , 0.368, 0.368],
           [0.368, 1.   , 1.   ],
           [0.368, 1.   , 1.   ]], dtype=float32)
    """

    def __init__(self, landmarks, kernel: Any, gamma: float):
        self.kernel, self.scale = kernel, np.sqrt(gamma)
        self._sparse = sparse.issparse(landmarks)
        # Centring keeps expanded distances accurate; it would fill a sparse matrix.
        self.center = 0.0 if self._sparse else center_of(landmarks)
        self.support = self._scaled(landmarks)
        self.norms = squared_norms(self.support)
        largest = np.sqrt(2 * self.norms.max())
        self.far = max(_FAR, 1e3 * largest) / np.sqrt(landmarks.shape[1])
        direct = not self._sparse and needs_differences(kernel, largest)
        self.by_products = not self._sparse and not direct
        self._fast = not self._sparse and safe_dtype(kernel, largest, True) == np.float32
        gram = self._exact_values(self.support, np.float64)
        np.fill_diagonal(gram, 1.0)
        factor, pivots, rank, _ = dpstrf(gram, tol=_NULL, lower=1, overwrite_a=1)
        self.kept = pivots[:rank] - 1
        self.factor = np.asfortranarray(np.tril(factor[:rank, :rank]))
        self._single = np.asfortranarray(self.factor, dtype=np.float32)
        del gram, factor
        self.support, self.norms = self.support[self.kept], self.norms[self.kept]
        if self._fast:
            extended = [-2 * self.support, self.norms[:, None], np.ones((len(self.kept), 1))]
            self._fast_support = np.hstack(extended, dtype=np.float32, casting="same_kind")

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.kept)

    @property
    def block_rows(self) -> int:
        """Rows whose features fill a block."""
        return max(64, _BLOCK // self.n_features)

    def __call__(self, X) -> np.ndarray:
        """Features of samples.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d), float64

        Returns
        -------
        ndarray of shape (n, r), float32
        """
        return self.whiten(self.kernel_values(X))

    def in_blocks(self, X) -> np.ndarray:
        """Features of many samples, block by block.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d), float64

        Returns
        -------
        ndarray of shape (n, r), float32
        """
        step = self.block_rows
        return np.concatenate([self(X[k : k + step]) for k in range(0, X.shape[0], step)])

    def kernel_values(self, X) -> np.ndarray:
        """Kernel values of samples with the landmarks `kept`.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d), float64

        Returns
        -------
        ndarray of shape (n, r), float32
        """
        Z = self._clipped(X)
        if not self._fast:
            return self._exact_values(Z, np.float32)
        ones = np.ones((len(Z), 1))
        Z = np.hstack([Z, ones, squared_norms(Z)[:, None]], dtype=np.float32, casting="same_kind")
        values = Z @ self._fast_support.T
        np.maximum(values, 0, out=values)
        return self.kernel.value(values, out=values)

    def whiten(self, values: np.ndarray) -> np.ndarray:
        """Features from kernel values, which are overwritten.

        Parameters
        ----------
        values : ndarray of shape (n, r), float32

        Returns
        -------
        ndarray of shape (n, r), float32
        """
        # In place: the transpose of a C-ordered array is what LAPACK expects.
        return strsm(1.0, self._single, values.T, lower=1, overwrite_b=1).T

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """Coefficients on the landmarks `kept`.

        Parameters
        ----------
        w : ndarray of shape (K, r)
            Weights of the features.

        Returns
        -------
        ndarray of shape (K, r)
        """
        return solve_triangular(self.factor, w.T, lower=True, trans="T").T

    def _scaled(self, X):
        with np.errstate(over="ignore"):
            return (X * self.scale).tocsr() if self._sparse else (X - self.center) * self.scale

    def _clipped(self, X):
        """Scaled samples, so near that their squares do not overflow."""
        Z = self._scaled(X)
        values = Z.data if self._sparse else Z
        np.clip(values, -self.far, self.far, out=values)
        return Z

    def _exact_values(self, Z, dtype):
        """Kernel values from distances in float64."""
        s = np.empty((Z.shape[0], self.support.shape[0]), dtype=dtype)
        if not self.by_products and not self._sparse:
            direct_distances(Z, padded_columns(self.support), np.arange(len(Z)), 0, s)
        else:
            dots = Z @ self.support.T
            dots = dots.toarray() if sparse.issparse(dots) else dots
            expand_distances(dots, squared_norms(Z), self.norms, s)
        return self.kernel.value(s, out=s)
