"""One harness for every experiment: draw a split, tune, fit, measure.

The demonstration, the held-out report of ``openset fit``, ``openset compare`` and the studies all
go through :func:`evaluate_method`; they differ only in the splits they draw.
"""

from ._compare import (
    ComparedMethod,
    Learned,
    coinciding_methods,
    compare_methods,
    confidence_interval,
    learn_decisions,
    paired_differences,
    rows_within,
)
from ._harness import (
    Evaluation,
    FittedMethod,
    MethodResult,
    evaluate_method,
    fit_method,
    make_method,
    stratified_rows,
    tuning_rows,
)
from ._held_out import (
    HeldOutReport,
    Split,
    certificate_card,
    comparison_splits,
    draw_split,
    held_out_report,
    model_card,
)
from ._held_out import complete_model as complete_model
from ._held_out import hold_back as hold_back
from ._held_out import operating_point_card as operating_point_card

__all__ = [
    "ComparedMethod",
    "Evaluation",
    "FittedMethod",
    "HeldOutReport",
    "Learned",
    "MethodResult",
    "Split",
    "certificate_card",
    "coinciding_methods",
    "compare_methods",
    "comparison_splits",
    "confidence_interval",
    "draw_split",
    "evaluate_method",
    "fit_method",
    "held_out_report",
    "learn_decisions",
    "make_method",
    "model_card",
    "paired_differences",
    "rows_within",
    "stratified_rows",
    "tuning_rows",
]
