"""Operating points: thresholds that reject at most a chosen share of the known samples."""

from ._curve import OperatingCurve, operating_curve
from ._rejector import CalibratedRejector

__all__ = ["CalibratedRejector", "OperatingCurve", "operating_curve"]
