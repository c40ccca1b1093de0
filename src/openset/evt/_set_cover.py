"""Greedy set cover by balls: few points whose balls hold all points of a class."""

from __future__ import annotations

import numpy as np

from ..utils.distances import DistancesTo, row_blocks


def greedy_cover(
    X: np.ndarray, distances: DistancesTo, start: int, stop: int, radius: np.ndarray
) -> np.ndarray:
    """Choose points of a class whose balls cover the class, the most useful first.

    Point i covers j iff their distance is at most ``radius[i]``. At each turn the point that
    covers most uncovered ones is taken, the first of equals; points that no point covers, not even
    they themselves, come last. No matrix is stored: the gains are counted once, and when a point
    becomes covered, which happens once, its distances show whose gains fall. That makes two passes
    over the distances.

    X are the training rows, sorted by class, those of the class being start to stop; `distances`
    are those to all of X, `radius` has shape (stop - start,). Return the chosen rows of X.
    """
    n = stop - start

    def count_covering(points):
        """How many of the points, rows of X, each row of the class covers."""
        counts = np.zeros(n, dtype=np.intp)
        for block in row_blocks(0, len(points), n):
            counts += (distances(X[points[block]], start, stop) <= radius).sum(axis=0)
        return counts

    gain = count_covering(np.arange(start, stop))
    uncovered = np.ones(n, dtype=bool)
    chosen = []
    while uncovered.any():
        best = int(gain.argmax())
        if gain[best] <= 0:
            break
        own = distances(X[start + best : start + best + 1], start, stop)[0]
        fresh = np.flatnonzero(uncovered & (own <= radius[best]))
        uncovered[fresh] = False
        gain -= count_covering(start + fresh)
        gain[best] = 0  # rounding may differ between blocks: never come back to this point
        if fresh.size:
            chosen.append(start + best)
    return np.concatenate([np.array(chosen, dtype=np.intp), start + np.flatnonzero(uncovered)])
