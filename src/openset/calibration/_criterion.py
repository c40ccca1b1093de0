"""What every criterion has: a promise in a sentence, the samples it needs, and its thresholds.

A criterion is a frozen dataclass. It sees the scores of samples that the estimator was not fitted
to, and returns thresholds that lie in gaps between scores which rounding cannot close.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

# Relative rounding error of a score in double precision, with a margin; that of a sum of masses.
_ROUNDING = 1e-12
SLACK = 1 + _ROUNDING


class CalibrationScores(NamedTuple):
    """Scores of samples that the estimator was not fitted to, above its own thresholds."""

    # `known` (n, K) with class indices `codes` (n,); `unknown` (m, K); `far` (K,), far away from
    # all samples; scores closer than `band` count as equal; `groups` (n,) and `unknown_groups` (m,)
    # are indices of objects and of identities, None where rows are independent; `whose` names the
    # calibration samples in a message. With a `share`, `unknown` are rows of traffic, of which this
    # share is unknown.

    known: np.ndarray
    codes: np.ndarray
    unknown: np.ndarray
    classes: np.ndarray
    far: np.ndarray
    band: float = 0.0
    groups: np.ndarray | None = None
    unknown_groups: Any = None
    whose: str = "of known classes"
    share: float | None = None


class Thresholds(NamedTuple):
    """What a criterion returns: thresholds (K,), and further attributes of the fitted model."""

    values: np.ndarray
    attributes: dict[str, Any] = {}


@dataclass(frozen=True)
class Criterion:
    """Base class of the criteria."""

    # Whether samples to come are promised anything.
    promises: ClassVar[bool] = False
    # Which of groups, unknown_groups and categories the criterion can use.
    takes: ClassVar[tuple[str, ...]] = ()
    # Whether known unknowns of the calibration samples may serve as its unknown samples.
    takes_known_unknowns: ClassVar[bool] = True
    states_share: ClassVar[bool] = False  # whether unknown_share is a field
    maximizes: ClassVar[bool] = False  # whether the threshold is the best one of a curve
    # Without annotations: a criterion may have them as fields.
    within = None  # or "class" or "category": within what it holds
    unknown_share = None  # of the samples to come
    remedy: ClassVar[str] = "Train a better estimator, or choose a stricter operating point."

    @property
    def needs_unknown(self) -> bool:
        """Whether the thresholds depend on samples of unknowns."""
        return bool(self.unknown_share)

    @property
    def sentence(self) -> str:
        """What holds for the samples to come, in words."""
        raise NotImplementedError

    def __str__(self) -> str:
        values = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        shown = [f"{name}={value!r}" for name, value, default in values if value != default]
        return f"{type(self).__name__}({', '.join(shown)})"

    def check_unknown(self, X_unknown: Any, passed_for_price: bool) -> None:
        """Raise ValueError if samples of unknowns are missing, or contradict the criterion."""
        if self.needs_unknown and X_unknown is None:
            raise ValueError(
                f"{self} needs X_unknown in fit, samples of no known class, or known unknowns: "
                "rows of y that carry an explicit unknown_label."
            )
        unused = self.states_share and not self.needs_unknown and X_unknown is not None
        if unused and not passed_for_price:
            raise ValueError(
                f"X_unknown was passed, but {self} says that no unknown samples come. Set "
                "unknown_share, or leave X_unknown out."
            )

    def check_enough(self, n_rows: int, n_groups: int | None, whose: str | None) -> None:
        """Raise ValueError if so many samples, or objects, are too few; None is before the fit."""

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        """Choose the thresholds; raise ValueError if none keeps the criterion."""
        raise NotImplementedError

    def check_share(self) -> None:
        """Raise ValueError unless the share of unknown samples to come is one, or None."""
        if self.unknown_share is not None:
            check_fraction(type(self).__name__, "unknown_share", self.unknown_share, zero=True)

    def among(self) -> str:
        """The share of unknown samples to come, for the sentence."""
        share = self.unknown_share
        return f" where {share * 100:g} % are unknown" if share else ""

    def all_rejected(self, weaker: str) -> ValueError:
        """The error where unknown samples score as high as known ones."""
        return ValueError(
            f"Only a threshold that rejects all known samples satisfies {self}: the samples of "
            f"X_unknown score too high. Choose {weaker}, or train a better estimator."
        )


def check_fraction(owner: str, name: str, value: Any, *, zero: bool = False) -> None:
    """Raise ValueError unless a parameter is a number between 0 and 1."""
    fits = isinstance(value, Real) and not isinstance(value, bool)
    if not (fits and (0 < value < 1 or (zero and value == 0))):  # type: ignore[operator]
        least = "at least 0" if zero else "more than 0"
        raise ValueError(f"{owner}({name}={value!r}): {name} must be {least} and less than 1.")


def finite_scores(model: Any, Z: Any) -> np.ndarray:
    """Scores (n, K) of transformed samples; ValueError if one is not finite."""
    scores = model.decision_function(Z)
    if not np.isfinite(scores).all():
        raise ValueError(
            f"decision_function of {type(model).__name__} gives scores that are not finite; an "
            "open-set estimator never does. Run check_open_set_estimator on it."
        )
    return scores


def width(score: Any, band: float) -> Any:
    """How far scores lie apart that count as equal: `band` and the rounding error of a score."""
    return band + _ROUNDING * np.abs(score)


def between(upper: float, lower: float, far: np.ndarray) -> float:
    """A threshold midway between the lowest score that it accepts and the next lower one."""
    # It lies above the scores far away from all samples if `upper` does, rounding aside.
    lower = np.max(far, where=far < upper - width(upper, 0.0), initial=lower)
    middle = lower + (upper - lower) / 2
    return float(middle if middle > lower else upper)


def masses(groups: np.ndarray) -> np.ndarray:
    """(n,) mass of each row: G groups and the one to come weigh the same, and so do their rows."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return 1 / ((len(counts) + 1) * counts[inverse])


def mass_quantile(scores: np.ndarray, groups: np.ndarray, level: float) -> float:
    """The lowest of scores (n,) with more mass than `level` at or below it."""
    # The group to come has its mass 1 / (G + 1) below all scores; `level` is at least that.
    order = np.argsort(scores, kind="stable")
    mass = masses(groups)[order].cumsum() + 1 / (len(np.unique(groups)) + 1)
    return float(scores[order][np.searchsorted(mass, level * SLACK, side="right")])
