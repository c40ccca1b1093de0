"""Landmark (Nyström) machines of all classes, for training sets too large for the exact ones."""

from ._choice import choose_rows
from ._features import LandmarkFeatures
from ._fit import solve_landmarks, spread_over_classes
from ._machine import LandmarkSolution, LandmarkTask
from ._rows import Query, TrainingRows, Worst, block_violators, training_rows

__all__ = [
    "LandmarkFeatures",
    "LandmarkSolution",
    "LandmarkTask",
    "Query",
    "TrainingRows",
    "Worst",
    "block_violators",
    "choose_rows",
    "solve_landmarks",
    "spread_over_classes",
    "training_rows",
]
