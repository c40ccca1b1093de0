"""Decision values: kernel expansions of all classes, summed over support vectors tile by tile."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
from scipy import sparse

from ..kernels import RBF, Kernel, Linear, exp_neg
from ..utils import thread_map
from ..utils.compiled import njit
from ._matmul import multiply, packed, products, rows_of
from ._squares import point_distances
from ._state import copy_values
from ._tuning import tuning
from .cuda import on_gpu
from .points import (
    NARROW,
    Points,
    fits_single,
    in_layout,
    needs_differences,
    scale_into_kernel,
)

# Scores this close to zero, or to the highest of the row, are computed again in float64, so that
# rounding never decides an answer and the certificate holds. The rounding error of the float32 sum
# itself is added to it.
EXACT_BAND = 1e-4
_ROUNDING = 4e-7

# Largest error of a sum in float32, and at how many support vectors it is measured.
_SUM_ERROR = 8e-6
_LOOK = 32

# Norm of a scaled test point up to which float32 products do not overflow. Farther points are
# clipped if every kernel value has vanished there, else they are computed from the differences.
_FAR = 1e15


def decision_values(
    X, support_vectors, coef, bias, kernel: Kernel | Linear, gamma, n_jobs=None, device="cpu"
) -> np.ndarray:
    """Evaluate ``f_c(x) = sum_i coef[c, i] k(gamma[c] |x - s_i|^2) + bias[c]``, shape (n, K).

    Kernel values are float32. Scores within :data:`EXACT_BAND` of zero, or of a higher one that
    accepts too, are computed again in float64, so that rounding never decides an answer.

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
    """Kernel expansions (K, n_sv) prepared for many calls, also by threads; arrays must not change.

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

    def __init__(self, support_vectors, coef, kernel: Kernel | Linear, gamma, exact: bool = False):
        # `exact`: all kernel values are float64, for scores that are no decision values.
        self._weights, self._step, self._expansions = None, tuning().points, []
        self._sparse = sparse.issparse(support_vectors)
        if isinstance(kernel, Linear):
            self._weights = support_vectors.T @ coef.T
            return
        # Classes of one gamma share their kernel values, and all share distances from products.
        groups = [np.flatnonzero(gamma == value) for value in np.unique(gamma)]
        wide = not self._sparse and support_vectors.shape[1] > NARROW
        for group in [np.arange(len(gamma))] if wide else groups:
            part, own = support_vectors, coef[group]
            used = np.flatnonzero(own.any(axis=0))
            if wide and len(groups) > 1:  # support vectors of the same classes side by side
                used = used[np.lexsort(coef[:, used] != 0)]
            if not np.array_equal(used, np.arange(coef.shape[1])):  # else no copy
                part, own = support_vectors[used], coef[np.ix_(group, used)]
            if used.size:
                self._expansions.append((group, Expansion(part, own, kernel, gamma[group], exact)))

    def __call__(self, X, bias: np.ndarray, n_jobs: int | None = None, device: str = "cpu"):
        """Decision values of the rows of X, shape (n, K); see :func:`decision_values`."""
        X = in_layout(X, self._sparse)  # that of the model, which is usually larger
        if self._weights is not None:
            return X @ self._weights + bias
        n, step = X.shape[0], self._step
        scores = np.tile(bias.astype(np.float64), (n, 1))
        for group, expansion in self._expansions:
            if device != "cpu" and on_gpu(device) and expansion.by_products:
                from .cuda.points import CudaExpansion

                CudaExpansion(expansion).evaluate(X, bias[group], scores, group)
                continue

            parts = [slice(k, k + step) for k in range(0, n, step)]
            evaluate = partial(_evaluate, expansion, group, X, bias, scores)
            for _ in thread_map(evaluate, parts, n_jobs) if n > step else map(evaluate, parts):
                pass
        self._settle(X, bias, scores)
        return scores

    def _settle(self, X, bias, scores):
        """Score again, in float64, rows that two classes accept with almost the same score."""
        band = 2 * max((expansion.band.max() for _, expansion in self._expansions), default=0.0)
        for start in range(0, len(scores), self._step):
            block = scores[start : start + self._step]
            rows = np.flatnonzero((block >= 0).sum(axis=1) > 1)
            near = block[rows].max(axis=1, keepdims=True) - block[rows] <= band
            tied = near.sum(axis=1) > 1
            for group, expansion in self._expansions:
                again = rows[tied & near[:, group].any(axis=1)]
                if again.size:
                    block[np.ix_(again, group)] = expansion.exact(X[start + again]) + bias[group]


def _evaluate(expansion, group, X, bias, scores, part):
    scores[part, group] = expansion.evaluate(X[part], bias[group])


class Expansion:
    """Kernel expansions (K, n_sv) of classes that share their distances."""

    # Distances are formed at the largest gamma, where rounding matters most; several widths are for
    # wide points only. Scores up to `band` (K,) in absolute value are computed again in float64.
    # `by_products`: distances may come from dense products, the only way on the GPU; `fast`: these
    # may be in float32. `far` is the largest coordinate of scaled points.

    def __init__(self, support_vectors, coef, kernel: Kernel, gamma: np.ndarray, exact=False):
        self.kernel, self.coef, largest = kernel, coef, gamma.max()
        scale, one_width = np.sqrt(largest), bool(np.all(gamma == largest))
        # Classes by width, as a part of the largest.
        self.widths = [(g / largest, np.flatnonzero(gamma == g)) for g in np.unique(gamma)]
        self.points = points = Points(support_vectors, scale, kernel, one_width)
        norm = np.sqrt(2 * points.norms.max())
        self.by_products = not points.is_sparse and not needs_differences(kernel, norm)
        self.fast = self.by_products and fits_single(kernel, norm, expanded=True)
        self.far = _FAR / np.sqrt(support_vectors.shape[1])
        self.band = EXACT_BAND + _ROUNDING * np.abs(coef).sum(axis=1)
        self._exact = False
        # Precision of the sums: the first that is enough.
        wide = points.dtype is np.float32 and not points.narrow
        dtypes = (np.float32, np.float64) if wide else (np.float32,)
        for dtype in () if exact else dtypes:
            self._sums = TiledSums(points, coef, kernel, self.widths, np.float32, dtype)
            some = points.X[:: -(-points.n_points // _LOOK)]
            # Many kernel values near 1 add up.
            if np.abs(self.sums(some) - self.exact(some)).max() <= _SUM_ERROR:
                return
        self.fast, self._exact = False, True
        self._sums = TiledSums(Points(support_vectors, scale), coef, kernel, self.widths)

    def evaluate(self, X, bias: np.ndarray) -> np.ndarray:
        """Decision values of a block of points, shape (n, K)."""
        if self._exact:
            return self._sums(self._sums.points.queries(X)) + bias
        queries, beyond = self._queries(X)
        scores = self._sums(queries) + bias
        close = np.abs(scores) <= self.band
        whole = beyond | (close.sum(axis=1) > max(1, close.shape[1] // 8))
        rows = np.flatnonzero(whole)
        if rows.size:
            scores[rows] = self.exact(X[rows]) + bias
        close[whole] = False
        for c in np.flatnonzero(close.any(axis=0)):
            rows = np.flatnonzero(close[:, c])
            scores[rows, c] = self.exact(X[rows], c)[:, 0] + bias[c]
        return scores

    def sums(self, X) -> np.ndarray:
        """Decision values without the bias, as precise as they are prepared."""
        queries, beyond = self._queries(X)
        sums = self._sums(queries)
        if beyond.any():
            sums[beyond] = self.exact(X[beyond])
        return sums

    def _queries(self, X):
        Z = self.points.scaled(X)
        beyond = self.beyond(Z, self.far)
        values = Z.data if self.points.is_sparse else Z
        np.clip(values, -self.far, self.far, out=values)
        return self.points.queries(X, Z), beyond

    def beyond(self, Z, limit):
        """Which scaled points may not be clipped at the limit: kernel values are left there."""
        largest = abs(Z).max(axis=1)
        far = (largest.toarray().ravel() if self.points.is_sparse else largest) > limit
        if not far.any():
            return far
        with np.errstate(over="ignore"):
            nearest = np.array([max(limit - np.sqrt(self.points.norms.max()), 0.0) ** 2])
        return far & (self.kernel.value(nearest)[0] > 0.0)

    def exact(self, X, c: np.integer | None = None) -> np.ndarray:
        """Sums of class c, or of all, in float64, from distances with errors below 1e-11."""
        coef = self.coef if c is None else self.coef[[c]]
        support = np.flatnonzero(coef.any(axis=0))
        widths = [(r, np.arange(1)) for r, own in self.widths if c in own] or self.widths
        points = Points(self.points.X[support], self.points.scale)
        sums = TiledSums(points, coef[:, support], self.kernel, widths)
        return sums.in_blocks(X)


class TiledSums:
    """sum_i coef[c, i] k(ratio_c |x - s_i|^2) at any points, over tiles of support vectors."""

    # Every tile has the same support vectors for all points, so that the score of a point does not
    # depend on the points that it comes with. `widths` are pairs (ratio, classes); `values` and
    # `sums` are the precisions of kernel values and of coefficients.

    def __init__(self, points: Points, coef, kernel, widths, values=np.float64, sums=np.float64):
        self.points, self._kernel, self._widths = points, kernel, widths
        self._n_classes, self._dtype = len(coef), values
        self._buffers = threading.local()
        self._gaussian, self._tiles = None, []
        if points.narrow and type(kernel) is RBF and values is np.float32:
            self._gaussian = _gaussian_coefficients(coef, sums)
            return
        # Of each tile: start, size, and the coefficients of each width in panels.
        for start in range(0, coef.shape[1], tuning().support):
            here, groups = coef[:, start : start + tuning().support], []
            for ratio, own in widths:
                used = np.flatnonzero(here[own].any(axis=0))
                if used.size:
                    part = slice(used[0], used[-1] + 1) if len(widths) > 1 else slice(None)
                    groups.append((ratio, own, part, packed(here[own, part], sums)))
            self._tiles.append((start, here.shape[1], groups))

    def __call__(self, queries) -> np.ndarray:
        n = len(queries.same)
        sums = np.zeros((n, self._n_classes))
        if self._gaussian is not None:
            direct = self.points.narrow_at(1.0)
            _gaussian_sums(queries.Z, direct.columns, direct.ratio, self._gaussian, sums)
            return sums
        for start, size, groups in self._tiles:
            k = self._memory(n, size)
            if len(self._widths) == 1:
                self.points.kernel_values(self._kernel, 1.0, queries, start, k)
            else:
                self.points.squares(queries, start, k)
            for ratio, own, part, panels in groups:
                values = k
                if len(self._widths) > 1:
                    values = np.empty(k[:, part].shape, dtype=self._dtype)
                    scale_into_kernel(self._kernel, ratio, k[:, part], values)
                sums[:, own] += multiply(values, panels)[:, : len(own)]
        return sums

    def in_blocks(self, X) -> np.ndarray:
        """Sums at many points, (n, K)."""
        step = tuning().points
        blocks = (X[k : k + step] for k in range(0, X.shape[0], step))
        parts = [self(self.points.queries(block)) for block in blocks]
        return np.concatenate([np.empty((0, self._n_classes)), *parts])

    def _memory(self, n, size):
        """An array of this thread, used again: fresh memory costs more than the arithmetic."""
        kept = getattr(self._buffers, "kept", None)
        if kept is None or kept.size < n * size:
            kept = self._buffers.kept = np.empty(n * size, dtype=self._dtype)
        return kept[: n * size].reshape(n, size)


# Points and support vectors per tile of `_gaussian_sums`, which stays in the second-level cache.
_POINTS, _SUPPORT = 66, 512


def _gaussian_coefficients(coef: np.ndarray, dtype: type) -> np.ndarray:
    """Coefficients (K, n_sv) as panels per tile, shape (n_tiles, n_panels, 512, width)."""
    padded = np.zeros((len(coef), -(-coef.shape[1] // _SUPPORT) * _SUPPORT))
    padded[:, : coef.shape[1]] = coef
    starts = range(0, padded.shape[1], _SUPPORT)
    return np.stack([packed(padded[:, k : k + _SUPPORT], dtype) for k in starts])


@njit(cache=True, nogil=True)
def _gaussian_sums(Z, columns, ratio, coef, sums):
    """sums[i, c] += sum_j coef[c, j] exp(-ratio |z_i - s_j|^2), in one call that holds no lock."""
    # `columns` are the support vectors, see `padded_columns`; `coef` from `_gaussian_coefficients`.
    n, n_support = Z.shape[0], columns.shape[1]
    z = np.zeros((n, columns.shape[0]), dtype=Z.dtype)
    for i in range(n):
        copy_values(z[i], Z[i])  # assigned as a whole, it would compile the message of an error
    tile = np.zeros((_POINTS, _SUPPORT), dtype=np.float32)
    product = np.empty((_POINTS, coef.shape[1] * coef.shape[3]), dtype=coef.dtype)
    for begin in range(0, n_support, _SUPPORT):
        width = min(_SUPPORT, n_support - begin)
        tile[:, width:] = 0.0
        for first in range(0, n, _POINTS):
            height = min(_POINTS, n - first)
            for k in range(height):
                row = tile[k, :width]
                point_distances(z[first + k], columns, begin, row)
                if ratio != np.float32(1.0):
                    for t in range(width):
                        row[t] *= ratio
                exp_neg(row)
            rows = rows_of(tile[:height], coef[0])
            products(rows, coef[begin // _SUPPORT], 0, product[: len(rows)])
            for k in range(height):
                for c in range(sums.shape[1]):
                    sums[first + k, c] += product[k, c]
