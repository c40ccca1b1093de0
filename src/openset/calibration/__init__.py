"""Operating points: thresholds, p-values and sets of classes that say what they promise."""

from ._calibrate import calibrate
from ._cost import CostCurve, cost_curve
from ._curve import OperatingCurve, operating_curve
from ._p_values import find_unknowns
from ._rejector import CalibratedRejector

__all__ = [
    "CalibratedRejector",
    "CostCurve",
    "OperatingCurve",
    "calibrate",
    "cost_curve",
    "find_unknowns",
    "operating_curve",
]
