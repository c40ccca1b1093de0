"""Splits that simulate unknown classes, and scorers of open-set estimators.

Both work in scikit-learn's own ``GridSearchCV`` and ``cross_validate``.
"""

from ._evaluate import held_out_scores as held_out_scores
from ._scorers import get_scorer, get_scorer_names
from ._search import OpenSetSearchCV
from ._split import ClosedSetSplit, OpenSetSplit, Simulation

__all__ = [
    "ClosedSetSplit",
    "OpenSetSearchCV",
    "OpenSetSplit",
    "Simulation",
    "get_scorer",
    "get_scorer_names",
]
