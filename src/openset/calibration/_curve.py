"""The trade-off of a threshold: what is accepted at each, and the criteria that choose on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..metrics import Acceptance, check_costs
from ._criterion import CalibrationScores, Criterion, Thresholds, between, check_fraction, width
from ._traffic import accepted_unknown


def count_calibration(scores: CalibrationScores) -> Acceptance:
    """Count calibration samples and unknown ones."""
    codes = np.append(scores.codes, np.full(len(scores.unknown), len(scores.classes)))
    counts = Acceptance.of_scores(codes, np.vstack([scores.known, scores.unknown]))
    if scores.share is None:
        return counts
    unknown = accepted_unknown(counts.unknown, counts.known, len(scores.known), scores.share)
    return counts._replace(unknown=unknown)


def is_gap(thresholds: np.ndarray, scores: CalibrationScores) -> np.ndarray:
    """(n,) bool: whether each of descending scores lies above the next one, rounding aside."""
    # With traffic also whether it lies above the scores far away from all samples: this traffic may
    # have no unknown row there, and the next one may.
    gap = thresholds[:-1] - thresholds[1:] > width(thresholds[1:], scores.band)
    separate = np.append(gap, True)
    if scores.share is not None:
        for far in scores.far[np.isfinite(scores.far)]:
            separate &= thresholds > far + width(far, scores.band)
    return separate


def _common(scores: CalibrationScores, thresholds: np.ndarray, i: int) -> np.ndarray:
    """(K,) thresholds with the same answers as the i-th of descending scores."""
    lowest = thresholds[-1] - 1e-3 * max(1.0, abs(thresholds[-1]))
    value = between(thresholds[i], np.append(thresholds, lowest)[i + 1], scores.far)
    return np.full(len(scores.classes), value)


@dataclass(frozen=True)
class UnknownRejected(Criterion):
    """The lowest threshold at which a share of the unknown samples in ``fit`` is rejected.

    No promise: it holds for the samples that were passed, not for those to come.
    Price: the larger `share`, the more known samples are rejected.

    Parameters
    ----------
    share : float in (0, 1), default=0.95
        Share of the unknown samples that are rejected at least.
    """

    share: float = 0.95

    needs_unknown: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_fraction("UnknownRejected", "share", self.share)

    @property
    def sentence(self) -> str:
        return f"at least {self.share * 100:g} % of the unknown samples in fit are rejected"

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        curve = count_calibration(scores).operating_curve()
        # Allow for the rounding error of 1 - 0.95.
        enough = is_gap(curve.thresholds, scores) & (curve.aus >= self.share - 1e-12)
        return _unless_all_rejected(self, scores, curve, int(np.flatnonzero(enough)[-1]))


@dataclass(frozen=True)
class Accuracy(Criterion):
    """The threshold with the best accuracies on the known and the unknown samples in ``fit``.

    No promise. Price: it takes samples of unknowns like those to come, or unlabelled traffic.

    Parameters
    ----------
    balanced : bool, default=True
        Whether known and unknown samples count the same: the harmonic mean of the accuracies on
        both is maximized. False maximizes the expected accuracy on the traffic, which takes
        `X_traffic` in ``fit``; with a share of unknown samples that you know it is
        ``Cost(reject=1, wrong=1, accept_unknown=1, unknown_share=...)``.
    """

    balanced: bool = True

    needs_unknown: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        if not isinstance(self.balanced, bool):
            raise ValueError(f"Accuracy(balanced={self.balanced!r}): balanced must be a bool.")

    @property
    def sentence(self) -> str:
        if not self.balanced:
            return "best expected accuracy on the traffic"
        return "best harmonic mean of the accuracies on known and unknown samples in fit"

    def check_unknown(self, X_unknown: Any, passed_for_price: bool) -> None:
        if not self.balanced:
            raise ValueError(
                f"{self} needs X_traffic in fit: the plain accuracy depends on the share of "
                "unknown samples to come. If you know it, use Cost(reject=1, wrong=1, "
                "accept_unknown=1, unknown_share=...)."
            )
        super().check_unknown(X_unknown, passed_for_price)

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        curve = count_calibration(scores).operating_curve()
        value, share = curve.hna, scores.share or 0.0
        if not self.balanced:
            value = (1 - share) * curve.aks + share * curve.aus
        best = np.where(is_gap(curve.thresholds, scores), value, -1.0).argmax()
        return _unless_all_rejected(self, scores, curve, int(best))


def _unless_all_rejected(criterion, scores, curve, best: int) -> Thresholds:
    """The best threshold of a curve; ValueError if it is the first."""
    if best == 0:
        raise ValueError(
            f"Only a threshold that rejects all known samples satisfies {criterion}: the samples "
            "of X_unknown score too high. Choose a weaker criterion, or train a better estimator."
        )
    return Thresholds(_common(scores, curve.thresholds, best))


@dataclass(frozen=True)
class Cost(Criterion):
    """The threshold at which the samples to come are expected to cost least; no promise.

    Price: whatever is cheap. The fitted model has the ``cost_curve_``.

    Parameters
    ----------
    reject : float
        Cost of a known sample that is rejected.
    wrong : float
        Cost of a known sample that is accepted by a class that is not its own.
    accept_unknown : float
        Cost of an unknown sample that is accepted.
    unknown_share : float in [0, 1), default=None
        Share of unknown samples among those to come. If it is not 0, ``fit`` needs samples of
        unknowns like those to come. None is 0.

    Examples
    --------
    >>> from openset.calibration import Cost
    >>> Cost(reject=1, wrong=10, accept_unknown=20, unknown_share=0.1).sentence
    'least expected cost (reject=1, wrong=10, accept_unknown=20) where 10 % are unknown'
    """

    reject: float
    wrong: float
    accept_unknown: float
    unknown_share: float | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        check_costs(self.costs)
        if self.unknown_share is not None:
            check_fraction("Cost", "unknown_share", self.unknown_share, zero=True)

    @property
    def costs(self) -> dict[str, float]:
        """The costs by name."""
        return {name: getattr(self, name) for name in ("reject", "wrong", "accept_unknown")}

    @property
    def sentence(self) -> str:
        costs = ", ".join(f"{name}={value:g}" for name, value in self.costs.items())
        share = f" where {self.unknown_share * 100:g} % are unknown" if self.unknown_share else ""
        return f"least expected cost ({costs}){share}"

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        curve = count_calibration(scores).cost_curve(self.costs, self.unknown_share or 0.0)
        separate = is_gap(curve.thresholds, scores)
        best = int(np.where(separate, curve.cost, np.inf).argmin())
        if best == 0:
            raise ValueError(
                f"With {self} it is cheapest to reject every sample: an answer costs more than it "
                "saves. Check the costs, or train a better estimator."
            )
        values = _common(scores, curve.thresholds, best)
        return Thresholds(values, {"_cost_values": np.array(curve)})  # model files hold arrays
