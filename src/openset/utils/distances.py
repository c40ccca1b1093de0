"""Distances between points: the one engine of the package.

Up to :data:`NARROW` features, squared distances are sums of squared differences: about as fast as a
matrix product, and exact for equal points. For more features they are expanded as
``|a|^2 + |b|^2 - 2 a.b``, one matrix product of centred points. What is small compared with the
norms has lost its digits in that sum, and is computed again from the differences. The loops work in
float32 or float64; which is accurate enough is for the caller to decide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from .compiled import FAST, njit

__all__ = [
    "BLOCK",
    "METRICS",
    "NARROW",
    "DistancesTo",
    "center_of",
    "direct_distances",
    "directions",
    "expand_distances",
    "padded_columns",
    "pair_distances",
    "point_distances",
    "recompute_close",
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

# An expanded square of at most this part of the norms is computed again from the differences; the
# relative error of the others is below 1e-11.
_CLOSE = 1e-4


def row_blocks(start: int, stop: int, width: int) -> Iterator[slice]:
    """Slices of the rows start, ..., stop - 1 whose distances to `width` points form a block."""
    step = max(1, BLOCK // max(width, 1))
    return (slice(i, min(i + step, stop)) for i in range(start, stop, step))


class DistancesTo:
    """Distances in float64 from any points to the rows of B.

    Equal points have distance exactly 0.

    Parameters
    ----------
    B : ndarray or CSR matrix of shape (m, d), float64
    metric : {"euclidean", "cosine"}
        "cosine" is one minus the cosine of the angle; a row of zeros has distance 1 to all. Only
        for dense points.
    """

    def __init__(self, B, metric: str):
        self.n_points, n_features = B.shape
        self._mean = np.zeros(n_features)
        if metric == "cosine":
            self._rounding = n_features * np.finfo(np.float64).eps
            self._B = directions(B)
            self._block = self._cosine
        elif sparse.issparse(B):
            self._B = self._points = with_sorted_indices(B)
            self._block = self._wide
        elif n_features <= NARROW:
            self._columns = padded_columns(B)
            self._block = self._narrow
        else:
            # The expansion loses digits in proportion to the norms: keep them small.
            self._points = np.ascontiguousarray(B)
            self._mean = center_of(B)
            with np.errstate(over="ignore"):
                self._B = B - self._mean
            self._block = self._wide
        if self._block == self._wide:
            self._norms = squared_norms(self._B)

    def __call__(self, A, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Distances from the rows of A to the rows start, ..., stop - 1 of B.

        Returns
        -------
        ndarray of shape (n, stop - start)
            inf where the square of a difference overflows; never NaN.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._block(A, start, self.n_points if stop is None else stop)

    def _narrow(self, A, start, stop):
        A = np.ascontiguousarray(A.toarray() if sparse.issparse(A) else A)
        squares = np.empty((len(A), stop - start))
        direct_distances(A, self._columns, np.arange(len(A)), start, squares)
        return np.sqrt(squares, out=squares)

    def _wide(self, A, start, stop):
        if sparse.issparse(self._B):
            A = Z = with_sorted_indices(sparse.csr_array(A))
            squares = (A @ self._B[start:stop].T).toarray()
        else:
            A = np.ascontiguousarray(A.toarray() if sparse.issparse(A) else A)
            Z = A - self._mean
            squares = Z @ self._B[start:stop].T
        norms = squared_norms(Z), self._norms[start:stop]
        expand_distances(squares, *norms, squares)
        recompute_close(squares, *norms, A, self._points[start:stop])
        return np.sqrt(squares, out=squares)

    def _cosine(self, A, start, stop):
        distances = 1.0 - directions(A) @ self._B[start:stop].T
        distances[distances <= self._rounding] = 0.0
        return distances


def squared_norms(Z) -> np.ndarray:
    """|z|^2 of each row of an array or CSR matrix; inf where it overflows."""
    with np.errstate(over="ignore"):
        if sparse.issparse(Z):
            return np.asarray(Z.multiply(Z).sum(axis=1)).ravel()
        return np.einsum("ij,ij->i", Z, Z)


def center_of(X: np.ndarray) -> np.ndarray:
    """Mean of the rows, or the first row in columns where the sum overflows."""
    with np.errstate(over="ignore"):
        mean = X.mean(axis=0)
    return np.where(np.isfinite(mean), mean, X[0])


def with_sorted_indices(X):
    """A CSR matrix as `pair_distances` needs it: sorted, without duplicates."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def recompute_close(squares, norms_i, norms_j, A, B, scale: float = 1.0) -> None:
    """Replace expanded squares that are small compared with the norms by exact ones.

    Parameters
    ----------
    squares : ndarray of shape (n, m), or with more columns, which stay as they are
        From :func:`expand_distances`; changed in place.
    norms_i, norms_j : ndarray of shapes (n,) and (m,)
        The norms that they were expanded from.
    A, B : ndarray or CSR matrix of shapes (n, d) and (m, d)
        The points, neither centred nor scaled; either both dense or both CSR.
    scale : float, default=1.0
        Factor of the points in `squares`.
    """
    if not sparse.issparse(A):
        _recompute_dense(squares, norms_i, norms_j, A, B, scale)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        limit = _CLOSE * (norms_i[:, None] + norms_j)
        rows, columns = np.nonzero(~((squares > limit) & (limit < np.inf)))
        if rows.size:
            squares[rows, columns] = pair_distances(A, B, rows, columns, scale)


