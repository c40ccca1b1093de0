"""Kernel values of one training set in float32, block by block, without losing them to rounding.

Expanding |x|^2 + |z|^2 - 2 x.z in float32 destroys small distances when the norms are large. So
dense data is centred first, and the arithmetic is float64 wherever the error bound for float32
exceeds what a kernel value may lose, or only the few values that lose it are computed again from
the differences. There are three layouts: direct differences for narrow data, matrix products for
wide data, sparse products for CSR.
"""

from __future__ import annotations

from copy import copy
from typing import Protocol

import numpy as np
from scipy import sparse

from ..kernels import RBF, Kernel, Linear
from ..utils.distances import (
    NARROW,
    center_of,
    direct_distances,
    expand_distances,
    padded_columns,
    recompute_close,
    squared_norms,
    with_sorted_indices,
)
from ._matmul import multiply, packed
from ._precision import exact_scaling, needs_differences, safe_dtype
from ._products import wide_points, write_distances, write_rbf
from ._row_maker import Points
from ._tuning import tuning


class KernelValues(Protocol):
    """Kernel values between the samples of one training set, at one gamma at a time.

    Attributes
    ----------
    n_rows : int
    diagonal : ndarray of shape (n_rows,), float32
    gamma : float
        Width of the kernel; 1 if it has none.
    narrow : bool
        Whether rows come from direct differences.
    points : Points or None
        The points, where compiled loops can make rows from them.
    """

    n_rows: int
    diagonal: np.ndarray
    gamma: float = 1.0
    narrow: bool = False
    points: Points | None = None

    @property
    def size(self) -> int:
        """Memory of wide points, which is part of the budget, in float32 numbers."""
        return 0

    @property
    def batch(self) -> int:
        """How many rows are best computed together."""
        return 1 if self.narrow else tuning().product_rows

    def use(self, gamma: float) -> None:
        """Change to another width."""
        ...

    def subset(self, index: np.ndarray) -> KernelValues:
        """The values between the samples `index` alone."""
        ...

    def exact_sums(self, beta: np.ndarray, error: float, index: np.ndarray) -> np.ndarray:
        """K[index] beta with at most this error, whatever the precision of the rows."""
        ...

    def __call__(self, index: np.ndarray, start: int, out: np.ndarray) -> None:
        """Write K[index, start : start + out.shape[1]] into `out`, float32."""
        ...

    def write(self, index: np.ndarray, rows: np.ndarray, slots: list[int]) -> None:
        """Write K[index] into ``rows[slots]``, float32."""
        if len(index) == 1:
            # In place: memory touched twice costs more than the arithmetic.
            self(index, 0, rows[slots[0] : slots[0] + 1])
        else:
            out = np.empty((len(index), rows.shape[1]), dtype=np.float32)
            self(index, 0, out)
            rows[slots] = out


def kernel_values(X, kernel: Kernel | Linear, gammas: np.ndarray) -> KernelValues:
    """The values of `kernel` between the rows of X, for these gammas; the first is in use."""
    if isinstance(kernel, Linear):
        return DotProducts(X)
    values = DistanceValues(X, kernel, gammas.max(), one_width=gammas.min() == gammas.max())
    values.use(gammas[0])
    return values


