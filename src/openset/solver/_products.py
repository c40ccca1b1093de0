"""Distances of wide data by matrix products, the few inaccurate ones from the differences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels import RBF, Kernel, exp_neg
from ..utils.compiled import FAST, njit
from ..utils.distances import scaled_square, squared_norms
from ._matmul import packed, products, rows_of_packed, take_packed
from ._precision import EPS, PRODUCT_ERROR, needs_differences
from ._state import BLOCK, fmax

# A square from float64 products of at most this part of a norm is computed from the differences.
_CLOSE = 2e-4
# Rows and columns of products that become kernel values while they are in the second-level cache.
_ROWS, _COLUMNS = 96, 512
# Largest part of all pairs for which computing them again is cheaper than products in float64.
_FEW = 0.01


class Wide(NamedTuple):
    """Points whose distances are expanded as ``|a|^2 + |b|^2 - 2 a.b``.

    Attributes
    ----------
    panels : ndarray of shape (n_panels, d, width)
        The points, centred and scaled, see `packed`.
    norms : ndarray of shape (m,), float64
        Their squared norms.
    close : ndarray of shape (m,), float32
        Squared distances up to the larger one of the two points are computed again; or empty.
    X : ndarray of shape (m, d), float64
        The points as they are, for the differences; or empty.
    scale : float
        Factor of the points in Z.
    """

    panels: np.ndarray
    norms: np.ndarray
    close: np.ndarray
    X: np.ndarray
    scale: float

    def subset(self, index: np.ndarray) -> Wide:
        """The points `index` alone."""
        close, X = self.close, self.X
        if close.size:
            close, X = close[index], X[index]
        panels = take_packed(self.panels, index)
        return self._replace(panels=panels, norms=self.norms[index], close=close, X=X)


def wide_points(X, Z, kernel: Kernel, dtype: type, scale: float, one_width: bool) -> Wide:
    """The points X; Z are the same, centred and scaled, for products in `dtype`.

    Products in float64 become float32 if the kernel is the RBF and that is accurate for all but few
    pairs, which are then computed from the differences.
    """
    norms = squared_norms(Z)
    close = np.empty(0, dtype=np.float32)
    if dtype is np.float64:
        if few_are_close(Z, norms, kernel, one_width):
            close, dtype = close_limits(norms, one_width), np.float32
        elif needs_differences(kernel, np.sqrt(2 * norms.max())):
            with np.errstate(over="ignore"):
                close = (_CLOSE * norms).astype(np.float32)
    X = np.ascontiguousarray(X) if close.size else np.empty((0, 0))
    return Wide(packed(Z, dtype), norms, close, X, scale)


def close_limits(norms: np.ndarray, one_width: bool) -> np.ndarray:
    """Squared distances up to which products in float32 are too inaccurate for the RBF.

    An error d of s changes exp(-s) by d exp(-s), which matters for small s only. At r times the
    width both are r times as large; d / e over the error allowed is enough for every r.
    """
    error = 20 * EPS * norms
    if not one_width:
        return (error / (PRODUCT_ERROR * np.e) + error).astype(np.float32)
    with np.errstate(divide="ignore"):
        return (np.log(error / PRODUCT_ERROR) + error).astype(np.float32)


def few_are_close(Z, norms: np.ndarray, kernel: Kernel, one_width: bool) -> bool:
    """Whether products in float32 are accurate for all but few pairs of the points Z."""
    if type(kernel) is not RBF or not 20 * EPS * norms.max(initial=0.0) < 1:
        return False
    limits = close_limits(norms, one_width)
    i, j = (np.arange(0, len(Z), -(-len(Z) // n)) for n in (64, 1024))
    squares = norms[i, None] + norms[j] - 2 * (Z[i] @ Z[j].T)
    close = (squares <= np.maximum(limits[i, None], limits[j])) & (i[:, None] != j)
    return bool(np.mean(close) <= _FEW)


def write_distances(wide: Wide, index: np.ndarray, start: int, out: np.ndarray) -> None:
    """Write squared distances from the points `index` to the points start, ... into `out`."""
    _write(wide, index, start, np.float32(1.0), False, out, np.arange(len(index)))


def write_rbf(wide: Wide, index: np.ndarray, ratio: np.float32, rows: np.ndarray, slots) -> None:
    """``rows[slots[k]] = exp(-ratio * distances)`` from the point index[k] to all points."""
    _write(wide, index, 0, ratio, True, rows, np.asarray(slots, dtype=np.int64))


@njit(cache=True, nogil=True)
def _write(wide, index, start, ratio, gaussian, rows, slots):
    """Distances, or their exponentials, into ``rows[slots]``, while products are in the cache."""
    width = wide.panels.shape[2]
    end = start + rows.shape[1]
    dots = np.empty(_ROWS * _COLUMNS, dtype=wide.panels.dtype)
    for k in range(0, index.size, _ROWS):
        part = index[k : k + _ROWS]
        points = rows_of_packed(wide.panels, part)
        for panel in range(start // width, -(-end // width), _COLUMNS // width):
            first, n_panels = panel * width, min(_COLUMNS // width, -(-end // width) - panel)
            tile = dots[: len(points) * n_panels * width].reshape(len(points), n_panels * width)
            products(points, wide.panels, panel, tile)
            begin, stop = max(first, start), min(first + n_panels * width, end)
            for r in range(part.size):
                row = rows[slots[k + r], begin - start : stop - start]
                _expand_row(tile[r, begin - first : stop - first], wide, part[r], begin, row)
                if gaussian:
                    if ratio != np.float32(1.0):
                        for t in range(row.size):
                            row[t] *= ratio
                    exp_neg(row)


@njit(cache=True, nogil=True, fastmath=FAST)
def _expand_row(dots, wide, i, start, target):
    """Squared distances of point i from products, formed in float64; never below 0."""
    n = wide.norms[i]
    norms = wide.norms[start : start + target.size]
    for t in range(target.size):
        both = n + norms[t]
        s = both - 2.0 * dots[t]
        s = s if s > 0.0 else 0.0
        # Where the norms overflow, so may the product.
        target[t] = np.inf if both == np.inf else s
    if wide.close.size > 0:
        end = start + target.size
        limits, X = wide.close[start:end], wide.X[start:end]
        _replace_close(target, wide.close[i], limits, wide.X[i], X, wide.scale)
    # The distance of a point to itself must not be left to rounding.
    if start <= i < start + target.size:
        target[i - start] = 0.0


@njit(cache=True, nogil=True)
def replace_close(squares, limits_i, limits_j, A, B, scale):
    """Squares of float32 products: at least 0, small ones from the differences of A and B."""
    for k in range(squares.shape[0]):
        row = squares[k, : limits_j.size]
        for t in range(row.size):
            row[t] = fmax(row[t], np.float32(0.0))
        _replace_close(row, limits_i[k], limits_j, A[k], B, scale)


@njit(cache=True, nogil=True)
def _replace_close(target, limit, limits, a, B, scale):
    for begin in range(0, target.size, BLOCK):
        end = min(begin + BLOCK, target.size)
        if _any_close(target[begin:end], limits[begin:end], limit):
            for t in range(begin, end):
                if target[t] <= fmax(limit, limits[t]):
                    target[t] = scaled_square(a, B[t], scale)


@njit(cache=True, nogil=True, fastmath=FAST)
def _any_close(squares, limits, limit):
    found = np.float32(0.0)
    for t in range(squares.size):
        hit = squares[t] <= fmax(limit, limits[t])
        found = fmax(found, np.float32(1.0) if hit else np.float32(0.0))
    return found > 0.0
