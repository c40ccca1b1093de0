"""Gaps between scores: a threshold lies in one that rounding cannot close."""

from __future__ import annotations

import numpy as np

# Relative rounding error of a score in double precision, with a margin.
_ROUNDING = 1e-12


def width(score, band: float):
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
