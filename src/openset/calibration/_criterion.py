"""What every criterion has: a promise in a sentence, the samples it needs, and its thresholds.

A criterion is a frozen dataclass. It sees the scores of samples that the estimator was not fitted
to, and returns thresholds that lie in gaps between scores which rounding cannot close.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

# Relative rounding error of a score in double precision, with a margin.
_ROUNDING = 1e-12


class CalibrationScores(NamedTuple):
    """Scores of samples that the estimator was not fitted to, above its own thresholds.

    ``known`` (n, K) with class indices ``codes`` (n,); ``unknown`` (m, K); ``far`` (K,), far away
    from all samples; scores closer than ``band`` count as equal; ``groups`` (n,) and
    ``unknown_groups`` (m,) are indices of objects and of identities, None where rows are
    independent; ``whose`` names the calibration samples in a message.
    """

    known: np.ndarray
    codes: np.ndarray
    unknown: np.ndarray
    classes: np.ndarray
    far: np.ndarray
    band: float = 0.0
    groups: np.ndarray | None = None
    unknown_groups: np.ndarray | None = None
    whose: str = "of known classes"


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
    # None, "class" or "category": within what it holds.
    within = None  # without an annotation: a criterion may have it as a field
    remedy: ClassVar[str] = "Train a better estimator, or choose a stricter operating point."

    @property
    def needs_unknown(self) -> bool:
        """Whether the thresholds depend on samples of unknowns."""
        return False

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

    def check_enough(self, n_rows: int, n_groups: int | None) -> None:
        """Raise ValueError if so many calibration samples, or objects, are too few."""

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        """Choose the thresholds; raise ValueError if none keeps the criterion."""
        raise NotImplementedError


def check_fraction(owner: str, name: str, value: Any, *, zero: bool = False) -> None:
    """Raise ValueError unless a parameter is a number between 0 and 1."""
    fits = isinstance(value, Real) and not isinstance(value, bool)
    if not (fits and (0 < value < 1 or (zero and value == 0))):  # type: ignore[operator]
        least = "at least 0" if zero else "more than 0"
        raise ValueError(f"{owner}({name}={value!r}): {name} must be {least} and less than 1.")


def width(score: Any, band: float) -> Any:
    """How far scores lie apart that count as equal: `band` and the rounding error of a score."""
    return band + _ROUNDING * np.abs(score)


def between(upper: float, lower: float, far: np.ndarray) -> float:
    """A threshold midway between the lowest score that it accepts and the next lower one.

    It lies above the scores far away from all samples, `far`, if the score `upper` does by more
    than the rounding error.
    """
    lower = np.max(far, where=far < upper - width(upper, 0.0), initial=lower)
    middle = lower + (upper - lower) / 2
    return float(middle if middle > lower else upper)


def is_gap(thresholds: np.ndarray, band: float) -> np.ndarray:
    """(n,) bool: whether each of descending scores lies above the next one, rounding aside."""
    return np.append(thresholds[:-1] - thresholds[1:] > width(thresholds[1:], band), True)


def below(thresholds: np.ndarray, i: int, far: np.ndarray) -> float:
    """A threshold with the same answers as the i-th of descending scores."""
    lowest = thresholds[-1] - 1e-3 * max(1.0, abs(thresholds[-1]))
    return between(thresholds[i], np.append(thresholds, lowest)[i + 1], far)
