"""Open-set estimators made of any closed-set classifier."""

from openset.wrappers._cascade import CascadeRejector
from openset.wrappers._threshold import ThresholdRejector

__all__ = ["CascadeRejector", "ThresholdRejector"]
