"""Operating points: thresholds, p-values and sets of classes that say what they promise."""

from ..base import group_scores, predict_groups
from ..metrics import CostCurve, OperatingCurve, cost_curve, operating_curve
from ._conformal import Exchangeability, find_unknowns
from ._curve import Accuracy, Cost, Precision, UnknownRejected
from ._known_rejected import KnownRejected
from ._mixture import Mixture, mixture
from ._rejector import CalibratedRejector, calibrate
from ._strangers import StrangersAccepted

__all__ = [
    "Accuracy",
    "CalibratedRejector",
    "Cost",
    "CostCurve",
    "Exchangeability",
    "KnownRejected",
    "Mixture",
    "OperatingCurve",
    "Precision",
    "StrangersAccepted",
    "UnknownRejected",
    "calibrate",
    "cost_curve",
    "find_unknowns",
    "group_scores",
    "mixture",
    "operating_curve",
    "predict_groups",
]
