"""Sums of kernel rows for many machines at once, without keeping the rows."""

from __future__ import annotations

import numpy as np

from ..utils import thread_map
from ._rows import KernelRows

# Points of a block.
_POINTS = 512


def expansions(
    rows: KernelRows,
    support: np.ndarray,
    coef: np.ndarray,
    points: np.ndarray,
    n_jobs: int | None,
) -> np.ndarray:
    """K[points, support] @ coef for many machines: each value is made once, and none is kept.

    Parameters
    ----------
    rows : KernelRows
    support : ndarray of shape (n_sv,)
    coef : ndarray of shape (K, n_sv)
    points : ndarray of shape (n,)
    n_jobs : int or None

    Returns
    -------
    ndarray of shape (K, n)
    """
    sums = np.zeros((len(coef), len(points)))
    used = np.flatnonzero(coef.any(axis=0))
    support, coef = support[used], coef[:, used]

    def add(start):
        here = slice(start, start + _POINTS)
        block = np.zeros((len(coef), len(points[here])))
        rows.add_expansions(block, support, coef, points[here])
        sums[:, here] = block

    for _ in thread_map(add, range(0, len(points), _POINTS), n_jobs):
        pass
    return sums
