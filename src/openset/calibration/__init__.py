"""Operating points: how many known samples may be turned away, and what that costs."""

from ._curve import OperatingCurve, operating_curve
from ._rejector import CalibratedRejector

__all__ = ["CalibratedRejector", "OperatingCurve", "operating_curve"]
