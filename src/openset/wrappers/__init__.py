"""Closed-set classifiers that learn to answer unknown."""

from ._base import OpenSetWrapper
from ._cascade import CascadeRejector
from ._threshold import ThresholdRejector

__all__ = ["CascadeRejector", "OpenSetWrapper", "ThresholdRejector"]
