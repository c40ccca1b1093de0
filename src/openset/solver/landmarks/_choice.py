"""Choose landmarks: the rows that best represent machines trained on a sample."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from .._row_cache import kernel_rows
from .._rows import kernel_sums
from ..cuda import on_gpu, to_host

# Landmarks chosen at a time, and candidates per landmark.
_BLOCK, _CANDIDATES = 64, 4
# Squared distance to the span of the landmarks below which a row is as good as one of them.
_NULL = 1e-3
# Weight of rows far from all landmarks, where the machines are represented already.
_SPREAD = 1e-6
# Rows whose kernel matrix is put on a GPU: 6 GB.
_ON_GPU = 40_000


def choose_rows(
    X, coef, kernel, gamma: float, n: int, first, cache_size=1000.0, n_jobs=None, device="cpu"
) -> np.ndarray:
    """Choose n rows of X (m, d) whose span is nearest to the expansions `coef` (K, m), greedily.

    The expansions are functions w_c of the feature space of the kernel. The sum of their squared
    distances to the span of the chosen rows falls most by the row with the largest
    ``sum_c r_c(x)^2 / d(x)``, where r_c is what is left of w_c outside the span, and d(x) the
    squared distance of the row itself. This is orthogonal matching pursuit, in blocks. The rows
    `first` are chosen in any case; rows are returned in the order in which they were chosen.

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
    m, xp = X.shape[0], np
    everyone = np.arange(m)
    if on_gpu(device) and m <= _ON_GPU:
        from ..cuda.points import whole_matrix

        xp, K = whole_matrix(X, kernel, gamma)
        left = xp.asarray(coef.astype(np.float32)) @ K
        values: Callable = partial(_part_of, xp, K)
    else:
        rows = kernel_rows(X, kernel, gamma, cache_size, 1, n_jobs)
        support = np.flatnonzero(coef.any(axis=0))
        left, values = np.zeros((len(coef), m), dtype=np.float32), rows.values
        if support.size:
            left[:] = kernel_sums(rows, support, coef[:, support], everyone, n_jobs)
    distance = xp.ones(m, dtype=np.float32)
    span = xp.empty((m, n), dtype=np.float32)
    chosen = np.empty(0, dtype=np.intp)
    while len(chosen) < n:
        size, k = min(_BLOCK, n - len(chosen)), len(chosen)
        if k < len(first):
            new = first[k : k + size]
        else:
            gain = (left**2).sum(axis=0) / xp.maximum(distance, _NULL) + _SPREAD * distance
            gain[xp.asarray(chosen)] = -1
            some = min(_CANDIDATES * size, m - k)
            candidates = to_host(xp.argpartition(-gain, some - 1)[:some])
            part, own = span[xp.asarray(candidates), :k], left[:, xp.asarray(candidates)]
            inner, outer = values(candidates, candidates) - part @ part.T, own.T @ own
            new = candidates[_one_by_one(to_host(inner), to_host(outer), size)]
        # Block step of a Cholesky factorisation.
        at = xp.asarray(new)
        column = values(everyone, new) - span[:, :k] @ span[at, :k].T
        inverse = xp.linalg.inv(_factor(xp, column[at].astype(np.float64))).T
        part = (column.astype(np.float64) @ inverse).astype(np.float32)
        share = left[:, at].astype(np.float64) @ inverse
        left -= share.astype(np.float32) @ part.T
        distance -= (part * part).sum(axis=1)
        span[:, k : k + len(new)] = part
        chosen = np.concatenate([chosen, new])
    return chosen


def _part_of(xp, K, rows, columns):
    """Some rows and columns of a matrix on the GPU, (n, m)."""
    return K[xp.asarray(rows)[:, None], xp.asarray(columns)]


def _factor(xp, square):
    """Cholesky factor of a matrix that rounding may have made indefinite."""
    for ridge in (1e-2 * _NULL, _NULL, 1e2 * _NULL):
        try:
            factor = xp.linalg.cholesky(square + ridge * xp.eye(len(square)))
        except np.linalg.LinAlgError:
            continue
        if bool(xp.isfinite(factor).all()):  # CuPy raises nothing
            break
    return factor


def _one_by_one(inner, outer, size):
    """The best `size` of some candidates, each given those before it."""
    # `inner` holds the products of the candidates, `outer` those of the values that are left of the
    # expansions at the candidates; both outside the span.
    inner, outer = inner.astype(np.float64), outer.astype(np.float64)
    free = np.ones(len(inner), dtype=bool)
    chosen = []
    for _ in range(size):
        distance = inner.diagonal()
        gain = outer.diagonal() / np.maximum(distance, _NULL) + _SPREAD * distance
        best = int(np.argmax(np.where(free, gain, -1)))
        chosen.append(best)
        free[best] = False
        if (d := distance[best]) > _NULL:
            column, change = inner[:, best] / np.sqrt(d), outer[:, best] / np.sqrt(d)
            change -= 0.5 * outer[best, best] / d * column
            change = np.outer(change, column)
            outer -= change + change.T
            inner -= np.outer(column, column)
    return chosen


def spread_over_classes(counts: np.ndarray, n: int) -> np.ndarray:
    """Divide n picks among classes of `counts` rows: half in equal shares, half by their sizes.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.solver.landmarks import spread_over_classes
    >>> spread_over_classes(np.array([900, 90, 10]), 60)
    array([37, 13, 10])
    """
    wanted = 0.5 * n * counts / counts.sum() + 0.5 * n / len(counts)
    picks = np.minimum(counts, wanted.astype(np.int64))
    # What small classes could not take, and rounding, goes to those with rows left.
    while (missing := n - picks.sum()) > 0:
        room = np.flatnonzero(picks < counts)
        if missing < len(room):
            room = room[np.argsort(picks[room], kind="stable")[:missing]]
        picks[room] += np.minimum(counts[room] - picks[room], max(1, missing // len(room)))
    return picks


def first_of_classes(codes: np.ndarray, order: np.ndarray, picks: np.ndarray) -> np.ndarray:
    """The first ``picks[c]`` rows of each class c in an order of all rows, class by class."""
    order, counts = order[np.argsort(codes[order], kind="stable")], np.bincount(codes)
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[rank < picks[codes[order]]]
