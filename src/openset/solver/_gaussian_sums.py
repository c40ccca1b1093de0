"""Sums of Gaussian kernels at a block of points, in one compiled call that holds no lock."""

from __future__ import annotations

import numpy as np

from ..kernels import exp_neg
from ..utils.compiled import njit
from ..utils.distances import point_distances
from ._matmul import packed, products, rows_of

# Points and support vectors per tile: its kernel values stay in the second-level cache.
_POINTS, _SUPPORT = 66, 512


def gaussian_coefficients(coef: np.ndarray, dtype: type) -> np.ndarray:
    """Coefficients of shape (K, n_sv) as columns of the products of each tile."""
    padded = np.zeros((len(coef), -(-coef.shape[1] // _SUPPORT) * _SUPPORT))
    padded[:, : coef.shape[1]] = coef
    starts = range(0, padded.shape[1], _SUPPORT)
    return np.stack([packed(padded[:, k : k + _SUPPORT], dtype) for k in starts])


@njit(cache=True, nogil=True)
def gaussian_sums(Z, columns, ratio, coef, sums):
    """sums[i, c] += sum_j coef[c, j] exp(-ratio |z_i - s_j|^2).

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    columns : ndarray of shape (d rounded up to a multiple of 4, n_sv)
        The support vectors, see `padded_columns`, in the precision of Z.
    ratio : float32
    coef : ndarray of shape (n_tiles, n_panels, 512, width)
        See `gaussian_coefficients`.
    sums : ndarray of shape (n, K), float64
    """
    n, n_support = Z.shape[0], columns.shape[1]
    z = np.zeros((n, columns.shape[0]), dtype=Z.dtype)
    z[:, : Z.shape[1]] = Z
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
