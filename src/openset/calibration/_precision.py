"""A threshold above which the answers are right with a given precision, with confidence.

Thresholds are the scores of the held-out samples, from strict to lenient; a sample that sets a
threshold is not counted. Each tests the hypothesis "precision < target", and the first that cannot
be rejected ends the sequence (fixed-sequence testing), so no correction for the number of
thresholds is needed. A sequence has a chance to begin only where many samples are accepted, but a
high precision may hold at a low coverage only. So three sequences begin at a half, a quarter and an
eighth of the samples, with a half, a quarter and a quarter of the allowed error.

The threshold that is returned lies midway between the score that is not counted and the next higher
one. Where these two are so close that rounding may exchange them, a stricter one that passed is
taken: accepting some copies of a sample and rejecting others would break the promise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import beta, binom

from ._gaps import between, width

# (share of the known samples that the first threshold accepts, share of the allowed error)
_SEQUENCES = ((1 / 2, 1 / 2), (1 / 4, 1 / 4), (1 / 8, 1 / 4))

# Step of the targets that are tried for the message of an error.
_STEP = 1e-3


class Counts(NamedTuple):
    """Samples above each threshold, from strict to lenient.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Distinct scores of known samples, descending; above means strictly above.
    right, wrong : ndarray of shape (m,)
        Known samples with a higher score whose class is answered, and those with another answer.
    unknown : ndarray of shape (m,)
        Unknown samples with a higher score.
    upper : ndarray of shape (m,)
        The next higher score of any sample.
    n_known, n_unknown : int
        All samples.
    """

    thresholds: np.ndarray
    right: np.ndarray
    wrong: np.ndarray
    unknown: np.ndarray
    upper: np.ndarray
    n_known: int
    n_unknown: int


def count_above(scores: np.ndarray, codes: np.ndarray, unknown_scores: np.ndarray) -> Counts:
    """Count known samples, with scores (n, K) and class codes (n,), and unknown samples (m, K)."""
    best, right = scores.max(axis=1), scores.argmax(axis=1) == codes
    thresholds = np.unique(best)[::-1]
    others = unknown_scores.max(axis=1) if len(unknown_scores) else np.empty(0)

    def above(values):
        return len(values) - np.searchsorted(np.sort(values), thresholds, side="right")

    every = np.unique(np.concatenate([best, others]))
    upper = np.append(every, np.inf)[np.searchsorted(every, thresholds, side="right")]
    counts = above(best[right]), above(best[~right]), above(others)
    return Counts(thresholds, *counts, upper, len(best), len(others))


def precision_threshold(
    counts: Counts,
    target: float,
    confidence: float,
    unknown_share: float,
    band: float,
    far: np.ndarray,
) -> float:
    """The most lenient threshold with a precision of at least `target`, with confidence.

    Raises ValueError if the samples cannot promise it;
    the message names the highest target that they can.
    """
    separate = counts.upper - counts.thresholds > width(counts.thresholds, band)
    found = [
        _last_passed(counts, separate, start, target, share * (1 - confidence), unknown_share)
        for start, share in _SEQUENCES
    ]
    best = max(found)
    if best >= 0:
        return between(counts.upper[best], counts.thresholds[best], far)
    lower = np.arange(np.floor((target - 1e-9) / _STEP), 0, -1) * _STEP
    setting = confidence, unknown_share
    possible = next((t for t in lower if _promises(counts, separate, t, *setting)), None)
    highest = (
        "no precision can be promised"
        if possible is None
        else f"the highest target that they can promise is {possible:.3f}"
    )
    raise ValueError(
        f"precision={target:g} cannot be promised with confidence={confidence:g} by "
        f"{counts.n_known} known"
        + (f" and {counts.n_unknown} unknown" if counts.n_unknown else "")
        + f" calibration samples; {highest}. Lower precision or confidence, give more samples, or "
        "train a better estimator."
    )


def _promises(counts, separate, target, confidence, share_unknown) -> bool:
    errors = [(start, share * (1 - confidence)) for start, share in _SEQUENCES]
    return any(
        _last_passed(counts, separate, start, target, error, share_unknown, first=True) >= 0
        for start, error in errors
    )


def _last_passed(counts, separate, start, target, error, unknown_share, first=False) -> int:
    """Index of the last separate threshold of a sequence that passes; -1 if the first does not.

    With `first`, only the first threshold is tested.
    """
    accepted = counts.right + counts.wrong
    # With fewer samples not even a faultless sequence could pass its first test.
    fewest = max(start * counts.n_known, np.log(error) / np.log(target))
    possible = np.flatnonzero(separate & (accepted >= fewest))
    if not possible.size:
        return -1
    begin = int(possible[0])
    part = slice(begin, begin + 1 if first else len(accepted))
    right, wrong, unknown = counts.right[part], counts.wrong[part], counts.unknown[part]
    if unknown_share == 0:
        passed = binom.sf(right - 1, right + wrong, target) <= error
    else:
        n, m = counts.n_known, counts.n_unknown
        known = 1 - unknown_share
        good = known * _lower(right, n, error / 4)
        bad = known * _upper(wrong, n, error / 4) + unknown_share * _upper(unknown, m, error / 2)
        passed = good >= target * (good + bad)
    failed = np.flatnonzero(~passed)
    n_passed = failed[0] if failed.size else len(passed)
    return int(possible[possible < begin + n_passed][-1]) if n_passed else -1


def _lower(k, n, error):
    """Lower Clopper-Pearson limits of a share: k of n."""
    return np.where(k > 0, beta.ppf(error, np.maximum(k, 1), n - k + 1), 0.0)


def _upper(k, n, error):
    """Upper Clopper-Pearson limits of a share: k of n."""
    return np.where(k < n, beta.ppf(1 - error, k + 1, np.maximum(n - k, 1)), 1.0)
