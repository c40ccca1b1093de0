"""Points of one layout and one precision, and squared distances to them.

This is the only place that expands distances, and the only one that bounds their errors.

* Narrow data, up to :data:`NARROW` features: sums of squared differences, about as fast as a matrix
  product, and exact for equal points.
* Wide data: ``|a|^2 + |b|^2 - 2 a.b``, one matrix product of centred points. A square that is small
  compared with the norms has lost its digits, and is computed again from the differences.
* CSR matrices: the same from sparse products, without centring, which would fill the matrix.

A square depends on its own two points only, not on the points that it is computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy

import numpy as np
from scipy import sparse

from ..kernels import RBF, Kernel, Linear
from ..utils import thread_map
from ._matmul import multiply, packed, rows_of, rows_of_packed
from ._squares import (
    Narrow,
    Queries,
    Wide,
    direct_distances,
    scaled_square,
    sparse_pairs,
    write_products,
)

__all__ = [
    "BLOCK",
    "METRICS",
    "NARROW",
    "DistancesTo",
    "Points",
    "center_of",
    "directions",
    "in_layout",
    "left_factor",
    "right_factor",
    "row_blocks",
    "scaled_square",
    "squared_norms",
    "with_sorted_indices",
]

METRICS = ("cosine", "euclidean")

# Largest number of features for which direct differences are used.
NARROW = 64

# Distances per block: enough rows for a fast matrix product, and only 8 MB.
BLOCK = 2**20

# Largest coordinate of scaled points in float64.
LARGEST = 1e300

# --- error bounds ---------------------------------------------------------------------------------

# Largest error of a kernel value that the arithmetic may cause, by direct differences and by
# products. A float32 kernel value carries a rounding error of 6e-8 anyway.
_DIRECT_ERROR = 1e-6
PRODUCT_ERROR = 5e-6
_EPS = float(np.finfo(np.float32).eps) / 2

# A square of float64 products of at most this part of a norm is computed from the differences; the
# relative error of the others is below 1e-11.
_CLOSE = 2e-4
# Largest part of all pairs for which computing them again is cheaper than products in float64.
_FEW = 0.01

# Distances at which kernels are compared.
_RADII = np.concatenate([[0.0], np.logspace(-6, 3, 300)])


def _kernel_error(kernel: Kernel, norm: float, expanded: bool, eps: float) -> float:
    """Largest error of a kernel value for points of norm sqrt(gamma) * |x| <= `norm`."""
    # Expanding makes an error of up to 10 eps norm^2 in s (measured; from rounding coordinates,
    # products and their sum), direct differences one of 2 eps norm in sqrt(s). The effect on a
    # kernel value depends on the kernel: near zero some are much steeper than the RBF.
    r = _RADII
    with np.errstate(over="ignore"):
        off = r**2 + 10 * eps * norm**2 if expanded else (r + 2 * eps * norm) ** 2
    return float(np.max(kernel.value(r**2) - kernel.value(off)))


def fits_single(kernel: Kernel, norm: float, expanded: bool) -> bool:
    """Whether float32 is accurate enough for points of norm sqrt(gamma) * |x| <= `norm`."""
    allowed = PRODUCT_ERROR if expanded else _DIRECT_ERROR
    return _kernel_error(kernel, norm, expanded, _EPS) <= allowed


def needs_differences(kernel: Kernel, norm: float) -> bool:
    """Whether expanded distances are too inaccurate even in float64, see `fits_single`."""
    eps = float(np.finfo(np.float64).eps) / 2
    return not _kernel_error(kernel, norm, True, eps) <= _DIRECT_ERROR


def _limits_of_single(norms: np.ndarray, one_width: bool) -> np.ndarray:
    """Squared distances up to which products in float32 are too inaccurate for the RBF."""
    # An error d of s changes exp(-s) by d exp(-s), which matters for small s only. At r times the
    # width both are r times as large; d / e over the error allowed is enough for every r.
    error = 20 * _EPS * norms
    if not one_width:
        return (error / (PRODUCT_ERROR * np.e) + error).astype(np.float32)
    with np.errstate(divide="ignore"):
        return (np.log(error / PRODUCT_ERROR) + error).astype(np.float32)


def _few_are_close(Z, norms: np.ndarray, kernel: Kernel, one_width: bool) -> bool:
    """Whether products in float32 are accurate for all but few pairs of the points Z."""
    if type(kernel) is not RBF or not 20 * _EPS * norms.max(initial=0.0) < 1:
        return False
    limits = _limits_of_single(norms, one_width)
    i, j = (np.arange(0, len(Z), -(-len(Z) // n)) for n in (64, 1024))
    squares = left_factor(Z[i]) @ right_factor(Z[j]).T
    close = (squares <= np.maximum(limits[i, None], limits[j])) & (i[:, None] != j)
    return bool(np.mean(close) <= _FEW)


def _exact_scaling(X: np.ndarray, scale: float) -> np.ndarray:
    """Points for direct differences in float64: neither centred nor rounded."""
    # The factor is a power of two near `scale`, so that every digit of X is kept, also of small
    # numbers among huge ones.
    with np.errstate(over="ignore"):
        # No infinities, whose difference would be NaN.
        return np.clip(X * _power_of_two(scale), -LARGEST, LARGEST)


def _power_of_two(scale):
    return 2.0 ** min(round(np.log2(scale)), 511)


# --- points ---------------------------------------------------------------------------------------


class Points:
    """Points (m, d), and squared distances to them, times the square of the factor `scale`."""

    # The factor is the root of the largest gamma, where rounding matters most. With a kernel, the
    # fastest arithmetic is chosen that is accurate enough for it, at `one_width` or at smaller ones
    # too; None: every square in float64, with a relative error below 1e-11. `center` (d,) is zero
    # for CSR; `norms` (m,) are squared norms, centred and scaled; `dtype` is the precision of the
    # coordinates, `unit` the factor from raw squares to squares, see `_exact_scaling`. The layout
    # is `is_sparse`, `narrow`, or wide if neither. The linear kernel has no squares, only products.

    def __init__(self, X, scale=1.0, kernel: Kernel | Linear | None = None, one_width: bool = True):
        self.n_points, n_features = X.shape
        self.scale, self.is_sparse = float(scale), sparse.issparse(X)
        self._linear = isinstance(kernel, Linear)
        self.narrow = not (self.is_sparse or self._linear) and n_features <= NARROW
        self.unit = 1.0
        if self.is_sparse:
            self.X = with_sorted_indices(sparse.csr_array(X))
            self.center = np.zeros(n_features)
        else:
            self.X = np.ascontiguousarray(X, dtype=X.dtype if self._linear else np.float64)
            self.center = center_of(self.X)
        Z = self.X if self._linear else self.scaled(self.X)
        self.norms = squared_norms(Z)
        self.dtype, self._limits = self._arithmetic(Z, kernel, one_width)
        if self.narrow and self.dtype is np.float64:
            Z = _exact_scaling(self.X, self.scale)
            self.unit = (self.scale / _power_of_two(self.scale)) ** 2
        self._store(Z)

    def _arithmetic(self, Z, kernel, one_width) -> tuple[type, str]:
        """The precision of scaled points, and which squares of wide ones are computed again."""
        # None, or those that are too inaccurate in float32 or in float64.
        norm = np.sqrt(self.norms.max(initial=0.0))
        if kernel is None:
            return np.float64, "float64"
        if self._linear:
            return np.float64, ""
        if not self.is_sparse:
            if fits_single(kernel, norm, expanded=not self.narrow):
                return np.float32, ""
            if not self.narrow and _few_are_close(Z, self.norms, kernel, one_width):
                return np.float32, "one width" if one_width else "float32"
        return np.float64, "float64" if needs_differences(kernel, np.sqrt(2) * norm) else ""

    def _store(self, Z):
        """Arrange scaled points for the loops."""
        if self.narrow:
            Z = np.ascontiguousarray(Z, dtype=self.dtype)
            self._direct = Narrow(Z, padded_columns(Z), np.float32(self.unit))
            return
        self._Z, close = Z, self._close(self.norms)
        if not self.is_sparse:
            X, self._Z = self.X if close.size else _NO_POINTS, None
            self._wide = Wide(packed(Z, self.dtype), self.norms, close, X, self.scale)

    def _close(self, norms):
        """Up to which square of each point squares are computed again; or empty."""
        if not self._limits:
            return np.empty(0, dtype=self.dtype)
        if self._limits == "float64":
            with np.errstate(over="ignore"):
                return _CLOSE * norms
        return _limits_of_single(norms, self._limits == "one width")

    def scaled(self, A):
        """Other points (n, d) in the units of these: centred if dense, and scaled."""
        with np.errstate(over="ignore"):
            if self.is_sparse:
                return (A * self.scale).tocsr()
            return (A - self.center) * self.scale

    @property
    def size(self) -> int:
        """Memory of wide points, in float32 numbers."""
        return 0 if self.narrow or self.is_sparse or self._linear else self._wide.panels.nbytes // 4

    def narrow_at(self, ratio: float) -> Narrow:
        """Narrow points for compiled loops, whose squares are wanted times `ratio`."""
        return self._direct._replace(ratio=np.float32(self.unit * ratio))

    def subset(self, index: np.ndarray) -> Points:
        """The points `index` alone; X is left out where it is not needed."""
        part, own = copy(self), self.own(index)
        part.n_points, part.norms, part.X = len(index), self.norms[index], own.X
        part._store(own.Z[: len(index)])
        return part

    def own(self, index: np.ndarray) -> Queries:
        """Some of these points as queries."""
        if self.narrow:
            return Queries(self._direct.Z[index], _NONE, _NONE, None, index)
        norms = self.norms[index]
        close = self._close(norms)
        Z = self._Z[index] if self.is_sparse else rows_of_packed(self._wide.panels, index)
        return Queries(Z, norms, close, self.X[index] if close.size else _NO_POINTS, index)

    def queries(self, A, Z: np.ndarray | None = None) -> Queries:
        """Any points (n, d) as queries; Z are the same, scaled, if they are there already."""
        index = np.full(A.shape[0], -1)
        A = in_layout(A, self.is_sparse)
        A = with_sorted_indices(A) if self.is_sparse else np.ascontiguousarray(A)
        if self.narrow and self.dtype is np.float64:
            Z = _exact_scaling(A, self.scale)
        Z = self.scaled(A) if Z is None else Z
        if self.narrow:
            return Queries(np.ascontiguousarray(Z, self.dtype), _NONE, _NONE, None, index)
        norms = squared_norms(Z)
        close = self._close(norms)
        Z = Z if self.is_sparse else rows_of(Z, self._wide.panels)
        return Queries(Z, norms, close, A if close.size or self.is_sparse else _NO_POINTS, index)

    def squares(self, queries: Queries, start: int, out: np.ndarray) -> None:
        """Write squares from the queries to the points start, start + 1, ... into `out` (n, p)."""
        self.raw_squares(queries, start, out)
        if self.unit != 1.0:
            with np.errstate(over="ignore"):
                out *= out.dtype.type(self.unit)

    def raw_squares(self, queries: Queries, start: int, out: np.ndarray) -> None:
        """`squares` divided by `unit`, as compiled loops see them."""
        if self.narrow:
            direct_distances(queries.Z, self._direct.columns, start, out)
        elif self.is_sparse:
            self._sparse_squares(queries, start, out)
        else:
            slots = np.arange(len(queries.same))
            write_products(self._wide, queries, start, np.float32(1.0), False, out, slots)

    def kernel_values(self, kernel, ratio, queries, start, rows, slots=slice(None)) -> None:
        """``rows[slots] = k(ratio * squares)`` at the points start, start + 1, ..."""
        n = len(queries.same)
        if self._linear:
            rows[slots] = self._products(queries, start, start + rows.shape[1])[:n]
            return
        if type(kernel) is RBF and rows.dtype == np.float32 and not (self.narrow or self.is_sparse):
            index = np.arange(len(rows))[slots]
            write_products(self._wide, queries, start, np.float32(ratio), True, rows, index)
            return
        if n == 1 and not isinstance(slots, slice):
            # In place: memory touched twice costs more than the arithmetic.
            slots = slice(slots[0], slots[0] + 1)
        in_place = isinstance(slots, slice)
        out = rows[slots] if in_place else np.empty((n, rows.shape[1]), dtype=rows.dtype)
        self.raw_squares(queries, start, out)
        # The same single rounding as in compiled loops, see `narrow_at`.
        scale_into_kernel(kernel, self.unit * ratio, out, out)
        if not in_place:
            rows[slots] = out

    def _products(self, queries, start, stop):
        if self.is_sparse:
            return (queries.Z @ self._Z[start:stop].T).toarray()
        panels, width = self._wide.panels, self._wide.panels.shape[2]
        first = start // width
        dots = multiply(queries.Z, panels[first : -(-stop // width)])
        return dots[:, start - first * width : stop - first * width]

    def _sparse_squares(self, queries, start, out):
        stop = start + out.shape[1]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self._products(queries, start, stop)
            both = queries.norms[:, None] + self.norms[start:stop]
            # Where the norms overflow, so may the product.
            squares = np.where(both == np.inf, np.inf, np.maximum(both - 2.0 * squares, 0.0))
            if queries.close.size:
                limits = self._close(self.norms[start:stop])
                limits = np.maximum(queries.close[:, None], limits)
                rows, columns = np.nonzero(squares <= limits)
                if rows.size:
                    a, b = ((M.data, M.indices, M.indptr) for M in (queries.X, self.X))
                    pairs = np.empty(len(rows))
                    sparse_pairs(a, b, rows, columns + start, self.scale, pairs)
                    squares[rows, columns] = pairs
            # The distance of a point to itself must not be left to rounding.
            own = np.flatnonzero((queries.same >= start) & (queries.same < stop))
            squares[own, queries.same[own] - start] = 0.0
            out[...] = squares


_NONE, _NO_POINTS = np.empty(0), np.empty((0, 0))


def scale_into_kernel(kernel: Kernel, ratio, squares: np.ndarray, out: np.ndarray) -> None:
    """``out = k(ratio * squares)``; `out` may be `squares`."""
    if ratio != 1 or out is not squares:
        with np.errstate(over="ignore"):
            np.multiply(squares, squares.dtype.type(ratio), out=out)
    kernel.value(out, out=out)


def padded_columns(Z: np.ndarray) -> np.ndarray:
    """Z.T, contiguous, padded with zeros to a multiple of four features, for the direct loops."""
    columns = np.zeros((-(-Z.shape[1] // 4) * 4, len(Z)), dtype=Z.dtype)
    columns[: Z.shape[1]] = Z.T
    return columns


def squared_norms(Z) -> np.ndarray:
    """|z|^2 of each row of an array (NumPy or CuPy) or CSR matrix; inf where it overflows."""
    with np.errstate(over="ignore"):
        if sparse.issparse(Z):
            return np.asarray(Z.multiply(Z).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", Z, Z) if isinstance(Z, np.ndarray) else (Z * Z).sum(axis=1)


def left_factor(Z, dtype: type = np.float64, xp=np, norms=None):
    """(z, 1, |z|^2) of shape (n, d + 2): times a `right_factor`, squared distances, all at once."""
    norms = squared_norms(Z) if norms is None else norms
    out = xp.empty((Z.shape[0], Z.shape[1] + 2), dtype=dtype)
    out[:, :-2], out[:, -2], out[:, -1] = Z, 1.0, norms
    return out


def right_factor(Z, dtype: type = np.float64, xp=np, less=0.0):
    """(-2 z, |z|^2 - less, 1) of shape (m, d + 2), see `left_factor`."""
    out = xp.empty((Z.shape[0], Z.shape[1] + 2), dtype=dtype)
    out[:, :-2], out[:, -2], out[:, -1] = -2.0 * Z, squared_norms(Z) - less, 1.0
    return out


def center_of(X: np.ndarray) -> np.ndarray:
    """Mean of the rows, or the first row in columns where the sum overflows."""
    if not len(X):
        return np.zeros(X.shape[1])
    with np.errstate(over="ignore"):
        mean = X.mean(axis=0)
    return np.where(np.isfinite(mean), mean, X[0])


def in_layout(A, is_sparse: bool):
    """A matrix as CSR, or as an array."""
    if is_sparse:
        return sparse.csr_array(A)
    return A.toarray() if sparse.issparse(A) else A


def with_sorted_indices(X):
    """A CSR matrix, sorted and without duplicates; a copy if it is not so already."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def directions(X: np.ndarray) -> np.ndarray:
    """Rows scaled to norm 1; rows of zeros stay."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1.0)  # so that no square over- or underflows
    norms = np.sqrt(squared_norms(X))[:, None]
    return X / np.where(norms > 0, norms, 1.0)


def row_blocks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Slices of the rows start, ..., stop - 1 whose distances to `width` points form a block."""
    step = max(1, BLOCK // max(width, 1))
    return (slice(i, min(i + step, stop)) for i in range(start, stop, step))


class DistancesTo:
    """Distances in float64 to the rows of B (m, d), 0 for equal points; cosine for dense ones."""

    # Cosine distances are one minus the cosine; a row of zeros has distance 1 to all.

    def __init__(self, B, metric: str):
        self.n_points, n_features = B.shape
        self._rounding = n_features * np.finfo(np.float64).eps
        self._to: Points | np.ndarray = directions(B) if metric == "cosine" else Points(B)

    def __call__(self, A, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Distances from the rows of A to the rows start, ..., stop - 1 of B, (n, stop - start)."""
        # inf where the square of a difference overflows; never NaN.
        stop = self.n_points if stop is None else stop
        if isinstance(self._to, np.ndarray):
            distances = 1.0 - directions(A) @ self._to[start:stop].T
            distances[distances <= self._rounding] = 0.0
            return distances
        squares = np.empty((A.shape[0], stop - start))
        self._to.squares(self._to.queries(A), start, squares)
        return np.sqrt(squares, out=squares)

    def reduced(self, A, reduce: Callable, n_jobs: int | None = None) -> np.ndarray:
        """``reduce(distances)`` of the rows of A (n, d), block by block; the first axis is n."""
        # Without any rows there is still one block, which tells the shape.
        blocks = (A[rows] for rows in row_blocks(0, max(1, A.shape[0]), self.n_points))
        parts = thread_map(lambda block: reduce(self(block)), blocks, n_jobs)
        return np.concatenate(list(parts))
