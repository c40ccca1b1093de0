"""At most a share of the strangers is accepted: hierarchical conformal prediction.

Strangers come as G identities (people, intents, kinds of fault), exchangeable with the next one.
Each has the mass 1 / (G + 1), in equal parts on its samples, and the one to come the rest, above
all scores: a random sample of it scores more than s with at most the mass above s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing

from ..model_selection import withheld_class_scores
from ..utils import split_fitted
from ._criterion import SLACK, CalibrationScores, Criterion, fewest_groups, masses, width
from ._operating_point import Samples

_RATES = (0.1, 0.01, 0.001)  # of the trade-off that is told

# Where strangers come from that nobody passed; the rate that is stated is too high where
# rate (K + 1) is less than _ENOUGH (benchmarks/promises.md).
_WITHHELD, _ENOUGH = "known classes that were withheld: an estimate, probably too", 2


@dataclass(frozen=True)
class StrangersAccepted(Criterion):
    """At most a share `rate` of the samples of a new identity is accepted, as any class.

    This is the false match rate by which face and speaker systems are specified. Price: the lower
    `rate`, the more known samples are rejected; ``strangers_`` tells how many are named right.

    Parameters
    ----------
    rate : float in (0, 1), default=0.01
        Largest probability that a random sample of a new identity is accepted, each identity
        counting the same. G identities allow rates of 1 / (G + 1) or more.

    Notes
    -----
    ``fit`` takes samples of strangers as `X_unknown`, drawn as those to come are and new to the
    model, and their identities as `unknown_groups`. The promise holds on average over draws of the
    G identities, for every G.

    Without `X_unknown` known classes are withheld in folds, and scored by models that have not seen
    them. That is an estimate, no promise: the model that is delivered knows more classes, of which
    one may accept. With K classes it accepts 0.9 to 1.1 times the rate on average where
    rate (K + 1) is 5 or more, and far less, at the expense of known samples, where that is 1
    (benchmarks/promises.md).

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
    needs_unknown: ClassVar[bool] = True  # type: ignore[misc]
    weaker: ClassVar[str] = "a higher rate"
    remedy: ClassVar[str] = "Train a better estimator, or choose a higher rate."

    @property
    def sentence(self) -> str:
        return f"at most {self.rate * 100:g} % of the samples of a new identity are accepted"

    def thresholds(self, scores: CalibrationScores) -> float:
        if scores.unknown_groups is None:
            raise ValueError(
                f"{self} needs unknown_groups in fit, the identity of each sample of X_unknown. If "
                "each sample is of another stranger, pass np.arange(len(X_unknown))."
            )
        known, n_identities = scores.best()[0], len(np.unique(scores.unknown_groups))
        lowest = 1 / (n_identities + 1)
        if lowest > self.rate * SLACK:
            rejected = np.mean(known < stranger_threshold(scores, lowest))
            raise ValueError(
                f"{self} needs at least {fewest_groups(self.rate)} identities in unknown_groups; "
                f"there are {n_identities}. The lowest rate that they allow is {lowest:.4g}; it "
                f"rejects {rejected:.1%} of the known samples."
            )
        threshold = stranger_threshold(scores, self.rate)
        if not np.any(known >= threshold):
            raise ValueError(self.all_rejected.format(self))
        return threshold

    def attributes(self, scores: CalibrationScores, withheld: bool) -> dict[str, Any]:
        _, codes, sizes = np.unique(scores.unknown_groups, return_inverse=True, return_counts=True)
        known, strangers = scores.best()
        right, trade_off = scores.known.argmax(axis=1) == scores.codes, []
        for rate in sorted({*_RATES, self.rate}, reverse=True):
            if 1 / (len(sizes) + 1) <= rate * SLACK:
                t = stranger_threshold(scores, rate)
                accepted = np.bincount(codes, weights=strangers >= t) / sizes
                row = {"rate": rate, "threshold": t}
                row["named_right"] = float(np.mean(right & (known >= t)))
                row["accepted"] = float(accepted.mean())
                row["standard_error"] = float(accepted.std() / np.sqrt(len(sizes)))
                trade_off.append(row)
        strangers_ = {"identities": len(sizes), "trade_off": trade_off, "source": "X_unknown"}
        if withheld:
            is_low = self.rate * (len(sizes) + 1) >= _ENOUGH
            strangers_["source"] = f"{_WITHHELD} {'low' if is_low else 'high'}"
        return {"strangers_": strangers_}


def stranger_threshold(scores: CalibrationScores, rate: float) -> float:
    """The lowest threshold at which the strangers that it accepts have no more mass than `rate`."""
    known, strangers = scores.best()
    order = np.argsort(-strangers, kind="stable")
    mass = masses(scores.unknown_groups[order])  # the identity to come is above all scores
    tried = np.unique(np.append(known, strangers))[::-1]
    top = tried[0] + max(2e-3 * max(1.0, abs(tried[0])), 4 * width(tried[0], scores.band))
    tried = np.append(top, tried)
    accepted = mass[np.searchsorted(-strangers[order], -tried, side="right")]
    possible = np.flatnonzero((accepted <= rate * SLACK) & scores.is_gap(tried))
    return scores.below(tried, int(possible[-1]))


def identified(
    estimator: BaseEstimator, fitted: BaseEstimator, given: Samples, fit_rows, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Identities (m,) of strangers; highest scores (m, 1) where they are withheld known classes."""
    transform, model = split_fitted(fitted)
    if given.X_unknown is not None:
        kept = model.kept_samples() if getattr(model, "n_known_unknowns_", 0) else None
        seen = _safe_indexing(given.X, np.flatnonzero(~given.known))
        pairs = (given.X_unknown, seen), (transform(given.X_unknown), kept and kept[0])
        for strangers, fitted_to in pairs:
            if n_seen := len(_contents(strangers) & _contents(fitted_to)):
                raise ValueError(
                    f"{n_seen} samples of X_unknown are known unknowns that the model was fitted "
                    "to; a model rejects what it has seen. Pass strangers that are new to it."
                )
        return given.unknown_groups, np.empty((0, len(model.classes_)))
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            "StrangersAccepted needs X_unknown and unknown_groups in fit, strangers with their "
            "identities: a fitted model cannot withhold classes. Or pass the estimator unfitted, "
            "for an estimate from known classes that are withheld."
        )
    classes, codes = np.unique(given.y[given.known], return_inverse=True)
    if len(classes) < 3:
        raise ValueError(
            f"StrangersAccepted without X_unknown withholds known classes; {len(classes)} are too "
            "few. Pass X_unknown and unknown_groups, strangers with their identities."
        )
    scores = withheld_class_scores(estimator, given.X, given.y, given.known, fit_rows, random_state)
    return codes, scores[:, None]


def _contents(X: Any) -> set[bytes]:
    """The rows of a matrix of numbers; none of anything else."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "iuf":
        return set()
    return {row.tobytes() for row in X.astype(np.float64)}
