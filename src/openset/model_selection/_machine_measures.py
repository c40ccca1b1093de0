"""Measures of one binary machine, for the search per class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..metrics._counts import harmonic_mean


def machine_measure(scoring: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Measure of decisions (..., n) and codes (n,): 0 positive, 1 known negative, 2 unknown.

    A positive counts as right if it is accepted, the others if they are not. Without unknowns
    every measure is the plain accuracy.
    """
    combine = {
        "accuracy": None,
        "normalized_accuracy": lambda known, unknown: 0.5 * (known + unknown),
        "harmonic_normalized_accuracy": harmonic_mean,
    }
    if scoring not in combine:
        raise ValueError(
            f"scoring={scoring!r} is not defined for a binary machine. With level='class' choose "
            f"one of {sorted(combine)}, or use level='model'."
        )

    def measure(decision, true):
        right = (decision >= 0) == (true == 0)
        unknown = true == 2
        if combine[scoring] is None or not unknown.any():
            return right.mean(axis=-1)
        return combine[scoring](
            right[..., ~unknown].mean(axis=-1), right[..., unknown].mean(axis=-1)
        )

    return measure
