"""Sums of kernel rows for many machines at once, without keeping the rows."""

from __future__ import annotations

import numpy as np

from ._rows import KernelRows
from ._threads import thread_map

# Kernel values of a tile: support vectors, whose products are summed in float32, by points.
_SUPPORT = 256
_POINTS = 1024


def expansions(
    rows: KernelRows, support: np.ndarray, coef: np.ndarray, n_jobs: int | None
) -> np.ndarray:
    """K[:, support] @ coef for many machines: each kernel value is made once, and none is kept.

    Parameters
    ----------
    rows : KernelRows
    support : ndarray of shape (n_sv,)
    coef : ndarray of shape (K, n_sv)
    n_jobs : int or None

    Returns
    -------
    ndarray of shape (K, m)
    """
    m = len(rows.slot)
    sums = np.zeros((len(coef), m))
    used = np.flatnonzero(coef.any(axis=0))
    single = coef.astype(np.float32)

    def add(start):
        stop = min(m, start + _POINTS)
        for k in range(0, len(used), _SUPPORT):
            part = used[k : k + _SUPPORT]
            if rows.whole:
                tile = rows.rows[support[part], start:stop]
            else:
                tile = np.empty((len(part), stop - start), dtype=np.float32)
                rows._values(support[part], start, stop, tile)
            sums[:, start:stop] += single[:, part] @ tile

    for _ in thread_map(add, range(0, m, _POINTS), n_jobs):
        pass
    return sums
