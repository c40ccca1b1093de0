"""Support vector machines that may answer unknown."""

from ._dbc import DecisionBoundaryCarving
from ._lambda_path import LambdaPath, lambda_path
from ._one_class import MulticlassOneClassSVM
from ._one_vs_one import one_vs_one_bias
from ._one_vs_set import OneVsSetMachine
from ._open_set_svc import OpenSetSVC
from ._svc import OneVsRestSVC
from ._svdd import MulticlassSVDD
from ._unbiased import UnbiasedSVC

__all__ = [
    "DecisionBoundaryCarving",
    "LambdaPath",
    "MulticlassOneClassSVM",
    "MulticlassSVDD",
    "OneVsRestSVC",
    "OneVsSetMachine",
    "OpenSetSVC",
    "UnbiasedSVC",
    "lambda_path",
    "one_vs_one_bias",
]
