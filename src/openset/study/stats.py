"""Statistics over many datasets: ranks, Friedman's test, and comparisons of methods."""

from ..utils import stats
from ..utils.stats import *  # noqa: F403

__all__ = stats.__all__
