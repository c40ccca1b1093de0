"""The contract of an open-set classifier, and what methods of one kernel machine a class share."""

from ._classifier import (
    OpenSetClassifier,
    Traits,
    _check_labels,
    resolve_unknown_label,
)
from ._explain import explain

__all__ = [
    "OpenSetClassifier",
    "Traits",
    "_check_labels",
    "explain",
    "resolve_unknown_label",
]
