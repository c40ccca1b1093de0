"""The contract of an open-set classifier, and the base class of kernel machines.

The submodules ``machines`` (trained kernel machines) and ``parameters`` (grids and constraints that
methods share) are imported by their names.
"""

from ._classifier import OpenSetClassifier
from ._delegate import (
    AGGREGATES,
    DelegatingClassifier,
    OpenSetPipeline,
    group_levels,
    group_scores,
    make_pipeline,
    predict_groups,
)
from ._distance import DistanceClassifier, unit_rows
from ._explain import Certificate, PredictionExplainer, explain
from ._kernel_machine import KernelMachineClassifier
from ._validation import (
    TrainingData,
    canonical,
    check_labels,
    find_unknown_label,
    group_codes,
    known_classes,
    refuse_ensembles,
    resolve_unknown_label,
    set_labels,
    takes_known_unknowns,
    usable_rows,
    validate_samples,
    validate_targets,
    validate_training_data,
)
from .machines import GridScores, known_radius
from .parameters import SearchSpec, Traits

__all__ = [
    "AGGREGATES",
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
    "canonical",
    "check_labels",
    "explain",
    "find_unknown_label",
    "group_codes",
    "group_levels",
    "group_scores",
    "known_classes",
    "known_radius",
    "make_pipeline",
    "predict_groups",
    "refuse_ensembles",
    "resolve_unknown_label",
    "set_labels",
    "takes_known_unknowns",
    "unit_rows",
    "usable_rows",
    "validate_samples",
    "validate_targets",
    "validate_training_data",
]
