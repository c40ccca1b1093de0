"""The trade-off of a threshold: what is accepted at each, and the criteria that choose on it.

Precision: thresholds are the scores of the held-out samples, from strict to lenient; a sample that
sets a threshold is not counted. Each tests the hypothesis "precision < target", and the first that
cannot be rejected ends the sequence (fixed-sequence testing), so no correction for the number of
thresholds is needed. A sequence has a chance to begin only where many samples are accepted, but a
high precision may hold at a low coverage only. So three sequences begin at a half, a quarter and an
eighth of the samples, with a half, a quarter and a quarter of the allowed error.

The threshold that is returned lies midway between the score that is not counted and the next higher
one. Where these two are so close that rounding may exchange them, a stricter one that passed is
taken: accepting some copies of a sample and rejecting others would break the promise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binom

from ..metrics import Acceptance, check_costs
from ._criterion import CalibrationScores, Criterion, Thresholds, between, check_fraction, width
from ._mixture import lower_limit, upper_limit
from ._traffic import accepted_unknown, drawn_threshold, resampled

# (share of the known samples that the first threshold accepts, share of the allowed error)
_SEQUENCES = ((1 / 2, 1 / 2), (1 / 4, 1 / 4), (1 / 8, 1 / 4))

# Step of the targets that are tried for the message of an error.
_STEP = 1e-3


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


def settle(point: Criterion, scores: CalibrationScores) -> Thresholds:
    """Thresholds (K,) of a criterion; a best one on traffic is the mean of bootstrap samples."""
    chosen = point.thresholds(scores)
    if scores.share is None or not point.maximizes:
        return chosen
    # The curve is flat at its maximum: the best threshold of one sample is a noisy one.
    drawn = [t for part in resampled(scores) for t in drawn_threshold(point, part)]
    if not drawn:
        return chosen
    best = np.append(scores.known.max(axis=1), scores.unknown.max(axis=1))
    tried = np.unique(best)[::-1]
    possible = np.flatnonzero(is_gap(tried, scores))
    nearest = possible[np.abs(tried[possible] - np.mean(drawn)).argmin()]
    return Thresholds(_common(scores, tried, int(nearest)), chosen.attributes)


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
    maximizes: ClassVar[bool] = True

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
        raise criterion.all_rejected("a weaker criterion")
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

    states_share: ClassVar[bool] = True
    maximizes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_costs(self.costs)
        self.check_share()

    @property
    def costs(self) -> dict[str, float]:
        """The costs by name."""
        return {name: getattr(self, name) for name in ("reject", "wrong", "accept_unknown")}

    @property
    def sentence(self) -> str:
        costs = ", ".join(f"{name}={value:g}" for name, value in self.costs.items())
        return f"least expected cost ({costs}){self.among()}"

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
    states_share: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fraction("Precision", "target", self.target)
        check_fraction("Precision", "confidence", self.confidence)
        self.check_share()

    @property
    def sentence(self) -> str:
        right = f"at least {self.target * 100:g} % of the answers that name a class are right"
        return f"{right}{self.among()}, with confidence {self.confidence:g}"

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
        good = known * lower_limit(above.right, n_known, error / 4)
        bad = known * upper_limit(above.wrong, n_known, error / 4)
        bad += self.unknown_share * upper_limit(above.unknown, n_unknown, error / 2)
        return good >= self.target * (good + bad)