class DistanceValues(KernelValues):
    """Values of a decaying kernel.

    Distances are formed at the largest gamma, where rounding matters most, and scaled down.
    """

    def __init__(self, X, kernel: Kernel, largest: float, one_width: bool = False):
        self.n_rows, n_features = X.shape
        self._source = X
        self.kernel, self._largest = kernel, largest
        self.diagonal = np.ones(self.n_rows, dtype=np.float32)
        self._scale = scale = np.sqrt(largest)
        self._X = None  # the CSR points as they are, where small distances need their differences
        self._wide = None
        if sparse.issparse(X):
            with np.errstate(over="ignore"):
                self._Z = (X * scale).tocsr()
            self._norms = squared_norms(self._Z)
            if needs_differences(kernel, np.sqrt(2 * self._norms.max(initial=0.0))):
                self._X = with_sorted_indices(sparse.csr_array(X))
        else:
            with np.errstate(over="ignore"):
                Z = (X - center_of(X)) * scale
            norms = squared_norms(Z)
            self.narrow = n_features <= NARROW
            norm = np.sqrt(norms.max(initial=0.0))
            dtype = safe_dtype(kernel, norm, expanded=not self.narrow)
            if not self.narrow:
                self._wide = wide_points(X, Z, kernel, dtype, scale, one_width)
            else:
                if dtype is np.float64:
                    Z, self._largest = exact_scaling(X, largest)
                self._Z = np.ascontiguousarray(Z, dtype=dtype)
                self._columns = padded_columns(self._Z)
        self.use(largest)

    @property
    def size(self) -> int:
        return 0 if self._wide is None else self._wide.panels.nbytes // 4

    def use(self, gamma: float) -> None:
        self.gamma = gamma
        self.ratio = np.float32(gamma / self._largest)
        if self.narrow and type(self.kernel) is RBF:
            self.points = Points(self._Z, self._columns, self.ratio)

    def subset(self, index: np.ndarray) -> DistanceValues:
        part = copy(self)
        part.n_rows, part.diagonal = len(index), self.diagonal[index]
        part._source = None  # sums are wanted of all rows only
        if self._wide is not None:
            part._wide = self._wide.subset(index)
            return part
        part._Z = self._Z[index]
        if self.narrow:
            part._columns = padded_columns(part._Z)
        else:
            part._norms = self._norms[index]
        if self._X is not None:
            part._X = self._X[index]
        if self.points is not None:
            part.points = Points(part._Z, part._columns, self.ratio)
        return part

    def __call__(self, index: np.ndarray, start: int, out: np.ndarray) -> None:
        self.distances(index, start, out)
        if self.ratio != 1:
            with np.errstate(over="ignore"):
                out *= self.ratio
        self.kernel.value(out, out=out)

    def write(self, index: np.ndarray, rows: np.ndarray, slots: list[int]) -> None:
        if self._wide is not None and type(self.kernel) is RBF:
            write_rbf(self._wide, index, self.ratio, rows, slots)
        else:
            super().write(index, rows, slots)

    def exact_sums(self, beta: np.ndarray, error: float, index: np.ndarray) -> np.ndarray:
        from ._expansion import Expansion

        X, support = self._source, np.flatnonzero(beta)
        if support.size == 0:
            return np.zeros(len(index))
        coef = beta[None, support]
        expansion = Expansion(X[support], coef, self.kernel, np.array([self.gamma]), exact=True)
        step = tuning().points
        blocks = (X[index[k : k + step]] for k in range(0, len(index), step))
        return np.concatenate([expansion.sums_within(error, block) for block in blocks])[:, 0]

    def from_distances(self, distances: np.ndarray, out: np.ndarray) -> None:
        """Kernel values at this gamma from a block of :meth:`distances`."""
        with np.errstate(over="ignore"):
            np.multiply(distances, self.ratio, out=out)
        self.kernel.value(out, out=out)

    def distances(self, index: np.ndarray, start: int, out: np.ndarray) -> None:
        """Squared distances at the largest gamma in the place of kernel values."""
        if self.narrow:
            direct_distances(self._Z, self._columns, index, start, out)
        elif self._wide is not None:
            write_distances(self._wide, index, start, out)
        else:
            self._sparse_distances(index, start, out)

    def _sparse_distances(self, index, start, out):
        stop = start + out.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            dots = (self._Z[index] @ self._Z[start:stop].T).toarray()
        norms = self._norms[index], self._norms[start:stop]
        expand_distances(dots, *norms, out)
        if self._X is not None:
            recompute_close(out, *norms, self._X[index], self._X[start:stop], self._scale)
        # The distance of a point to itself must not be left to rounding.
        own = np.flatnonzero((index >= start) & (index < stop))
        out[own, index[own] - start] = 0.0


class DotProducts(KernelValues):
    """Values of the linear kernel, x.z; there is no width."""

    def __init__(self, X):
        self.n_rows, self._X = X.shape[0], X
        self._panels = None if sparse.issparse(X) else packed(X, np.float64)
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        self.diagonal = np.asarray(squares.sum(axis=1), dtype=np.float32).ravel()

    def use(self, gamma: float) -> None:
        """Do nothing."""

    def exact_sums(self, beta: np.ndarray, error: float, index: np.ndarray) -> np.ndarray:
        return self._X[index] @ (self._X.T @ beta)

    def subset(self, index: np.ndarray) -> DotProducts:
        return DotProducts(self._X[index])

    def __call__(self, index: np.ndarray, start: int, out: np.ndarray) -> None:
        stop = start + out.shape[1]
        if self._panels is None:
            out[...] = (self._X[index] @ self._X[start:stop].T).toarray()
            return
        width = self._panels.shape[2]
        first = start // width
        dots = multiply(self._X[index], self._panels[first : -(-stop // width)])
        out[...] = dots[:, start - first * width : stop - first * width]
