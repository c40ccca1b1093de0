"""Support vector machines that may answer unknown."""

from ._dbc import DecisionBoundaryCarving
from ._distributed import fit_distributed, predict_distributed
from ._fixed_bias import FixedBiasSVC
from ._lambda_path import LambdaPath, lambda_path
from ._one_class import MulticlassOneClassSVM, MulticlassSVDD
from ._one_vs_set import OneVsSetMachine
from ._open_set_svc import OpenSetSVC
from ._svc import OneVsRestSVC, one_vs_one_bias
from ._threshold import ThresholdSVC

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
