"""Sums of Gaussian kernels at a block of points, in one compiled call that holds no lock."""

from __future__ import annotations

import numpy as np

from ..kernels import exp_neg
from ..utils.compiled import njit
from ..utils.distances import point_distances

# Points and support vectors per tile: its kernel values stay in the second-level cache.
_POINTS, _SUPPORT = 64, 512


@njit(cache=True, nogil=True)
def gaussian_sums(Z, columns, ratio, coef, sums):
    """sums[i, c] += sum_j coef[j, c] exp(-ratio |z_i - s_j|^2).

    Parameters
    ----------
    Z : ndarray of shape (n, d)
    columns : ndarray of shape (d rounded up to a multiple of 4, n_sv)
        The support vectors, see `padded_columns`, in the precision of Z.
    ratio : float32
    coef : ndarray of shape (n_sv, K), float32
    sums : ndarray of shape (n, K), float64
    """
    n, n_support = Z.shape[0], columns.shape[1]
    z = np.zeros((n, columns.shape[0]), dtype=Z.dtype)
    z[:, : Z.shape[1]] = Z
    # Always as many rows: BLAS may round differently for another shape, and the score of a sample
    # must not depend on the samples that it comes with.
    values = np.zeros(_POINTS * min(n_support, _SUPPORT), dtype=np.float32)
    product = np.empty((_POINTS, coef.shape[1]), dtype=np.float32)
    for begin in range(0, n_support, _SUPPORT):
        width = min(_SUPPORT, n_support - begin)
        part = coef[begin : begin + width]
        for first in range(0, n, _POINTS):
            height = min(_POINTS, n - first)
            tile = values[: _POINTS * width].reshape(_POINTS, width)
            for k in range(height):
                point_distances(z[first + k], columns, begin, tile[k])
            flat = values[: height * width]
            if ratio != np.float32(1.0):
                for t in range(flat.size):
                    flat[t] *= ratio
            exp_neg(flat)
            np.dot(tile, part, product)
            for k in range(height):
                for c in range(product.shape[1]):
                    sums[first + k, c] += product[k, c]
