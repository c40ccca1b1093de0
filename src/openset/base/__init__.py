"""The contract of an open-set classifier, and the base class of kernel machines.

The submodules ``machines`` (trained kernel machines) and ``parameters`` (grids and constraints that
methods share) are imported by their names.
"""

from ._certificate import Certificate, known_radius
from ._classifier import OpenSetClassifier
from ._declarations import SearchSpec, Traits
from ._delegate import DelegatingClassifier
from ._distance import DistanceClassifier, unit_rows
from ._explain import explain
from ._grid_scores import GridScores
from ._kernel_machine import KernelMachineClassifier
from ._pipeline import OpenSetPipeline, make_pipeline
from ._predictions import PredictionExplainer
from ._unknown_label import (
    find_unknown_label,
    known_classes,
    resolve_unknown_label,
    set_labels,
    takes_known_unknowns,
    usable_rows,
)
from ._validation import (
    TrainingData,
    check_labels,
    check_sparse,
    validate_samples,
    validate_targets,
    validate_training_data,
)

__all__ = [
    "Certificate",
    "DelegatingClassifier",
    "DistanceClassifier",
    "GridScores",
    "KernelMachineClassifier",
    "OpenSetClassifier",
    "OpenSetPipeline",
    "PredictionExplainer",
    "SearchSpec",
    "TrainingData",
    "Traits",
    "check_labels",
    "check_sparse",
    "explain",
    "find_unknown_label",
    "known_classes",
    "known_radius",
    "make_pipeline",
    "resolve_unknown_label",
    "set_labels",
    "takes_known_unknowns",
    "unit_rows",
    "usable_rows",
    "validate_samples",
    "validate_targets",
    "validate_training_data",
]
