"""Closed-set classifiers that learn to answer unknown."""

from ._rejectors import CascadeRejector, OpenSetWrapper, ThresholdRejector

__all__ = ["CascadeRejector", "OpenSetWrapper", "ThresholdRejector"]
