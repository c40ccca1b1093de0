"""How good an answer is: one float64 judge for all programs, whatever they claim themselves."""

from typing import NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

# Rows of the kernel matrix that are in memory at a time.
_BLOCK = 1000
# A multiplier this close to its bound counts as being there; some programs are float32 inside.
_AT_BOUND = 1e-6


class Quality(NamedTuple):
    """One value per machine, each of shape (k,)."""

    objective: np.ndarray  # W(beta), smaller is better
    gap: np.ndarray  # largest violation of the optimality conditions, to be compared with tol
    infeasible: np.ndarray  # largest violation of the box or of the sum of the multipliers


def expansion(X, rows, beta, gamma):
    """Sum_i beta[:, i] k(rows_i, x) in float64, shape (len(X), k)."""
    used = np.flatnonzero(beta.any(axis=0))
    # Differences are all that matters, and they are most accurate near zero.
    center = rows.mean(axis=0)
    support, coef = rows[used] - center, beta[:, used].T
    blocks = [
        rbf_kernel(X[k : k + _BLOCK] - center, support, gamma=gamma) @ coef
        for k in range(0, len(X), _BLOCK)
    ]
    return np.vstack(blocks)


def judge(X, signs, gamma, beta, total=0.0):
    """Quality of the multipliers `beta` of k SVMs with C = 1.

    `signs` and `beta`, the multipliers times their signs, are of shape (k, m); `total`, the sum
    that they should have, is a number or of shape (k,).
    """
    upper = np.where(signs > 0, 1.0, 0.0)
    lower = upper - 1.0
    v = signs - expansion(X, X, beta, gamma).T
    can_grow = np.where(beta < upper - _AT_BOUND, v, -np.inf).max(axis=1)
    can_shrink = np.where(beta > lower + _AT_BOUND, v, np.inf).min(axis=1)
    outside = np.maximum(beta - upper, lower - beta).max(axis=1)
    return Quality(
        objective=-0.5 * np.einsum("km,km->k", beta, signs + v),
        gap=can_grow - can_shrink,
        infeasible=np.maximum(outside, np.abs(beta.sum(axis=1) - total)),
    )
