"""Compiled loops that form squared distances: direct differences, products, CSR."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..kernels import exp_neg
from ..utils.compiled import FAST, helper, njit
from ._matmul import products
from ._state import BLOCK, copy_values, fmax

# --- narrow points: direct differences ------------------------------------------------------------


class Narrow(NamedTuple):
    """Narrow points as compiled loops see them."""

    Z: np.ndarray  # (m, d): The points, scaled.
    # (d rounded up to a multiple of 4, n): Transpose of the points to which distances are wanted,
    # see `padded_columns`.
    columns: np.ndarray
    ratio: np.float32  # Factor from squared distances to s.


@helper(fastmath=FAST)
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


@helper()
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
def direct_distances(Z, columns, start, out):
    """Squared distances from the rows of Z (n, d) to the points start, ... of columns."""
    # `out` has shape (n, p); its width says how many points there are.
    # A range of all columns stays in the cache while every row passes over it.
    width = max(64, 8192 // columns.shape[0] // 16 * 16)
    z = np.zeros((Z.shape[0], columns.shape[0]), dtype=Z.dtype)
    for k in range(Z.shape[0]):
        copy_values(z[k], Z[k])
    for begin in range(0, out.shape[1], width):
        for k in range(Z.shape[0]):
            point_distances(z[k], columns, start + begin, out[k, begin : begin + width])


# --- wide points: products, close pairs from the differences --------------------------------------

# Rows and columns of products that become squares while they are in the second-level cache.
_ROWS, _COLUMNS = 96, 512


class Wide(NamedTuple):
    """Wide points as compiled loops see them."""

    panels: np.ndarray  # (n_panels, d, width): The points, centred and scaled, see `packed`.
    norms: np.ndarray  # (m,) float64: Their squared norms.
    # (m,): Squared distances up to the larger one of the two points are computed again; or empty.
    close: np.ndarray
    X: np.ndarray  # (m, d) float64: The points as they are, for the differences; or empty.
    scale: float


class Queries(NamedTuple):
    """Points from which distances are wanted, as :meth:`Points.queries` prepares them."""

    # (n, d) or n rounded up to a multiple of 6, or CSR matrix: The points in the precision of the
    # others, scaled; centred unless they are exact or CSR.
    Z: Any
    # As for `Wide`; empty for narrow points.
    norms: np.ndarray
    close: np.ndarray
    X: Any
    same: np.ndarray  # (n,) int64: Which of the points each one is; -1 for other points.


@njit(cache=True, nogil=True)
def write_products(points, queries, start, ratio, gaussian, rows, slots):
    """Squares, or exp(-ratio * squares), from queries to points start, ... in rows[slots]."""
    # Products become squares, and these kernel values, while they are in the cache.
    width = points.panels.shape[2]
    end = start + rows.shape[1]
    dots = np.empty(_ROWS * _COLUMNS, dtype=points.panels.dtype)
    for k in range(0, queries.same.size, _ROWS):
        left = queries.Z[k : k + _ROWS]
        for panel in range(start // width, -(-end // width), _COLUMNS // width):
            first, n_panels = panel * width, min(_COLUMNS // width, -(-end // width) - panel)
            tile = dots[: len(left) * n_panels * width].reshape(len(left), n_panels * width)
            products(left, points.panels, panel, tile)
            begin, stop = max(first, start), min(first + n_panels * width, end)
            for r in range(k, min(k + _ROWS, queries.same.size)):
                row = rows[slots[r], begin - start : stop - start]
                dots_of_row = tile[r - k, begin - first : stop - first]
                _expand_row(dots_of_row, points, queries, r, begin, row)
                if gaussian:
                    if ratio != np.float32(1.0):
                        for t in range(row.size):
                            row[t] *= ratio
                    exp_neg(row)


@helper(fastmath=FAST)
def _expand(dots, norm, norms, target):
    """target = norm + norms - 2 dots, formed in float64; never below 0."""
    for t in range(target.size):
        both = norm + norms[t]
        s = both - 2.0 * dots[t]
        s = s if s > 0.0 else 0.0
        # Where the norms overflow, so may the product.
        target[t] = np.inf if both == np.inf else s


@helper()
def _expand_row(dots, points, queries, k, start, target):
    """Squares from query k to the points start, start + 1, ... from their products."""
    end = start + target.size
    _expand(dots, queries.norms[k], points.norms[start:end], target)
    if points.close.size > 0:
        limit, limits = queries.close[k], points.close[start:end]
        for begin in range(0, target.size, BLOCK):
            stop = min(begin + BLOCK, target.size)
            if _any_close(target[begin:stop], limits[begin:stop], limit):
                for t in range(begin, stop):
                    if target[t] <= fmax(limit, limits[t]):
                        target[t] = scaled_square(queries.X[k], points.X[start + t], points.scale)
    # The distance of a point to itself must not be left to rounding.
    if start <= queries.same[k] < end:
        target[queries.same[k] - start] = 0.0


@helper(fastmath=FAST)
def _any_close(squares, limits, limit):
    found = np.float32(0.0)
    for t in range(squares.size):
        hit = squares[t] <= fmax(limit, limits[t])
        found = fmax(found, np.float32(1.0) if hit else np.float32(0.0))
    return found > 0.0


@helper(fastmath={"contract", "nnan", "nsz", "reassoc"})
def scaled_square(a, b, scale):
    """Squared distance of two points, times the square of `scale`."""
    total = 0.0
    for f in range(a.size):
        difference = (a[f] - b[f]) * scale
        total += difference * difference
    return total


# --- CSR ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def sparse_pairs(A, B, rows, columns, scale, out):
    """scale^2 |A[rows[k]] - B[columns[k]]|^2 of CSR matrices (data, indices, indptr), sorted."""
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
