"""Kernel expansions of several classes: sums over support vectors, in bounded memory."""

from __future__ import annotations

import threading

import numpy as np
from scipy import sparse

from ..kernels import RBF, Kernel
from ..utils.distances import (
    BLOCK,
    NARROW,
    center_of,
    direct_distances,
    expand_distances,
    padded_columns,
    pair_distances,
    recompute_close,
    squared_norms,
    with_sorted_indices,
)
from ._gaussian_sums import gaussian_coefficients, gaussian_sums
from ._matmul import multiply, packed, products, rows_of
from ._precision import (
    LARGEST,
    exact_scaling,
    needs_differences,
    product_error,
    safe_dtype,
)
from ._products import close_limits, few_are_close, replace_close
from ._tuning import tuning

# Scores this close to zero are computed again in float64, so that rounding never decides an
# answer and the certificate holds. The rounding error of the float32 sum itself is added to it.
EXACT_BAND = 1e-4
_ROUNDING = 4e-7

# Largest error of a sum in float32, and at how many support vectors it is measured.
_SUM_ERROR = 8e-6
_LOOK = 32

# Norm of a scaled test point up to which float32 products do not overflow. Farther points are
# clipped if every kernel value has vanished there, else they are computed from the differences.
_FAR = 1e15


class Expansion:
    """Kernel expansions of classes that share their distances.

    Parameters
    ----------
    support_vectors : ndarray or CSR matrix of shape (n_sv, d)
    coef : ndarray of shape (K, n_sv)
    kernel : Kernel
    gamma : ndarray of shape (K,)
        Widths; several for dense points of more than ``NARROW`` features only. Distances are
        formed at the largest, where rounding matters most.
    exact : bool, default=False
        Form all sums in float64.
    """

    # Factor from the squared distances of the prepared points to s.
    _ratio = np.float32(1.0)

    def __init__(
        self,
        support_vectors,
        coef: np.ndarray,
        kernel: Kernel,
        gamma: np.ndarray,
        exact: bool = False,
    ):
        self.kernel, self.coef = kernel, coef
        largest = gamma.max()
        self.scale = np.sqrt(largest)
        # Classes by width, as a part of the largest.
        self.widths = [(g / largest, np.flatnonzero(gamma == g)) for g in np.unique(gamma)]
        n_features = support_vectors.shape[1]
        self._sparse = sparse.issparse(support_vectors)
        if self._sparse:
            self.points = with_sorted_indices(sparse.csr_array(support_vectors))
            self.center = np.zeros(n_features)  # centring would fill a sparse matrix
        else:
            self.points = np.ascontiguousarray(support_vectors)
            self.center = center_of(self.points)
        support = self.scaled(self.points)
        self._norms = squared_norms(support)
        self._largest = np.sqrt(2 * self._norms.max())
        # Clusters that lie far apart for their gamma, or a kernel that is steep near zero.
        self._inexact = exact or needs_differences(kernel, self._largest)
        self.fast = (
            not self._sparse and safe_dtype(kernel, self._largest, expanded=True) == np.float32
        )
        self.band = EXACT_BAND + _ROUNDING * np.abs(coef).sum(axis=1)
        self.far = self._limit = _FAR / np.sqrt(n_features)
        self._narrow = not self._sparse and n_features <= NARROW
        self._product_error = 0.0 if self._narrow else product_error(kernel, self._largest)
        self._close = None  # limits of the support vectors, see `close_limits`
        if not (exact or self.fast or self._sparse or self._narrow):
            if few_are_close(support, self._norms, kernel, len(self.widths) == 1):
                self._close = close_limits(self._norms, len(self.widths) == 1)
        # Precision of kernel values and of sums: the first that is enough.
        for values, sums in ((np.float32, np.float32), (np.float32, np.float64)):
            if not exact and (sums is np.float32 or self._single):
                self._prepare(support, largest, values, sums)
                if self._error() <= _SUM_ERROR:
                    return
        self.fast, self._close = False, None
        self._prepare(support, largest, np.float64, np.float64)
        self.band = np.minimum(self.band, self._product_error * np.abs(coef).sum(axis=1))

    @property
    def _single(self):
        """Whether distances come from products in float32."""
        return not self._narrow and (self.fast or self._close is not None)

    def _prepare(self, support, gamma, dtype, sums):
        """Choose how sums are formed, with kernel values in `dtype`, coefficients in `sums`."""
        self._dtype = dtype
        if self._narrow:
            self._prepare_differences(support, gamma)
        elif self._single:
            # |z|^2 + |s|^2 - 2 z.s as one product of points with two more coordinates.
            extended = [-2 * support, self._norms[:, None], np.ones((len(support), 1))]
            self._support = packed(np.hstack(extended), np.float32)
        else:
            self._support = support if self._sparse else packed(support, np.float64)
        gaussian = self._narrow and type(self.kernel) is RBF and dtype is np.float32
        self._sums = self._gaussian_sums if gaussian else self._tile_sums
        if gaussian:
            self._coef = gaussian_coefficients(self.coef, sums)
        else:
            self._tiles = list(self._split(sums))

    def _prepare_differences(self, support, gamma):
        single = safe_dtype(self.kernel, self._largest, expanded=False) == np.float32
        if single and self._dtype == np.float32:
            support = support.astype(np.float32)
        else:
            support, square = exact_scaling(self.points, gamma)
            self._ratio, self._limit = self._dtype(gamma / square), LARGEST
            self._factor = np.sqrt(square)
        self._support = padded_columns(support)

    def _split(self, dtype):
        """Yield tiles of support vectors, with the coefficients of each width in panels.

        Yields start, size and a list of (ratio, classes, part of the tile, panels).
        """
        # The points of the last panel are followed by zeros, and have the coefficient 0.
        n = self.coef.shape[1]
        width = 1 if self._sparse or self._narrow else self._support.shape[2]
        for start in range(0, n, tuning().support):
            size = -(-min(tuning().support, n - start) // width) * width
            coef = np.zeros((len(self.coef), size))
            used = self.coef[:, start : start + size]
            coef[:, : used.shape[1]] = used
            groups = []
            for ratio, own in self.widths:
                used = np.flatnonzero(coef[own].any(axis=0))
                if used.size:
                    part = slice(used[0], used[-1] + 1) if len(self.widths) > 1 else slice(size)
                    groups.append((ratio, own, part, packed(coef[own, part], dtype)))
            yield start, size, groups

    def _error(self):
        """Largest error of the sums at some support vectors; many kernel values near 1 add up."""
        some = self.points[:: -(-self.points.shape[0] // _LOOK)]
        return np.abs(self.sums(some) - self.exact(some)).max()

    @property
    def by_products(self) -> bool:
        """Whether distances may come from dense products, the only way on the GPU."""
        return not (self._sparse or self._inexact)

    def scaled(self, X):
        """Points in the units of the kernel; centred if they are dense."""
        with np.errstate(over="ignore"):
            if self._sparse:
                return (X * self.scale).tocsr()
            return np.ascontiguousarray((X - self.center) * self.scale)

    def evaluate(self, X, bias: np.ndarray) -> np.ndarray:
        """Decision values of a block of points, shape (n, K)."""
        Z, beyond = self._scaled_and_clipped(X)
        scores = self._sums(Z, X) + bias
        self._correct(scores, X, bias, beyond)
        return scores

    def sums(self, X) -> np.ndarray:
        """Decision values without the bias, as precise as they are prepared."""
        Z, beyond = self._scaled_and_clipped(X)
        sums = self._sums(Z, X)
        if beyond.any():
            sums[beyond] = self.exact(X[beyond])
        return sums

    def sums_within(self, error: float, X) -> np.ndarray:
        """Sums with at most this error: if products are not precise enough, by differences."""
        safe = self._product_error * np.abs(self.coef).sum() <= error
        return self.sums(X) if safe else self.exact(X)

    def _scaled_and_clipped(self, X):
        with np.errstate(over="ignore"):
            Z = X * self._factor if self._limit == LARGEST else self.scaled(X)
        beyond = self.beyond(Z, self._limit)
        values = Z.data if self._sparse else Z
        np.clip(values, -self._limit, self._limit, out=values)
        return Z, beyond

    def _correct(self, scores, X, bias, beyond):
        """Compute scores near zero again in float64, and whole rows that are `beyond`."""
        close = np.abs(scores) <= self.band
        whole = beyond | (close.sum(axis=1) > max(1, close.shape[1] // 8))
        rows = np.flatnonzero(whole)
        if rows.size:
            scores[rows] = self.exact(X[rows]) + bias
        close[whole] = False
        for c in np.flatnonzero(close.any(axis=0)):
            rows = np.flatnonzero(close[:, c])
            scores[rows, c] = self.exact(X[rows], c)[:, 0] + bias[c]

    def beyond(self, Z, limit):
        """Which scaled points may not be clipped at the limit: kernel values are left there."""
        largest = abs(Z).max(axis=1)
        far = (largest.toarray().ravel() if self._sparse else largest) > limit
        if not far.any():
            return far
        with np.errstate(over="ignore"):
            nearest = np.array([max(limit - np.sqrt(self._norms.max()), 0.0) ** 2])
        return far & (self.kernel.value(nearest)[0] > 0.0)

    def exact(self, X, c: int | None = None) -> np.ndarray:
        """Sums of class c, or of all, in float64, from distances with errors below 1e-11."""
        coef = self.coef if c is None else self.coef[[c]]
        support = np.flatnonzero(coef.any(axis=0))
        widths = [(r, np.arange(1)) for r, own in self.widths if c in own] or self.widths
        columns = [packed(coef[np.ix_(own, support)], np.float64) for _, own in widths]
        distances = self._exact_distances(support)
        sums = np.zeros((X.shape[0], len(coef)))
        step = max(1, BLOCK // max(1, len(support)))
        for start in range(0, X.shape[0], step):
            s = distances(X[start : start + step])
            for (ratio, own), panels in zip(widths, columns, strict=True):
                values = multiply(self.kernel.value(ratio * s), panels)
                sums[start : start + step, own] = values[:, : len(own)]
        return sums

    def _gaussian_sums(self, Z, X):
        sums = np.zeros((len(Z), len(self.coef)))
        Z = np.ascontiguousarray(Z, dtype=self._support.dtype)
        gaussian_sums(Z, self._support, self._ratio, self._coef, sums)
        return sums

    def _tile_sums(self, Z, X):
        """Sums over tiles of support vectors, in the precision of the coefficients.

        Every tile has the same support vectors for all points, so that the score of a point does
        not depend on the points that it comes with.
        """
        n = Z.shape[0]
        distances = self._distances(Z, X)
        sums = np.zeros((n, len(self.coef)))
        for start, size, groups in self._tiles:
            s = distances(start, size)
            for ratio, own, part, panels in groups:
                k = s if len(self.widths) == 1 else s[:, part] * self._dtype(ratio)
                sums[:, own] += multiply(self.kernel.value(k, out=k), panels)[:, : len(own)]
        return sums

    def _distances(self, Z, X):
        """A function that gives scaled squared distances from Z to a tile of support vectors."""
        if self._narrow:
            return self._by_differences(Z)
        if self._sparse:
            return self._by_sparse_products(Z, X)
        return self._by_single_products(Z, X) if self._single else self._by_products(Z, X)

    def _by_differences(self, Z):
        Z = np.ascontiguousarray(Z, dtype=self._support.dtype)
        everyone = np.arange(len(Z))

        def distances(start, size):
            s = _memory(len(Z), size, self._dtype)
            direct_distances(Z, self._support, everyone, start, s)
            if self._ratio != 1:
                with np.errstate(over="ignore"):
                    s *= self._ratio
            return s

        return distances

    def _by_single_products(self, Z, X):
        norms = squared_norms(Z)
        extended = [Z, np.ones((len(Z), 1)), norms[:, None]]
        rows = rows_of(np.hstack(extended), self._support)
        close = self._close
        if close is not None:
            X, limits = np.ascontiguousarray(X), close_limits(norms, len(self.widths) == 1)

        def distances(start, size):
            s = self._products(rows, start, size)[: len(Z)]
            if close is None:
                np.maximum(s, 0, out=s)
            else:
                part = slice(start, start + size)
                replace_close(s, limits, close[part], X, self.points[part], self.scale)
            return s

        return distances

    def _products(self, rows, start, size):
        """Products of points with a tile of support vectors."""
        dots = _memory(len(rows), size, self._support.dtype)
        products(rows, self._support, start // self._support.shape[2], dots)
        return dots

    def _by_products(self, Z, X):
        """Products in float64; where these are not enough, differences."""
        norms, rows = squared_norms(Z), rows_of(Z, self._support)
        X = np.ascontiguousarray(X)

        def distances(start, size):
            s = self._products(rows, start, size)[: len(Z)]
            part = slice(start, start + size)
            expand_distances(s, norms, self._norms[part], s)
            if self._inexact:
                recompute_close(s, norms, self._norms[part], X, self.points[part], self.scale)
            return s

        return distances

    def _by_sparse_products(self, Z, X):
        norms = squared_norms(Z)
        X = self._as_points(X)

        def distances(start, size):
            part = slice(start, start + size)
            with np.errstate(over="ignore", invalid="ignore"):
                s = (Z @ self._support[part].T).toarray()
            expand_distances(s, norms, self._norms[part], s)
            if self._inexact:
                recompute_close(s, norms, self._norms[part], X, self.points[part], self.scale)
            return s

        return distances

    def _as_points(self, X):
        return with_sorted_indices(sparse.csr_array(X)) if self._sparse else np.ascontiguousarray(X)

    def _exact_distances(self, support):
        """A function that gives scaled squared distances in float64 to some support vectors."""
        if not (self._sparse or self._narrow):
            return self._exact_products(self.points[support])

        def distances(X):
            n = X.shape[0]
            pairs = np.repeat(np.arange(n), len(support)), np.tile(support, n)
            squares = pair_distances(self._as_points(X), self.points, *pairs, self.scale)
            return squares.reshape(n, -1)

        return distances

    def _exact_products(self, points):
        """From products in float64, small ones from the differences."""
        support = self.scaled(points)
        panels, norms = packed(support, np.float64), squared_norms(support)

        def distances(X):
            Z = self.scaled(X)
            s = multiply(Z, panels)
            expand_distances(s, squared_norms(Z), norms, s)
            recompute_close(s, squared_norms(Z), norms, self._as_points(X), points, self.scale)
            return np.ascontiguousarray(s[:, : len(points)])

        return distances


_buffers = threading.local()


def _memory(n, size, dtype):
    """An array of this thread, used again: fresh memory costs more than the arithmetic."""
    kept = _buffers.__dict__.setdefault("kept", {})
    if kept.get(dtype, np.empty(0)).size < n * size:
        kept[dtype] = np.empty(n * size, dtype=dtype)
    return kept[dtype][: n * size].reshape(n, size)