def pair_distances(A, B, rows: np.ndarray, columns: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """``scale**2 |A[rows[k]] - B[columns[k]]|^2`` of each k, from the differences.

    Relative errors are of the order of rounding; inf where a square overflows.

    Parameters
    ----------
    A, B : ndarray or CSR matrix of shapes (n, d) and (m, d)
        Dense ones contiguous; CSR ones with sorted indices; of the same kind.
    rows, columns : ndarray of shape (p,)
    scale : float, default=1.0

    Returns
    -------
    ndarray of shape (p,)
    """
    out = np.empty(len(rows))
    if sparse.issparse(A):
        a, b = ((M.data, M.indices, M.indptr) for M in (A, B))
        _sparse_pairs(a, b, rows, columns, scale, out)
    else:
        _dense_pairs(A, B, rows, columns, scale, out)
    return out


@njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz", "reassoc"})
def scaled_square(a, b, scale):
    """Squared distance of two points, times the square of `scale`; compiled.

    Parameters
    ----------
    a, b : ndarray of shape (d,)
    scale : float

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from openset.utils.distances import scaled_square
    >>> scaled_square(np.array([0.0, 3.0]), np.array([4.0, 0.0]), 2.0)
    100.0
    """
    total = 0.0
    for f in range(a.size):
        difference = (a[f] - b[f]) * scale
        total += difference * difference
    return total


@njit(cache=True, nogil=True)
def _dense_pairs(A, B, rows, columns, scale, out):
    for k in range(rows.size):
        out[k] = scaled_square(A[rows[k]], B[columns[k]], scale)


@njit(cache=True, nogil=True)
def _recompute_dense(squares, norms_i, norms_j, A, B, scale):
    for k in range(squares.shape[0]):
        for t in range(norms_j.size):
            limit = _CLOSE * (norms_i[k] + norms_j[t])
            if not (squares[k, t] > limit and limit < np.inf):
                squares[k, t] = scaled_square(A[k], B[t], scale)


@njit(cache=True, nogil=True)
def _sparse_pairs(A, B, rows, columns, scale, out):
    """`_dense_pairs` for CSR matrices (data, indices, indptr): two sorted rows are merged."""
    a_data, a_index, a_start = A
    b_data, b_index, b_start = B
    for k in range(rows.size):
        i = a_start[rows[k]]
        i_end = a_start[rows[k] + 1]
        j = b_start[columns[k]]
        j_end = b_start[columns[k] + 1]
        total = 0.0
        while i < i_end or j < j_end:
            if j >= j_end or (i < i_end and a_index[i] < b_index[j]):
                difference = a_data[i]
                i += 1
            elif i >= i_end or b_index[j] < a_index[i]:
                difference = b_data[j]
                j += 1
            else:
                difference = a_data[i] - b_data[j]
                i += 1
                j += 1
            difference *= scale
            total += difference * difference
        out[k] = total


def directions(X: np.ndarray) -> np.ndarray:
    """Rows scaled to norm 1; rows of zeros stay."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1.0)  # so that no square over- or underflows
    norms = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
    return X / np.where(norms > 0, norms, 1.0)


def padded_columns(Z: np.ndarray) -> np.ndarray:
    """Z.T, padded with zeros to a multiple of four features, for the direct loops.

    The columns are contiguous because the loop over points is the one that is vectorised.
    """
    columns = np.zeros((-(-Z.shape[1] // 4) * 4, len(Z)), dtype=Z.dtype)
    columns[: Z.shape[1]] = Z.T
    return columns


@njit(cache=True, nogil=True, fastmath=FAST)
def _add_four_squares(target, columns, point):
    """Add the squared differences of four features; both arguments are tuples of four."""
    c0, c1, c2, c3 = columns
    z0, z1, z2, z3 = point
    for t in range(target.size):
        d0 = c0[t] - z0
        d1 = c1[t] - z1
        d2 = c2[t] - z2
        d3 = c3[t] - z3
        target[t] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3


@njit(cache=True, nogil=True)
def point_distances(z, columns, begin, target):
    """Squared distances from one padded point z to the points begin, begin + 1, ... of columns."""
    end = begin + target.size
    target[:] = 0.0
    for f in range(0, columns.shape[0], 4):
        _add_four_squares(
            target,
            (
                columns[f, begin:end],
                columns[f + 1, begin:end],
                columns[f + 2, begin:end],
                columns[f + 3, begin:end],
            ),
            (z[f], z[f + 1], z[f + 2], z[f + 3]),
        )


@njit(cache=True, nogil=True)
def direct_distances(Z, columns, index, start, out):
    """Squared distances from the rows `index` of Z to the points start, start + 1, ... of columns.

    `out` has shape (len(index), n); its width says how many points there are.
    """
    # A range of all columns stays in the cache while every row passes over it.
    width = max(64, 8192 // columns.shape[0] // 16 * 16)
    z = np.zeros((index.size, columns.shape[0]), dtype=Z.dtype)
    for k in range(index.size):
        z[k, : Z.shape[1]] = Z[index[k]]
    for begin in range(0, out.shape[1], width):
        for k in range(index.size):
            point_distances(z[k], columns, start + begin, out[k, begin : begin + width])


@njit(cache=True, nogil=True, fastmath=FAST)
def expand_distances(dots, norms_i, norms_j, out):
    """out[k, t] = norms_i[k] + norms_j[t] - 2 dots[k, t], formed in float64; never below 0.

    Where the sum of the norms overflows, the distance is inf.
    """
    for k in range(out.shape[0]):
        n = norms_i[k]
        row = dots[k]
        target = out[k]
        for t in range(norms_j.size):
            norms = n + norms_j[t]
            s = norms - 2.0 * row[t]
            s = s if s > 0.0 else 0.0
            target[t] = np.inf if norms == np.inf else s
