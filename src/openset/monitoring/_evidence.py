"""Evidence against "nothing has changed", and the ranks it is made of.

The evidence is a bet that cannot be expected to win while nothing has changed. Bet j multiplies
its capital by ``exp(level[j] + slope[j] * x)`` at each sample x, a factor whose mean is at most 1
under the hypothesis. A share 1 / (t (t + 1)) of the capital is held back until sample t, so that a
change after a long quiet time is found about as fast as an early one: capital that was lost before
the change does not count. The total is a supermartingale that starts at 1, so by Ville's inequality
it ever reaches 1 / alpha with probability at most alpha.
"""

from __future__ import annotations

import numpy as np

from ..utils.compiled import njit

# Bets on the rate: the odds of an unknown answer are this many times those of rate0.
ODDS_RATIOS = 2.0 ** (np.arange(1, 13) / 2)
# Bets on p-values: the density e p^(e - 1).
EXPONENTS = np.arange(0.05, 1.0, 0.1)


def rate_bets(rate0: float) -> tuple[np.ndarray, np.ndarray]:
    """Level and slope of the bets on x = 1 (unknown) or 0: 1 + l (x - rate0), l < 1 / rate0.

    The bet for the rate q is the likelihood ratio of q and rate0, which has this form with
    l = (q - rate0) / (rate0 (1 - rate0)).
    """
    odds = rate0 / (1 - rate0) * ODDS_RATIOS
    level = np.log1p(-odds / (1 + odds)) - np.log1p(-rate0)  # x = 0: (1 - q) / (1 - rate0)
    return level, np.log(ODDS_RATIOS)


def score_bets() -> tuple[np.ndarray, np.ndarray]:
    """Level and slope of the bets on x = -log p: e p^(e - 1)."""
    return np.log(EXPONENTS), 1 - EXPONENTS


@njit(cache=True, nogil=True)
def follow(capital, n_before, x, level, slope):
    """Update the log capital of each bet in place; return the log evidence after each sample.

    Parameters
    ----------
    capital : ndarray of shape (J,)
        Logarithms of the capital at stake; -inf at the start. Changed in place.
    n_before : int
        Number of earlier samples.
    x : ndarray of shape (n,)
    level, slope : ndarray of shape (J,)

    Returns
    -------
    ndarray of shape (n,)
    """
    out = np.empty(len(x))
    for i in range(len(x)):
        t = n_before + i + 1.0
        fresh = -np.log(t * (t + 1.0))
        top = -np.log(t + 1.0)  # what is held back for later samples
        for j in range(len(capital)):
            high, low = max(capital[j], fresh), min(capital[j], fresh)
            capital[j] = high + np.log1p(np.exp(low - high)) + level[j] + slope[j] * x[i]
            top = max(top, capital[j])
        total = 0.0
        for j in range(len(capital)):
            total += np.exp(capital[j] - top)
        total = total / len(capital) + np.exp(-np.log(t + 1.0) - top)
        out[i] = top + np.log(total)
    return out


def ranks(earlier: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many of `earlier` and of the scores before each one are below it, and how many equal it.

    Parameters
    ----------
    earlier : ndarray of shape (n,)
        Sorted.
    scores : ndarray of shape (m,)
        In the order of the stream.

    Returns
    -------
    below, equal : ndarray of shape (m,), int64
        `equal` counts the score itself, too.
    """
    below = np.searchsorted(earlier, scores, side="left")
    equal = np.searchsorted(earlier, scores, side="right") - below + 1
    place = np.unique(scores, return_inverse=True)[1].reshape(-1)
    _count_before(place.astype(np.int64), below, equal)
    return below, equal


@njit(cache=True, nogil=True)
def _count_before(place, below, equal):
    """Add the earlier scores of the batch, with a Fenwick tree over their sorted places."""
    tree = np.zeros(len(place) + 1, dtype=np.int64)
    same = np.zeros(len(place), dtype=np.int64)
    for i in range(len(place)):
        k = place[i]  # places 0 to k - 1 are nodes 1 to k
        while k > 0:
            below[i] += tree[k]
            k -= k & -k
        equal[i] += same[place[i]]
        same[place[i]] += 1
        k = place[i] + 1
        while k <= len(place):
            tree[k] += 1
            k += k & -k
