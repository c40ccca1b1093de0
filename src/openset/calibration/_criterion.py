"""What every criterion has: a promise in a sentence, the samples it needs, and its thresholds.

A criterion is a frozen dataclass. It sees the scores of samples that the estimator was not fitted
to, and returns thresholds that lie in gaps between scores which rounding cannot close.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..metrics import Acceptance

# Relative rounding error of a score in double precision, with a margin; that of a sum of masses.
_ROUNDING = 1e-12
SLACK = 1 + _ROUNDING

_MOST = 0.999  # share of unknown rows that is estimated

# The parameters that are shares, of whatever criterion.
_SHARES = {"alpha", "confidence", "rate", "share", "target", "unknown_share"}


class CalibrationScores(NamedTuple):
    """Scores of samples that the estimator was not fitted to, above its own thresholds."""

    known: np.ndarray  # (n, K)
    codes: np.ndarray  # (n,) class indices
    unknown: np.ndarray  # (m, K) or, the highest, (m, 1)
    classes: np.ndarray  # (K,)
    far: np.ndarray  # (K,), far away from all samples
    band: float = 0.0  # scores closer than this count as equal
    groups: np.ndarray | None = None  # (n,) indices of objects, None where rows are independent
    unknown_groups: Any = None  # (m,) indices of identities
    whose: str = "of known classes"  # are the calibration samples, in a message
    share: float | None = None  # of unknown rows, if `unknown` are rows of traffic

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """Highest scores (n,) of known and (m,) of unknown samples."""
        return self.known.max(axis=1), self.unknown.max(axis=1)

    def take(self, rows: np.ndarray) -> CalibrationScores:
        """The same of some of the known samples."""
        groups = None if self.groups is None else self.groups[rows]
        return self._replace(known=self.known[rows], codes=self.codes[rows], groups=groups)

    def parts(self, codes: np.ndarray, kind: str, names: np.ndarray) -> Iterator[tuple]:
        """Rows of each class or category, of which (n,) are the codes, and the same of them."""
        for c, name in enumerate(names.tolist()):
            rows = np.flatnonzero(codes == c)
            yield rows, self.take(rows)._replace(whose=f"of {kind} {name!r}")

    def counts(self) -> Acceptance:
        """Count what is accepted at each threshold: infinity and all scores, descending."""
        codes = np.append(self.codes, np.full(len(self.unknown), len(self.classes)))
        counts = Acceptance.of_scores(codes, np.vstack([self.known, self.unknown]))
        if self.share is None:
            return counts
        # Of traffic the estimated number of unknown rows, which may not fall.
        n, accepted_known = counts.unknown[-1], counts.known / len(self.known)
        estimate = counts.unknown - (1 - self.share) * n * accepted_known
        estimate = np.clip(estimate, 0.0, self.share * n)
        return counts._replace(unknown=np.maximum.accumulate(estimate))

    def unknown_rejected(self, thresholds: np.ndarray) -> float:
        """Share of the unknown samples that thresholds (K,) reject; of traffic an estimate."""
        if self.share is None:
            return rejected(self.unknown, thresholds)
        parts = (self.known, self.unknown)
        known, traffic = (np.mean((part - thresholds).max(axis=1) >= 0) for part in parts)
        return float(np.clip(1 - (traffic - (1 - self.share) * known) / self.share, 0.0, 1.0))

    def is_gap(self, thresholds: np.ndarray) -> np.ndarray:
        """(n,) bool: whether each of descending scores lies above the next, rounding aside."""
        gap = thresholds[:-1] - thresholds[1:] > width(thresholds[1:], self.band)
        separate = np.append(gap, True)
        if self.share is not None:
            # Also above the scores far away from all samples: this traffic may have no unknown row
            # there, and the next one may.
            for far in self.far[np.isfinite(self.far)]:
                separate &= thresholds > far + width(far, self.band)
        return separate

    def below(self, thresholds: np.ndarray, i: int) -> float:
        """A threshold with the same answers as the i-th of descending scores."""
        lowest = thresholds[-1] - 1e-3 * max(1.0, abs(thresholds[-1]))
        return between(thresholds[i], np.append(thresholds, lowest)[i + 1], self.far)


@dataclass(frozen=True)
class Criterion:
    """Base class of the criteria."""

    promises: ClassVar[bool] = False  # whether samples to come are promised anything
    takes: ClassVar[tuple[str, ...]] = ()  # of groups, unknown_groups and categories
    states_share: ClassVar[bool] = False  # whether unknown_share is a field
    maximizes: ClassVar[bool] = False  # whether the threshold is the best one of a curve
    # Without annotations: a criterion may have them as fields.
    within = None  # or "class" or "category": within what it holds
    unknown_share = None  # of the samples to come
    weaker: ClassVar[str] = "a weaker criterion"
    all_rejected: ClassVar[str] = (
        "Only a threshold that rejects all known samples satisfies {0}: the samples of X_unknown "
        "score too high. Choose {0.weaker}, or train a better estimator."
    )
    remedy: ClassVar[str] = "Train a better estimator, or choose a stricter operating point."

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _SHARES and (value is not None or field.default is not None):
                zero = field.name == "unknown_share"
                check_fraction(type(self).__name__, field.name, value, zero=zero)

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
        if "unknown_groups" in self.takes:
            return  # without X_unknown known classes are withheld
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

    def check_traffic(self, X_unknown: Any) -> None:
        """Raise ValueError if traffic cannot take the place of samples of unknowns."""
        if X_unknown is not None:
            raise ValueError("X_unknown and X_traffic were passed. Pass one of them.")
        if "unknown_groups" in self.takes or self.within == "category":
            raise ValueError(
                f"{self} cannot be used with X_traffic, whose rows have no identity and no "
                "category. Leave X_traffic out."
            )
        if self.unknown_share is not None:
            raise ValueError(
                f"X_traffic was passed, but {self} states unknown_share. Leave it at None to have "
                "it estimated, or leave X_traffic out."
            )

    def with_share(self, share: float) -> Criterion:
        """The same with an estimated share of unknown rows; ValueError if there should be some."""
        if share == 0 and self.needs_unknown:
            raise ValueError(
                f"No row of X_traffic seems to be unknown, and {self} needs some. Use "
                "KnownRejected, or pass X_unknown."
            )
        given: dict[str, Any] = {"unknown_share": min(share, _MOST)} if self.states_share else {}
        return replace(self, **given)

    def check_enough(self, n: int, groups: np.ndarray | None, whose: str | None) -> None:
        """Raise ValueError if n samples, of groups (n,), are too few; None is before the fit."""

    def values(self, scores: CalibrationScores) -> tuple[np.ndarray, np.ndarray]:
        """Descending thresholds, the first of which rejects all, and the value of each."""
        raise NotImplementedError

    def thresholds(self, scores: CalibrationScores) -> Any:
        """Choose the threshold, or those of the classes; ValueError if none keeps the criterion."""
        tried, value = self.values(scores)
        best = int(np.where(scores.is_gap(tried), value, -np.inf).argmax())
        if best == 0:
            raise ValueError(self.all_rejected.format(self))
        return scores.below(tried, best)

    def attributes(self, scores: CalibrationScores, withheld: bool) -> dict[str, Any]:
        """Further attributes of the fitted model; unknown samples may be withheld known ones."""
        return {}


def check_fraction(owner: str, name: str, value: Any, *, zero: bool = False) -> None:
    """Raise ValueError unless a parameter is a number between 0 and 1."""
    fits = isinstance(value, Real) and not isinstance(value, bool)
    if not (fits and (0 < value < 1 or (zero and value == 0))):  # type: ignore[operator]
        least = "at least 0" if zero else "more than 0"
        raise ValueError(f"{owner}({name}={value!r}): {name} must be {least} and less than 1.")


def rejected(scores: np.ndarray, thresholds: np.ndarray) -> float:
    """Share of samples with scores (n, K) that thresholds, (K,) or (n, K), reject."""
    return float(np.mean((scores - thresholds).max(axis=1) < 0))


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
    """(n + 1,) mass at or below none, one, two, ... of ordered rows of groups (n,)."""
    # G groups and the one to come, below all scores, weigh the same, and so do their rows.
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return np.append(1.0, 1 / counts[inverse]).cumsum() / (len(counts) + 1)


def fewest_groups(level: float) -> int:
    """The fewest samples or groups of which one has no more mass than `level`."""
    return int(np.ceil(1 / level / SLACK)) - 1
