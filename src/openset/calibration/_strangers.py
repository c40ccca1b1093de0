"""At most a share of the strangers is accepted: hierarchical conformal prediction.

Strangers come as G identities (people, intents, kinds of fault), exchangeable with the next one.
Every one has the mass 1 / (G + 1), in equal parts on its samples, and the identity to come the
rest, above all scores. A random sample of it scores more than s with a probability of at most the
mass above s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from ..model_selection import held_out_scores
from ._criterion import SLACK, CalibrationScores, Criterion, fewest_groups, masses, width

# Rates of the trade-off that is told; folds of classes that are withheld one after the other.
_RATES = (0.1, 0.01, 0.001)
_FOLDS = 5

# Where strangers come from that nobody passed; the rate that is stated is too high where
# rate (K + 1) is less than _ENOUGH (benchmarks/promises.md).
_WITHHELD, _ENOUGH = "known classes that were withheld: an estimate, probably too", 2


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
    them. That is an estimate, no promise: the model that is delivered knows more classes, and a
    maximum over more classes may accept more strangers. Measured with K classes, it accepts 0.9 to
    1.1 times the rate on average where rate (K + 1) is 5 or more, and far less, at the expense of
    known samples, where that is 1.

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

    def check_unknown(self, X_unknown: Any, passed_for_price: bool) -> None:
        pass  # without X_unknown known classes are withheld

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


def withheld_scores(
    estimator: BaseEstimator, X: Any, y: np.ndarray, known: np.ndarray, fit_rows, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Class indices of known rows, and highest scores (m, 1) by models that have not seen them."""
    # The classes are withheld in folds; each model is fitted to the fitting rows of the others.
    if isinstance(estimator, FrozenEstimator):
        raise ValueError(
            "StrangersAccepted needs X_unknown and unknown_groups in fit, strangers with their "
            "identities: a fitted model cannot withhold classes. Or pass the estimator unfitted, "
            "for an estimate from known classes that are withheld."
        )
    classes, codes = np.unique(y[known], return_inverse=True)
    if len(classes) < 3:
        raise ValueError(
            f"StrangersAccepted without X_unknown withholds known classes; {len(classes)} are too "
            "few. Pass X_unknown and unknown_groups, strangers with their identities."
        )
    n_folds = min(_FOLDS, len(classes))
    fold_of = check_random_state(random_state).permutation(np.arange(len(classes)) % n_folds)
    fold = np.full(len(y), -1)  # known unknowns are fitted in every fold, and never scored
    fold[known] = fold_of[codes]
    return codes, held_out_scores(estimator, X, y, fold, fit_rows)[known, None]


def check_unseen(model: Any, Z_unknown: Any, known_unknowns: Any, X_unknown: Any) -> None:
    """Raise ValueError if strangers were fitted to as known unknowns, of y or of the model."""
    # `Z_unknown` are the strangers as the model sees them.
    kept = model.kept_samples() if getattr(model, "n_known_unknowns_", 0) else None
    pairs: Any = (X_unknown, known_unknowns), (Z_unknown, kept and kept[0])
    for pair in pairs:
        arrays = [m.toarray() if sparse.issparse(m) else np.asarray(m) for m in pair]
        if not all(m.ndim == 2 and m.dtype.kind in "iuf" for m in arrays):
            continue
        first, seen = ({row.tobytes() for row in m.astype(np.float64)} for m in arrays)
        if n_seen := len(first & seen):
            raise ValueError(
                f"{n_seen} samples of X_unknown are known unknowns that the model was fitted to; "
                "a model rejects what it has seen. Pass strangers that are new to it."
            )
