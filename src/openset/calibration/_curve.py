"""The trade-off of a threshold: what is accepted at each, and the criteria that choose on it.

Precision: thresholds are the scores of the held-out samples, from strict to lenient; a sample that
sets a threshold is not counted. Each tests the hypothesis "precision < target", and the first that
cannot be rejected ends the sequence (fixed-sequence testing): no correction for many thresholds. It
can begin only where many samples are accepted, but a high precision may hold at a low coverage
only: so there are three. Where rounding may exchange the score that is not counted and the next
higher one, a stricter threshold that passed is taken, so that copies of a sample are not divided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binom

from ..metrics import Acceptance, CostCurve, check_costs
from ._criterion import CalibrationScores, Criterion, between
from ._mixture import lower_limit, upper_limit

# (share of the known samples that the first threshold accepts, share of the allowed error)
_SEQUENCES = ((1 / 2, 1 / 2), (1 / 4, 1 / 4), (1 / 8, 1 / 4))

_STEP = 1e-3  # of the targets that are tried for the message of an error


@dataclass(frozen=True)
class UnknownRejected(Criterion):
    """The lowest threshold at which a share of the unknown samples in ``fit`` is rejected.

    No promise: it holds for the samples that were passed, not for those to come. Price: the larger
    `share`, the more known samples are rejected.

    Parameters
    ----------
    share : float in (0, 1), default=0.95
        Share of the unknown samples that are rejected at least.
    """

    share: float = 0.95

    needs_unknown: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def sentence(self) -> str:
        return f"at least {self.share * 100:g} % of the unknown samples in fit are rejected"

    def values(self, scores: CalibrationScores) -> tuple[np.ndarray, np.ndarray]:
        curve = scores.counts().operating_curve()
        enough = curve.aus >= self.share - 1e-12  # allow for the rounding error of 1 - 0.95
        return curve.thresholds, np.where(enough, np.arange(len(enough)), -1)  # the last of them


@dataclass(frozen=True)
class Accuracy(Criterion):
    """The threshold with the best accuracies on the known and the unknown samples in ``fit``.

    No promise. Price: it takes samples of unknowns like those to come, or unlabelled traffic.

    Parameters
    ----------
    balanced : bool, default=True
        True maximizes the harmonic mean of the accuracies on known and on unknown samples, False
        the expected accuracy on the traffic, which takes `X_traffic` in ``fit``; with a share that
        you know it is ``Cost(reject=1, wrong=1, accept_unknown=1, unknown_share=...)``.
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

    def values(self, scores: CalibrationScores) -> tuple[np.ndarray, np.ndarray]:
        curve, share = scores.counts().operating_curve(), scores.share or 0.0
        plain = (1 - share) * curve.aks + share * curve.aus
        return curve.thresholds, curve.hna if self.balanced else plain


def _among(unknown_share: float | None) -> str:
    return f" where {unknown_share * 100:g} % are unknown" if unknown_share else ""


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
        Share of unknown samples among those to come. Unless 0, or None, ``fit`` needs such samples.

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
    all_rejected: ClassVar[str] = (
        "With {} it is cheapest to reject every sample: an answer costs more than it saves. Check "
        "the costs, or train a better estimator."
    )

    def __post_init__(self) -> None:
        check_costs(self.costs)
        super().__post_init__()

    @property
    def costs(self) -> dict[str, float]:
        """The costs by name."""
        return {name: getattr(self, name) for name in ("reject", "wrong", "accept_unknown")}

    @property
    def sentence(self) -> str:
        costs = ", ".join(f"{name}={value:g}" for name, value in self.costs.items())
        return f"least expected cost ({costs}){_among(self.unknown_share)}"

    def values(self, scores: CalibrationScores) -> tuple[np.ndarray, np.ndarray]:
        curve = self._curve(scores)
        return curve.thresholds, -curve.cost

    def attributes(self, scores: CalibrationScores, withheld: bool) -> dict[str, Any]:
        return {"_cost_values": np.array(self._curve(scores))}  # model files hold arrays

    def _curve(self, scores: CalibrationScores) -> CostCurve:
        return scores.counts().cost_curve(self.costs, self.unknown_share or 0.0)


@dataclass(frozen=True)
class Precision(Criterion):
    """Of the samples to come that are accepted, at least a share `target` gets the right class.

    Price: the higher `target`, the more known samples are rejected; no more than must be.

    Parameters
    ----------
    target : float in (0, 1), default=0.99
        Share of right answers among all answers that name a class.
    confidence : float in (0, 1), default=0.95
        Probability, over calibration sets, that the promise is kept.
    unknown_share : float in [0, 1), default=None
        As for :class:`Cost`; with 0 the promise is about known samples.

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

    @property
    def sentence(self) -> str:
        right = f"at least {self.target * 100:g} % of the answers that name a class are right"
        return f"{right}{_among(self.unknown_share)}, with confidence {self.confidence:g}"

    def thresholds(self, scores: CalibrationScores) -> float:
        counts = scores.counts()
        # Samples strictly above the score of a known one: those at or above the next higher score.
        held = np.flatnonzero(np.isin(counts.thresholds[1:], scores.best()[0]))
        above = Acceptance(*(values[held] for values in counts))
        sizes = len(scores.known), int(counts.unknown[-1])
        separate = scores.is_gap(counts.thresholds)[held]
        best = self._most_lenient(above, separate, *sizes)
        if best < 0:
            raise self._too_ambitious(above, separate, *sizes)
        upper, lower = counts.thresholds[held[best] : held[best] + 2]
        return between(upper, lower, scores.far)

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
            begin = int(possible[0]) if possible.size else len(separate)
            part = Acceptance(*(values[begin:][:n_tests] for values in above))
            n_passed = np.cumprod(self._passes(part, error, n_known, n_unknown)).sum()
            last = max([last, *possible[possible < begin + n_passed][-1:]])
        return int(last)

    def _passes(self, above, error, n_known, n_unknown) -> np.ndarray:
        """(m,) bool: whether each threshold is shown to have the precision."""
        if not self.unknown_share:
            return binom.sf(above.right - 1, above.known, self.target) <= error
        known = 1 - self.unknown_share
        good = known * lower_limit(above.right, n_known, error / 4)
        bad = known * upper_limit(above.wrong, n_known, error / 4)
        bad += self.unknown_share * upper_limit(above.unknown, n_unknown, error / 2)
        return good >= self.target * (good + bad)
