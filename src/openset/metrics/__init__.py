"""Measures of open-set recognition, as plain functions.

In every measure a true label outside the known classes is unknown, without relabelling.
"""

from ._accuracy import (
    accuracy_known,
    accuracy_unknown,
    harmonic_normalized_accuracy,
    normalized_accuracy,
)

__all__ = [
    "accuracy_known",
    "accuracy_unknown",
    "harmonic_normalized_accuracy",
    "normalized_accuracy",
]
