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

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.stats import beta, binom

from ..metrics import Acceptance
from ._criterion import CalibrationScores, Criterion, Thresholds, between, check_fraction
from ._curve import count_calibration, is_gap

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
    unknown_share: float | None = None  # type: ignore[assignment]

    promises: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction("Precision", "target", self.target)
        check_fraction("Precision", "confidence", self.confidence)
        if self.unknown_share is not None:
            check_fraction("Precision", "unknown_share", self.unknown_share, zero=True)

    @property
    def sentence(self) -> str:
        share = f" where {self.unknown_share * 100:g} % are unknown" if self.unknown_share else ""
        return (
            f"at least {self.target * 100:g} % of the answers that name a class are right{share}, "
            f"with confidence {self.confidence:g}"
        )

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        counts = count_calibration(scores)
        # Samples strictly above the score of a known one: those at or above the next higher score.
        held = np.flatnonzero(np.isin(counts.thresholds[1:], scores.known.max(axis=1)))
        above = Acceptance(*(values[held] for values in counts))
        sizes = int(counts.known[-1]), int(counts.unknown[-1])
        separate = is_gap(counts.thresholds, scores)[held]
        best = self._most_lenient(above, separate, *sizes)
        if best < 0:
            raise self._too_ambitious(above, separate, *sizes)
        limits = counts.thresholds[held[best]], counts.thresholds[held[best] + 1]
        return Thresholds(np.full(len(scores.classes), between(*limits, scores.far)))

    def _too_ambitious(self, above, separate, n_known, n_unknown) -> ValueError:
        """The error that names the highest target that these samples can promise."""
        highest = "no precision can be promised"
        for lower in np.arange(np.floor((self.target - 1e-9) / _STEP), 0, -1) * _STEP:
            point = replace(self, target=float(lower))
            if point._most_lenient(above, separate, n_known, n_unknown, n_tests=1) >= 0:
                highest = f"the highest target that they can promise is {lower:.3f}"
                break
        unknown = f" and {n_unknown} unknown" if n_unknown else ""
        return ValueError(
            f"target={self.target:g} cannot be promised with confidence={self.confidence:g} by "
            f"{n_known} known{unknown} calibration samples; {highest}. Lower target or confidence, "
            "give more samples, or train a better estimator."
        )

    def _most_lenient(self, above, separate, n_known, n_unknown, n_tests=None) -> int:
        """Index of the last separate threshold that a sequence of tests reaches; -1 if none."""
        last = -1
        for start, share in _SEQUENCES:
            error = share * (1 - self.confidence)
            # With fewer samples not even a faultless sequence could pass its first test.
            fewest = max(start * n_known, np.log(error) / np.log(self.target))
            possible = np.flatnonzero(separate & (above.known >= fewest))
            if not possible.size:
                continue
            begin = int(possible[0])
            end = len(separate) if n_tests is None else begin + n_tests
            part = Acceptance(*(values[begin:end] for values in above))
            failed = np.flatnonzero(~self._passes(part, error, n_known, n_unknown))
            n_passed = failed[0] if failed.size else len(part.right)
            if n_passed:
                last = max(last, int(possible[possible < begin + n_passed][-1]))
        return last

    def _passes(self, above, error, n_known, n_unknown) -> np.ndarray:
        """(m,) bool: whether each threshold is shown to have the precision."""
        if not self.unknown_share:
            return binom.sf(above.right - 1, above.known, self.target) <= error
        known = 1 - self.unknown_share
        good = known * _lower(above.right, n_known, error / 4)
        bad = known * _upper(above.wrong, n_known, error / 4)
        bad += self.unknown_share * _upper(above.unknown, n_unknown, error / 2)
        return good >= self.target * (good + bad)


def _lower(k, n, error):
    """Lower Clopper-Pearson limits of a share: k of n."""
    return np.where(k > 0, beta.ppf(error, np.maximum(k, 1), n - k + 1), 0.0)


def _upper(k, n, error):
    """Upper Clopper-Pearson limits of a share: k of n."""
    return np.where(k < n, beta.ppf(1 - error, k + 1, np.maximum(n - k, 1)), 1.0)
