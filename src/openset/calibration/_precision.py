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

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.stats import beta, binom

from ._criterion import CalibrationScores, Criterion, Thresholds, between, check_fraction, width

# (share of the known samples that the first threshold accepts, share of the allowed error)
_SEQUENCES = ((1 / 2, 1 / 2), (1 / 4, 1 / 4), (1 / 8, 1 / 4))

# Step of the targets that are tried for the message of an error.
_STEP = 1e-3


@dataclass(frozen=True)
class Precision(Criterion):
    """Of the samples to come that are accepted, at least a share `target` gets the right class.

    Price: the threshold is the lowest that can be shown to have this property; the higher
    `target`, the more known samples are rejected.

    Parameters
    ----------
    target : float in (0, 1), default=0.99
        Share of right answers among all answers that name a class.
    confidence : float in (0, 1), default=0.95
        Probability, over calibration sets, that the promise is kept.
    unknown_share : float in [0, 1), default=None
        Share of unknown samples among those to come. If it is not 0, ``fit`` needs samples of
        unknowns like those to come. None is 0: the promise is then about known samples.

    Examples
    --------
    >>> from openset.calibration import Precision
    >>> Precision(0.99).sentence
    'at least 99 % of the answers that name a class are right, with confidence 0.95'
    """

    target: float = 0.99
    confidence: float = 0.95
    unknown_share: float | None = None

    promises: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction("Precision", "target", self.target)
        check_fraction("Precision", "confidence", self.confidence)
        if self.unknown_share is not None:
            check_fraction("Precision", "unknown_share", self.unknown_share, zero=True)

    @property
    def needs_unknown(self) -> bool:
        return bool(self.unknown_share)

    @property
    def sentence(self) -> str:
        share = f" where {self.unknown_share * 100:g} % are unknown" if self.unknown_share else ""
        return (
            f"at least {self.target * 100:g} % of the answers that name a class are right{share}, "
            f"with confidence {self.confidence:g}"
        )

    def check_unknown(self, X_unknown: Any, passed_for_price: bool) -> None:
        check_share(self, X_unknown, passed_for_price)

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        share = self.unknown_share or 0.0
        counts = count_above(scores.known, scores.codes, scores.unknown)
        threshold = precision_threshold(
            counts, self.target, self.confidence, share, scores.band, scores.far
        )
        return Thresholds(np.full(len(scores.classes), threshold))


def check_share(criterion: Any, X_unknown: Any, passed_for_price: bool) -> None:
    """Raise ValueError if `X_unknown` and the `unknown_share` of a criterion do not fit."""
    if criterion.unknown_share and X_unknown is None:
        raise ValueError(
            f"{criterion}: unknown_share={criterion.unknown_share:g} needs X_unknown in fit, "
            "samples of no known class."
        )
    if not criterion.unknown_share and X_unknown is not None and not passed_for_price:
        raise ValueError(
            f"X_unknown was passed, but {criterion} says that no unknown samples come. Set "
            "unknown_share, or leave X_unknown out."
        )


class Counts(NamedTuple):
    """Samples strictly above each threshold, from strict to lenient, (m,).

    Thresholds are the distinct scores of known samples; known samples above are answered right or
    wrong; ``upper`` is the next higher score of any sample.
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
    """The most lenient threshold with that precision; else ValueError names the highest target."""
    separate = counts.upper - counts.thresholds > width(counts.thresholds, band)
    passed = [
        _last_passed(counts, separate, start, target, share * (1 - confidence), unknown_share)
        for start, share in _SEQUENCES
    ]
    best = max(passed)
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
        f"target={target:g} cannot be promised with confidence={confidence:g} by "
        f"{counts.n_known} known"
        + (f" and {counts.n_unknown} unknown" if counts.n_unknown else "")
        + f" calibration samples; {highest}. Lower target or confidence, give more samples, or "
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
