"""Scaled squared distances ``s = gamma * |x - z|**2`` in float32, without losing them to rounding.

Expanding |x|^2 + |z|^2 - 2 x.z in float32 destroys small distances when the norms are large, so
dense data is centred first, and the arithmetic is float64 wherever the error bound for float32
exceeds what a kernel value may lose. Three ways to the same numbers: direct differences for narrow
data, matrix products for wide data, sparse products for CSR.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numba import njit
from scipy import sparse

from ..kernels import Kernel

# Largest error of a kernel value that the arithmetic may cause, by direct differences and by
# products. A float32 kernel value carries a rounding error of 6e-8 anyway.
_DIRECT_ERROR = 1e-6
_PRODUCT_ERROR = 5e-6
_EPS = float(np.finfo(np.float32).eps) / 2

# Up to this many features direct differences beat a matrix product.
NARROW = 64

# Rows of a matrix product where a solver asks for some, and where a tile of a whole matrix is
# filled; always so many, padded with zeros, because BLAS may round differently for another shape
# and results must not depend on which rows were asked for together. Few for the solver: it often
# needs only one of them.
GEMM_ROWS = 16
_TILE_ROWS = 64


def safe_dtype(kernel: Kernel, norm: float, expanded: bool) -> type:
    """float32 where it is good enough for points of norm sqrt(gamma) * |x| <= `norm`."""
    error = _kernel_error(kernel, norm, expanded, _EPS)
    return np.float32 if error <= (_PRODUCT_ERROR if expanded else _DIRECT_ERROR) else np.float64


def needs_differences(kernel: Kernel, norm: float) -> bool:
    """Whether expanded distances are not good enough even in float64."""
    return _kernel_error(kernel, norm, True, float(np.finfo(np.float64).eps) / 2) > _DIRECT_ERROR


def _kernel_error(kernel, norm, expanded, eps):
    """Largest error of a kernel value for points of norm sqrt(gamma) * |x| <= `norm`.

    Expanding makes an error of up to 10 eps norm^2 in s (measured; the rounding of coordinates,
    products and their sum), direct differences one of 2 eps norm in sqrt(s). What that does to a
    kernel value is asked of the kernel: near zero some are much steeper than the RBF.
    """
    r = np.concatenate([[0.0], np.logspace(-6, 3, 300)])
    off = r**2 + 10 * eps * norm**2 if expanded else (r + 2 * eps * norm) ** 2
    return np.max(kernel.value(r**2) - kernel.value(off))


class Geometry:
    """Distances between the rows of one training set, at one gamma.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d), float64
    kernel : Kernel
        What the distances are for; decides how exact they have to be.
    gamma : float
        Scale of the squared distances.
    """

    distances = True

    def __init__(self, X, kernel: Kernel, gamma: float):
        self.n_rows, n_features = X.shape
        scale = np.sqrt(gamma)
        if sparse.issparse(X):
            self._Z = (X * scale).tocsr()
            self._norms = np.asarray(self._Z.multiply(self._Z).sum(axis=1)).ravel()
            self._block = Geometry._sparse_block
            return
        Z = (X - X.mean(axis=0)) * scale
        norms = np.einsum("ij,ij->i", Z, Z)
        narrow = n_features <= NARROW
        dtype = safe_dtype(kernel, np.sqrt(norms.max(initial=0.0)), expanded=not narrow)
        self._Z = np.ascontiguousarray(Z, dtype=dtype)
        if narrow:
            self._columns = columns_of(self._Z)
            self._block = Geometry._narrow_block
        else:
            self._norms = norms
            self._block = Geometry._wide_block

    def subset(self, index: np.ndarray) -> Geometry:
        """The same for the points `index` alone."""
        part = copy(self)
        part.n_rows = len(index)
        part._Z = self._Z[index]
        if part.points is None:
            part._norms = self._norms[index]
        else:
            part._columns = columns_of(part._Z)
        return part

    @property
    def points(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Arguments of :func:`direct_distances`, where that is the way."""
        return (self._Z, self._columns) if self._block is Geometry._narrow_block else None

    @property
    def batch(self) -> int:
        """How many rows are best computed together."""
        return GEMM_ROWS if self.points is None else 1

    def __call__(self, index: np.ndarray, start: int, stop: int, out: np.ndarray) -> None:
        """Write into `out`, float32 of shape (len(index), stop - start), a block of distances."""
        self._block(self, index, start, stop, out)

    # Each of the three writes into `out`, float32 of shape (len(index), stop - start), the scaled
    # squared distances from the points `index` to the points start, ..., stop - 1.

    def _narrow_block(self, index, start, stop, out):
        direct_distances(self._Z, self._columns, index, start, stop, out)

    def _wide_block(self, index, start, stop, out):
        Z = self._Z
        n = GEMM_ROWS if len(index) <= GEMM_ROWS else _TILE_ROWS
        padded = np.zeros((n, Z.shape[1]), dtype=Z.dtype)
        for k in range(0, len(index), n):
            part = index[k : k + n]
            padded[: len(part)] = Z[part]
            dots = padded @ Z[start:stop].T
            self._expand(dots, part, start, stop, out[k : k + len(part)])

    def _sparse_block(self, index, start, stop, out):
        dots = (self._Z[index] @ self._Z[start:stop].T).toarray()
        self._expand(dots, index, start, stop, out)

    def _expand(self, dots, index, start, stop, out):
        expand_distances(dots, self._norms[index], self._norms[start:stop], out)
        # The distance of a point to itself must not be left to rounding.
        own = np.flatnonzero((index >= start) & (index < stop))
        out[own, index[own] - start] = 0.0


