"""Measures of open-set recognition, as plain functions.

In every measure, a true label outside the known classes counts as unknown; no relabelling is
needed.
"""

from ._counts import (
    OpenSetCounts,
    auroc_known,
    encode_labels,
    fpr_at_tpr,
    harmonic_mean,
    oscr_area,
    oscr_curve,
)
from ._curves import Acceptance, CostCurve, OperatingCurve, check_costs, cost_curve, operating_curve
from ._prediction import (
    OpenSetReport,
    accuracy_known,
    accuracy_unknown,
    f1_with_unknown,
    false_unknown_rate,
    harmonic_normalized_accuracy,
    misclassification_rate,
    normalized_accuracy,
    open_set_confusion_matrix,
    open_set_f1,
    open_set_report,
    openness,
)

__all__ = [
    "Acceptance",
    "CostCurve",
    "OpenSetCounts",
    "OpenSetReport",
    "OperatingCurve",
    "accuracy_known",
    "accuracy_unknown",
    "auroc_known",
    "check_costs",
    "cost_curve",
    "encode_labels",
    "f1_with_unknown",
    "false_unknown_rate",
    "fpr_at_tpr",
    "harmonic_mean",
    "harmonic_normalized_accuracy",
    "misclassification_rate",
    "normalized_accuracy",
    "open_set_confusion_matrix",
    "open_set_f1",
    "open_set_report",
    "openness",
    "operating_curve",
    "oscr_area",
    "oscr_curve",
]
