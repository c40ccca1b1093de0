"""Support vector machines that may answer unknown."""

from ._landmarks import fit_distributed, predict_distributed
from ._open_set_svc import LambdaPath, OpenSetSVC, lambda_path
from ._planes import DecisionBoundaryCarving, OneVsSetMachine
from ._svc import (
    FixedBiasSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    OneVsRestSVC,
    ThresholdSVC,
    one_vs_one_bias,
)

__all__ = [
    "DecisionBoundaryCarving",
    "FixedBiasSVC",
    "LambdaPath",
    "MulticlassOneClassSVM",
    "MulticlassSVDD",
    "OneVsRestSVC",
    "OneVsSetMachine",
    "OpenSetSVC",
    "ThresholdSVC",
    "fit_distributed",
    "lambda_path",
    "one_vs_one_bias",
    "predict_distributed",
]