class DotProducts:
    """The linear kernel in the place of a :class:`Geometry`: x.z instead of distances."""

    distances = False
    batch = GEMM_ROWS
    points = None

    def __init__(self, X):
        self.n_rows = X.shape[0]
        self._X = X

    def __call__(self, index, start, stop, out):
        dots = self._X[index] @ self._X[start:stop].T
        out[...] = dots.toarray() if sparse.issparse(dots) else dots

    def subset(self, index: np.ndarray) -> DotProducts:
        return DotProducts(self._X[index])

    def diagonal(self) -> np.ndarray:
        X = self._X
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        return np.asarray(squares.sum(axis=1), dtype=np.float32).ravel()


class MatrixPart:
    """Samples of a kernel matrix at hand in the place of a :class:`Geometry`: values to copy.

    Parameters
    ----------
    matrix : ndarray of shape (m, m), float32
    samples : ndarray of shape (n,), int64
    """

    distances = False
    batch = 1
    points = None

    def __init__(self, matrix: np.ndarray, samples: np.ndarray):
        self.matrix = matrix
        self.samples = samples
        self.n_rows = len(samples)

    def __call__(self, index, start, stop, out):
        out[...] = self.matrix[self.samples[index][:, None], self.samples[start:stop]]

    def subset(self, index: np.ndarray) -> MatrixPart:
        return MatrixPart(self.matrix, self.samples[index])


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def _add4(target, c0, z0, c1, z1, c2, z2, c3, z3):
    for t in range(target.size):
        d0 = c0[t] - z0
        d1 = c1[t] - z1
        d2 = c2[t] - z2
        d3 = c3[t] - z3
        target[t] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3


def columns_of(Z: np.ndarray) -> np.ndarray:
    """Z.T, padded with zeros to a multiple of four features, for `direct_distances`.

    Contiguous columns: the loop over points is the one to vectorise.
    """
    columns = np.zeros((-(-Z.shape[1] // 4) * 4, len(Z)), dtype=Z.dtype)
    columns[: Z.shape[1]] = Z.T
    return columns


@njit(cache=True, nogil=True)
def stretch_distances(z, columns, begin, end, target):
    """Sums of squared differences from one point, padded, to columns begin, ..., end - 1."""
    target[:] = 0.0
    for f in range(0, columns.shape[0], 4):
        _add4(
            target,
            columns[f, begin:end],
            z[f],
            columns[f + 1, begin:end],
            z[f + 1],
            columns[f + 2, begin:end],
            z[f + 2],
            columns[f + 3, begin:end],
            z[f + 3],
        )


@njit(cache=True, nogil=True)
def direct_distances(Z, columns, index, start, stop, out):
    """Sums of squared differences, from the rows `index` of Z to columns start, ..., stop - 1."""
    # A stretch of all columns stays in the cache while every row passes over it.
    width = max(64, 8192 // columns.shape[0] // 16 * 16)
    z = np.zeros((index.size, columns.shape[0]), dtype=Z.dtype)
    for k in range(index.size):
        z[k, : Z.shape[1]] = Z[index[k]]
    for begin in range(start, stop, width):
        end = min(stop, begin + width)
        for k in range(index.size):
            stretch_distances(z[k], columns, begin, end, out[k, begin - start : end - start])


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz"})
def expand_distances(dots, norms_i, norms_j, out):
    """out[k, t] = max(0, norms_i[k] + norms_j[t] - 2 dots[k, t]), formed in float64."""
    for k in range(out.shape[0]):
        n = norms_i[k]
        row = dots[k]
        target = out[k]
        for t in range(target.size):
            s = n + norms_j[t] - 2.0 * row[t]
            target[t] = s if s > 0.0 else 0.0
