"""Figures, as Display objects in the style of scikit-learn.

Each display is built by a class method such as ``from_estimator`` or ``from_predictions``, takes
``ax=``, and returns an object that holds its numbers and its artists. No display shows a figure or
changes a setting of matplotlib.
"""

from ..utils import needs

with needs("openset.plots needs matplotlib", "plots"):
    import matplotlib  # noqa: F401

from ._decision_regions import DecisionRegionsDisplay, DecisionSurfaceDisplay
from ._display import class_colors, class_marker, plain_text, tint
from ._parameters import (
    CriticalDifferenceDisplay,
    EvidenceDisplay,
    LambdaPathDisplay,
    SearchHeatmapDisplay,
)
from ._scores import (
    KnownROCDisplay,
    OpenSetConfusionMatrixDisplay,
    OSCRDisplay,
    ScoreHistogramDisplay,
    TrafficDisplay,
)

__all__ = [
    "CriticalDifferenceDisplay",
    "DecisionRegionsDisplay",
    "DecisionSurfaceDisplay",
    "EvidenceDisplay",
    "KnownROCDisplay",
    "LambdaPathDisplay",
    "OSCRDisplay",
    "OpenSetConfusionMatrixDisplay",
    "ScoreHistogramDisplay",
    "SearchHeatmapDisplay",
    "TrafficDisplay",
    "class_colors",
    "class_marker",
    "plain_text",
    "tint",
]
