"""At most a share of the strangers is accepted: hierarchical conformal prediction.

Strangers come as G identities (people, intents, kinds of fault), exchangeable with the next one,
each with its own number of samples. Every identity has the mass 1 / (G + 1), in equal parts on its
samples, and the identity to come has the rest, above all scores. A random sample of it scores more
than s with a probability of at most the mass above s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._criterion import CalibrationScores, Criterion, Thresholds, between, check_fraction, width
from ._known_rejected import masses

# Rates of the trade-off that is told.
_RATES = (0.1, 0.01, 0.001)
_SLACK = 1 + 1e-12  # allows for the rounding error of a sum of masses


@dataclass(frozen=True)
class StrangersAccepted(Criterion):
    """At most a share `rate` of the samples of a new identity is accepted, as any class.

    This is the false match rate by which face and speaker systems are specified.
    Price: the lower `rate`, the more known samples are rejected; ``strangers_`` tells how many are
    named right.

    Parameters
    ----------
    rate : float in (0, 1), default=0.01
        Largest probability that a random sample of a new identity is accepted, each identity
        counting the same. G identities allow rates of 1 / (G + 1) or more.

    Notes
    -----
    ``fit`` takes the samples of strangers as `X_unknown` and their identities as `unknown_groups`:
    ones that the model has not seen, and that are drawn as those to come are. The promise holds on
    average over draws of the G identities, for every G.

    Without `X_unknown` known classes are withheld in folds, and scored by models that have not seen
    them. That is an estimate, not a promise (``promise_`` is False): the model that is delivered
    knows more classes than each of those, and a maximum over more classes may accept more
    strangers. So the rate is probably higher than stated.

    References
    ----------
    Y. Lee, R. F. Barber, R. Willett, "Distribution-free inference with hierarchical data", 2023.

    Examples
    --------
    >>> from openset.calibration import StrangersAccepted
    >>> StrangersAccepted(0.001).sentence
    'at most 0.1 % of the samples of a new identity are accepted'
    """

    rate: float = 0.01

    promises: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ("unknown_groups",)
    takes_known_unknowns: ClassVar[bool] = False
    needs_unknown: ClassVar[bool] = True  # type: ignore[misc]
    remedy: ClassVar[str] = "Train a better estimator, or choose a higher rate."

    def __post_init__(self) -> None:
        check_fraction("StrangersAccepted", "rate", self.rate)

    @property
    def sentence(self) -> str:
        return f"at most {self.rate * 100:g} % of the samples of a new identity are accepted"

    def check_unknown(self, X_unknown: Any, passed_for_price: bool) -> None:
        pass  # without X_unknown known classes are withheld

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        if scores.unknown_groups is None:
            raise ValueError(
                f"{self} needs unknown_groups in fit, the identity of each sample of X_unknown. If "
                "each sample is of another stranger, pass np.arange(len(X_unknown))."
            )
        known, strangers = scores.known.max(axis=1), scores.unknown.max(axis=1)
        right = scores.known.argmax(axis=1) == scores.codes
        groups = scores.unknown_groups
        lowest = 1 / (len(np.unique(groups)) + 1)

        def threshold_at(rate):
            return stranger_threshold(strangers, groups, rate, known, scores.band, scores.far)

        if lowest > self.rate * _SLACK:
            rejected = np.mean(known < threshold_at(lowest))
            raise ValueError(
                f"{self} needs at least {int(np.ceil(1 / self.rate * (1 - 1e-12))) - 1} identities "
                f"in unknown_groups; there are {len(np.unique(groups))}. The lowest rate that they "
                f"allow is {lowest:.4g}; it rejects {rejected:.1%} of the known samples."
            )
        threshold = threshold_at(self.rate)
        if not np.any(known >= threshold):
            raise ValueError(
                f"Only a threshold that rejects all known samples satisfies {self}: the samples of "
                "X_unknown score too high. Choose a higher rate, or train a better estimator."
            )
        rates = sorted({*_RATES, self.rate}, reverse=True)
        trade_off = []
        for rate in (rate for rate in rates if lowest <= rate * _SLACK):
            t = threshold_at(rate)
            accepted = _shares_of_groups(strangers >= t, groups)
            trade_off.append(
                {
                    "rate": rate,
                    "threshold": t,
                    "named_right": float(np.mean(right & (known >= t))),
                    "accepted": float(accepted.mean()),
                    "standard_error": float(accepted.std() / np.sqrt(len(accepted))),
                }
            )
        strangers_ = {"identities": round(1 / lowest) - 1, "trade_off": trade_off}
        return Thresholds(np.full(len(scores.classes), threshold), {"strangers_": strangers_})


def stranger_threshold(
    strangers: np.ndarray,
    groups: np.ndarray,
    rate: float,
    known: np.ndarray,
    band: float,
    far: np.ndarray,
) -> float:
    """The threshold for scores (m,) of strangers with identities (m,) and of known samples (n,).

    It lies above the highest score of a stranger at or above which there is more mass than `rate`,
    midway to the next higher score of any sample.
    """
    order = np.argsort(-strangers, kind="stable")
    descending = strangers[order]
    above = np.cumsum(masses(groups)[order])
    last = np.searchsorted(-descending, -descending, side="right") - 1  # of equal scores
    mass = 1 / (len(np.unique(groups)) + 1) + above[last]
    highest = descending[np.flatnonzero(mass > rate * _SLACK)[0]]
    every = np.unique(np.concatenate([strangers, known]))
    every = every[np.searchsorted(every, highest) :]
    gaps = np.flatnonzero(np.diff(every) > width(every[:-1], band))
    if not gaps.size:  # nothing lies above
        return float(every[-1] + max(1e-3 * max(1.0, abs(every[-1])), 2 * width(every[-1], band)))
    return between(every[gaps[0] + 1], every[gaps[0]], far)


def _shares_of_groups(accepted, groups):
    """(G,) share of each group that is accepted."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return np.bincount(inverse, weights=accepted) / counts
