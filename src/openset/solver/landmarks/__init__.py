"""Landmark (Nyström) machines of all classes, for training sets too large for the exact ones."""

from ._choice import choose_rows, spread_over_classes
from ._features import LandmarkFeatures, Query, TrainingRows, worst_violators
from ._fit import LandmarkSolution, LandmarkTask, solve_landmarks

__all__ = [
    "LandmarkFeatures",
    "LandmarkSolution",
    "LandmarkTask",
    "Query",
    "TrainingRows",
    "choose_rows",
    "solve_landmarks",
    "spread_over_classes",
    "worst_violators",
]
