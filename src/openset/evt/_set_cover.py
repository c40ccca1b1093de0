"""Greedy set cover by balls: few points whose balls hold all points of a class."""

from __future__ import annotations

import numpy as np

from ..utils.distances import DistancesTo, row_blocks

# Largest class for which it is stored who covers whom, in 64 MB.
_STORED = 8192


def greedy_cover(
    X: np.ndarray,
    distances: DistancesTo,
    start: int,
    stop: int,
    radius: np.ndarray,
    order: np.ndarray,
) -> np.ndarray:
    """Choose points of a class whose balls cover the class, the most useful first.

    Point i covers j iff their distance is at most ``radius[i]``. At each turn the point that
    covers most uncovered ones is taken, the first in `order` of equals; points that no point
    covers, not even they themselves, come last. The gains are counted once, and when a point
    becomes covered, which happens once, they fall for those that cover it. Who covers whom is
    stored for classes of up to ``_STORED`` points; beyond, that makes two passes over the
    distances.

    X are the training rows, sorted by class, those of the class being start to stop; `distances`
    are those to all of X, `radius` and `order` have shape (stop - start,). Return the chosen rows
    of X.
    """
    n = stop - start

    def covering(points):
        """Which points of the class cover each of these, shape (n_points, n)."""
        return distances(X[start + points], start, stop) <= radius

    stored = None
    if n <= _STORED:
        blocks = row_blocks(0, n, n)
        stored = np.concatenate([covering(np.arange(n)[block]) for block in blocks])

    def count_covering(points):
        """How many of the points each point of the class covers."""
        counts = np.zeros(n, dtype=np.intp)
        for block in row_blocks(0, len(points), n):
            rows = points[block]
            counts += (covering(rows) if stored is None else stored[rows]).sum(axis=0)
        return counts

    def covered_by(point):
        if stored is not None:
            return stored[:, point]
        return distances(X[[start + point]], start, stop)[0] <= radius[point]

    gain = count_covering(np.arange(n))
    uncovered = np.ones(n, dtype=bool)
    chosen = []
    while uncovered.any():
        best = int(order[gain[order].argmax()])
        if gain[best] <= 0:
            break
        fresh = np.flatnonzero(uncovered & covered_by(best))
        uncovered[fresh] = False
        gain -= count_covering(fresh)
        gain[best] = 0  # rounding may differ between blocks: never come back to this point
        if fresh.size:
            chosen.append(start + best)
    return np.concatenate([np.array(chosen, dtype=np.intp), start + np.flatnonzero(uncovered)])
