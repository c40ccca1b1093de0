"""Landmark (Nyström) machines of all classes, for training sets too large for the exact ones."""

from ._features import LandmarkFeatures
from ._fit import LandmarkSolution, LandmarkTask, solve_landmarks, spread_over_classes
from ._rows import LocalRows, Query, TrainingRows, block_violators, join_violators

__all__ = [
    "LandmarkFeatures",
    "LandmarkSolution",
    "LandmarkTask",
    "LocalRows",
    "Query",
    "TrainingRows",
    "block_violators",
    "join_violators",
    "solve_landmarks",
    "spread_over_classes",
]
