"""The contract of an open-set classifier, and the base class of kernel machines.

The submodules ``machines`` (trained kernel machines) and ``parameters`` (grids and constraints that
methods share) are imported by their names.
"""

from ._certificate import Certificate, known_radius
from ._classifier import OpenSetClassifier, SearchSpec, Traits
from ._delegate import DelegatingClassifier
from ._explain import explain
from ._kernel_machine import KernelMachineClassifier
from ._pipeline import OpenSetPipeline, make_pipeline
from ._predictions import PredictionExplainer
from ._validation import (
    TrainingData,
    check_labels,
    resolve_unknown_label,
    validate_samples,
    validate_targets,
    validate_training_data,
)

__all__ = [
    "Certificate",
    "DelegatingClassifier",
    "KernelMachineClassifier",
    "OpenSetClassifier",
    "OpenSetPipeline",
    "PredictionExplainer",
    "SearchSpec",
    "TrainingData",
    "Traits",
    "check_labels",
    "explain",
    "known_radius",
    "make_pipeline",
    "resolve_unknown_label",
    "validate_samples",
    "validate_targets",
    "validate_training_data",
]
