"""Splits that simulate unknown classes, and scorers of open-set estimators.

Both work in scikit-learn's own ``GridSearchCV`` and ``cross_validate``.
"""

from ._evaluate import held_out_scores as held_out_scores
from ._evaluate import withheld_class_scores as withheld_class_scores
from ._scorers import get_scorer, get_scorer_names
from ._search import OpenSetSearchCV
from ._split import ClosedSetSplit, OpenSetSplit, Simulation
from ._split import calibration_split as calibration_split

__all__ = [
    "ClosedSetSplit",
    "OpenSetSearchCV",
    "OpenSetSplit",
    "Simulation",
    "get_scorer",
    "get_scorer_names",
]
