"""The order statistic behind the promise.

If a new score is exchangeable with n calibration scores, each of its n + 1 possible ranks has the
same probability. So it is below their k-th smallest with a probability of at most k / (n + 1), ties
included.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from ._gaps import between, width


def largest_rank(alpha: float, n: int) -> int:
    """floor(alpha (n + 1)): the largest k with k / (n + 1) <= alpha.

    Compared as the quotient: 0.29 x 100 is less than 29 in floating point.
    """
    k = int(alpha * (n + 1)) + 1
    while k / (n + 1) > alpha:
        k -= 1
    return k


def fewest_samples(alpha: float) -> int:
    """The smallest n for which :func:`largest_rank` is not 0."""
    n = ceil(1.0 / alpha) - 1
    return n if largest_rank(alpha, n) else n + 1


def check_enough(alpha: float, n: int, whose: str) -> None:
    """Raise ValueError if n calibration samples cannot carry the promise."""
    if largest_rank(alpha, n) == 0:
        raise ValueError(
            f"alpha={alpha:g} needs at least {fewest_samples(alpha)} calibration samples {whose}; "
            f"there are {n}. Give more (for an estimator that is fitted here, a larger X or "
            f"calibration_size), or raise alpha to {1 / (n + 1):.3g} or more."
        )


def rank_threshold(scores: np.ndarray, alpha: float, band: float, far: np.ndarray) -> float:
    """The threshold: midway between the k-th smallest score and the next lower one.

    An outlier far below does not lower the threshold: it lies no farther below the k-th smallest
    score than the median lies above it.
    """
    kth = np.sort(scores)[largest_rank(alpha, len(scores)) - 1]
    room = width(kth, band)
    lower = scores[scores < kth - room]
    if lower.size:
        room = max(room, np.median(scores) - kth)
    return between(kth, lower.max(initial=kth - 2 * room), far)
