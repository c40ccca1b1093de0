"""Statistics over many datasets: ranks, Friedman's test, and comparisons of methods."""

from ..evaluation import stats
from ..evaluation.stats import *  # noqa: F403

__all__ = stats.__all__
