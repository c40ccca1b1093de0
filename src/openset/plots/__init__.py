"""Figures, in the manner of scikit-learn's Display objects.

Each display is built by ``from_estimator``, ``from_predictions`` or the like, takes ``ax=``, and
returns an object that holds its numbers and its artists. No display shows a figure or changes a
setting of matplotlib.
"""

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError(
        'openset.plots needs matplotlib; run: pip install "openset[plots]"', name="matplotlib"
    ) from error

from openset.plots._confusion_matrix import OpenSetConfusionMatrixDisplay
from openset.plots._critical_difference import CriticalDifferenceDisplay
from openset.plots._curves import KnownROCDisplay, OSCRDisplay
from openset.plots._decision_regions import DecisionRegionsDisplay
from openset.plots._decision_surface import DecisionSurfaceDisplay
from openset.plots._lambda_path import LambdaPathDisplay
from openset.plots._score_histogram import ScoreHistogramDisplay
from openset.plots._search_heatmap import SearchHeatmapDisplay

__all__ = [
    "CriticalDifferenceDisplay",
    "DecisionRegionsDisplay",
    "DecisionSurfaceDisplay",
    "KnownROCDisplay",
    "LambdaPathDisplay",
    "OSCRDisplay",
    "OpenSetConfusionMatrixDisplay",
    "ScoreHistogramDisplay",
    "SearchHeatmapDisplay",
]
