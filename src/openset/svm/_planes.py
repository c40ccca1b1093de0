"""The two planes of a 1-vs-Set machine: a slab of decision values of small open-set risk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..utils.compiled import njit

# Smaller widths are treated as this one.
_NARROWEST = 1e-4


@dataclass(frozen=True)
class Slab:
    """Two planes at given pressures p: near + p_near * near_slope, far + p_far * far_slope."""

    near: float
    far: float
    near_slope: float
    far_slope: float


def find_slab(
    scores: np.ndarray, positive: np.ndarray, weight: np.ndarray, resolution: float, greedy: bool
) -> Slab:
    """The slab between two of the decision values of m training samples with the smallest risk.

    Scores closer than `resolution` count as equal. `greedy` looks for a local minimum instead of
    trying all pairs.
    """
    steps = np.rint(0.5 / resolution)  # a whole number, so that 1 and -1, the margin, are steps
    _, group = np.unique(np.rint(scores * steps), return_inverse=True)
    n = group.max() + 1
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, group, scores)
    np.maximum.at(high, group, scores)
    # Entry k: weight of the groups before k.
    hits, others = (
        np.append(0.0, np.bincount(group, weight * own, n).cumsum())
        for own in (positive, ~positive)
    )
    spread = max(np.ptp(scores[positive]), _NARROWEST)
    near, far = _descend(low, high, hits, others, spread)
    if not greedy:
        near, far = _exhaust(low, high, hits, others, spread, near, far)

    has_positive, has_negative = np.diff(hits) > 0, np.diff(others) > 0
    near_slope = far_slope = 0.0
    if has_positive[near] and near == 0:
        near_slope = -spread / 2
    elif has_positive[near] and has_negative[near - 1]:
        near_slope = (high[near - 1] - low[near]) / 2
    last = np.flatnonzero(has_positive)[-1]
    if far == n - 1 or (has_positive[far] and far < last and has_negative[far + 1]):
        far_slope = spread / 2
    return Slab(float(low[near]), float(high[far]), float(near_slope), float(far_slope))


@njit(cache=True, nogil=True)
def risk(width, spread, found, retrieved, total):
    """Open-set risk of a slab: too wide or too narrow, plus twice the inverse of the F-measure.

    `spread` is the width of the scores of the positive samples. `found`, `retrieved` and `total`
    are the weights of the positive samples inside, of all samples inside, of all positive samples.
    """
    if found <= 0.0:
        return 1e99
    ratio = max(width, _NARROWEST) / spread
    # 2 / F = 1 / precision + 1 / recall
    return max(ratio, 1.0) + max(1.0 / ratio, 1.0) + (retrieved + total) / found


@njit(cache=True, nogil=True)
def _exhaust(low, high, hits, others, spread, near, far):
    """Try all pairs of planes except those too wide or too narrow to be better than the best."""
    n = low.size
    total = hits[n]
    found = hits[far + 1] - hits[near]
    retrieved = found + others[far + 1] - others[near]
    best = risk(high[far] - low[near], spread, found, retrieved, total)
    first = 0
    for i in range(n):
        left = total - hits[i]
        if left <= 0.0:
            break
        # One of the two width terms is 1; the third is smallest if all positives left are found.
        room = best - 1.0 - (left + total) / left
        first = max(first, i)
        while first < n and room * max(high[first] - low[i], _NARROWEST) < spread:
            first += 1
        for j in range(first, n):
            width = high[j] - low[i]
            if width > room * spread:
                break
            found = hits[j + 1] - hits[i]
            retrieved = found + others[j + 1] - others[i]
            value = risk(width, spread, found, retrieved, total)
            if value < best:
                best = value
                near, far = i, j
    return near, far


def _descend(low, high, hits, others, spread):
    """From planes around the positive samples to a pair that no single step improves."""
    n = len(low)
    has_positive, has_negative = np.diff(hits) > 0, np.diff(others) > 0

    def value(i, j):
        found = hits[j + 1] - hits[i]
        retrieved = found + others[j + 1] - others[i]
        return risk(high[j] - low[i], spread, found, retrieved, hits[n])

    after_positive = np.append(False, has_positive[:-1])
    starts = np.flatnonzero(has_negative & (low < 0) & ~after_positive)
    near = int(starts[-1]) if starts.size else 0
    far = min(int(np.flatnonzero(has_positive)[-1]) + 1, n - 1)
    near = min(near, far)
    # Each plane in turn over all positions that widen the slab, the first smallest on ties.
    near = min(range(near, -1, -1), key=lambda i: value(i, far))
    far = min(range(far, n), key=lambda j: value(near, j))
    near = min(range(near, -1, -1), key=lambda i: value(i, far))
    best = value(near, far)
    while True:
        steps = [(near - 1, far), (near + 1, far), (near, far - 1), (near, far + 1)]
        steps = [(i, j) for i, j in steps if 0 <= i <= j < n]
        values = [value(*step) for step in steps]
        if not values or min(values) >= best:
            return near, far
        best = min(values)
        near, far = steps[values.index(best)]
