"""A test of what every promise rests on: new samples are like the calibration samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import ks_2samp

# Share of the calibration samples below the common score, and the fewest samples compared.
_BELOW, _FEWEST = 0.1, 10


@dataclass(frozen=True)
class Exchangeability:
    """The result of ``CalibratedRejector.check``.

    Attributes
    ----------
    p_value : float
        Of the hypothesis that new samples above the common score are exchangeable with the
        calibration samples above it. Small: do not rely on the promise.
    score : float
        The common score, under the thresholds of the estimator itself.
    n_calibration, n_new : int
        Samples above it, which are compared.
    shift : float
        Median of the new scores less that of the calibration scores, in units of the interquartile
        range of the latter; negative where new samples look less known.
    """

    p_value: float
    score: float
    n_calibration: int
    n_new: int
    shift: float

    def __str__(self) -> str:
        found = "no sign of a change" if self.p_value >= 0.05 else "CHANGED"
        return (
            f"{found}: p = {self.p_value:.3g}, {self.n_new:,} new samples that look known against "
            f"{self.n_calibration:,} calibration samples, shift {self.shift:+.2f}. It sees known "
            "samples that score lower or higher than they did, and many unknown samples that are "
            "accepted; not known samples that moved below the score from which on it compares, nor "
            "changes that leave the highest score alone."
        )


def exchangeability(calibration: np.ndarray, new: np.ndarray, threshold: float) -> Exchangeability:
    """Compare calibration scores (n,) and new ones (m,) above a common score.

    That is a calibration score at or above the threshold: given it, both are draws from one
    distribution cut off there, as far as the samples are exchangeable.
    """
    calibration = np.sort(calibration)
    rank = max(int(_BELOW * len(calibration)), int(np.searchsorted(calibration, threshold)))
    score = calibration[min(rank, len(calibration) - 1)]
    n_all = len(new)
    old, new = calibration[calibration > score], new[new > score]
    if min(len(old), len(new)) < _FEWEST:
        raise ValueError(
            f"{len(old)} calibration samples and {len(new)} of {n_all} new ones look known; "
            f"{_FEWEST} of each are needed to compare them. If known samples are among the new "
            "ones, they have changed; else give more."
        )
    spread = np.subtract(*np.quantile(old, [0.75, 0.25])) or 1.0
    shift = (np.median(new) - np.median(old)) / spread
    p_value = float(ks_2samp(old, new).pvalue)
    return Exchangeability(p_value, float(score), len(old), len(new), float(shift))
