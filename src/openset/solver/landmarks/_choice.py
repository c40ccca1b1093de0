"""Choose landmarks: the rows that best represent machines trained on a sample."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from ...kernels import Kernel, Linear
from .._row_cache import kernel_rows
from .._rows import kernel_sums

# Landmarks chosen at a time, among so many times as many candidates.
_BLOCK, _CANDIDATES = 64, 4
# Squared distance to the span of the landmarks below which a row is as good as one of them.
_NULL = 1e-3
# Weight of rows far from all landmarks, where the machines are represented already.
_SPREAD = 1e-6


def choose_rows(
    X,
    coef: np.ndarray,
    kernel: Kernel | Linear,
    gamma: float,
    n: int,
    first: np.ndarray,
    cache_size: float = 1000,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Choose the rows whose span is nearest to kernel expansions, greedily.

    The expansions are functions w_c of the feature space of the kernel. The sum of their squared
    distances to the span of the chosen rows falls most by the row with the largest
    ``sum_c r_c(x)^2 / d(x)``, where r_c is what is left of w_c outside the span, and d(x) the
    squared distance of the row itself. This is orthogonal matching pursuit, in blocks.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (m, d)
        Rows to choose from.
    coef : ndarray of shape (K, m)
        Coefficients of the expansions.
    kernel : Kernel or Linear
    gamma : float
        Its width.
    n : int
        Number of rows to choose, at most m.
    first : ndarray of shape (k,)
        Rows that are chosen in any case, at most n.
    cache_size : float, default=1000
        Memory for kernel rows in MB.
    n_jobs : int or None, default=None
        Number of threads.

    Returns
    -------
    ndarray of shape (n,)
        The rows, in the order in which they were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.kernels import RBF
    >>> from openset.solver.landmarks import choose_rows
    >>> X = np.array([[0.0], [0.01], [5.0], [9.0]])
    >>> coef = np.array([[1.0, 1.0, -3.0, 0.0]])
    >>> choose_rows(X, coef, RBF(), 1.0, 2, np.array([], dtype=int))
    array([2, 1])
    """
    m = X.shape[0]
    rows = kernel_rows(X, kernel, gamma, cache_size, 1, n_jobs)
    everyone = np.arange(m)
    support = np.flatnonzero(coef.any(axis=0))
    left = np.zeros((len(coef), m), dtype=np.float32)
    if support.size:
        left[:] = kernel_sums(rows, support, coef[:, support], everyone, n_jobs)
    distance = np.ones(m, dtype=np.float32)
    span = np.empty((m, n), dtype=np.float32)
    chosen = np.empty(0, dtype=np.intp)
    while len(chosen) < n:
        size, k = min(_BLOCK, n - len(chosen)), len(chosen)
        if k < len(first):
            new = first[k : k + size]
        else:
            gain = (left**2).sum(axis=0) / np.maximum(distance, _NULL) + _SPREAD * distance
            gain[chosen] = -1
            some = min(_CANDIDATES * size, m - k)
            candidates = np.argpartition(-gain, some - 1)[:some]
            inner = rows.values(candidates, candidates) - span[candidates, :k] @ (
                span[candidates, :k].T
            )
            new = candidates[_one_by_one(inner.astype(np.float64), left[:, candidates], size)]
        # Block step of a Cholesky factorisation.
        column = rows.values(everyone, new) - span[:, :k] @ span[new, :k].T
        square = column[new].astype(np.float64)
        factor = np.linalg.cholesky(square + _NULL * 1e-2 * np.eye(len(new)))
        part = solve_triangular(factor.astype(np.float32), column.T, lower=True).T
        share = solve_triangular(factor, left[:, new].T.astype(np.float64), lower=True).T
        left -= share.astype(np.float32) @ part.T
        distance -= np.einsum("ij,ij->i", part, part)
        span[:, k : k + len(new)] = part
        chosen = np.concatenate([chosen, new])
    return chosen


def _one_by_one(inner, left, size):
    """The best `size` of some candidates, each given those before it."""
    left = left.astype(np.float64)
    distance, free = inner.diagonal().copy(), np.ones(len(inner), dtype=bool)
    chosen = []
    for _ in range(size):
        gain = (left**2).sum(axis=0) / np.maximum(distance, _NULL) + _SPREAD * distance
        best = int(np.argmax(np.where(free, gain, -1)))
        chosen.append(best)
        free[best] = False
        if distance[best] > _NULL:
            column = inner[:, best] / np.sqrt(distance[best])
            left -= np.outer(left[:, best] / np.sqrt(distance[best]), column)
            inner -= np.outer(column, column)
            distance -= column**2
    return chosen
