"""Landmark (Nyström) machines of all classes, for training sets too large for the exact ones."""

from ._choice import choose_rows, first_of_classes, spread_over_classes
from ._features import LandmarkFeatures, Query, TrainingRows, worst_violators
from ._fit import LandmarkMachine, LandmarkTask, solve_landmarks

__all__ = [
    "LandmarkFeatures",
    "LandmarkMachine",
    "LandmarkTask",
    "Query",
    "TrainingRows",
    "choose_rows",
    "first_of_classes",
    "solve_landmarks",
    "spread_over_classes",
    "worst_violators",
]
