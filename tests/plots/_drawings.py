"""One drawing of every display, for the tests that hold for all of them."""

import numpy as np

from openset.model_selection import OpenSetSearchCV
from openset.monitoring import UnknownRateMonitor
from openset.plots import (
    CriticalDifferenceDisplay,
    DecisionRegionsDisplay,
    DecisionSurfaceDisplay,
    EvidenceDisplay,
    KnownROCDisplay,
    LambdaPathDisplay,
    OpenSetConfusionMatrixDisplay,
    OSCRDisplay,
    ScoreHistogramDisplay,
    SearchHeatmapDisplay,
    TrafficDisplay,
)
from openset.svm import OpenSetSVC, lambda_path

RANKS = {"SVM": 3.9, "EVM": 2.2, "OSSVM": 1.6, "DBC": 4.1, "OSNN": 3.2}


def test_set(boat):
    """The boat and as many samples of unknown classes around it."""
    X, y = boat
    strange = np.random.RandomState(1).uniform(-9, 9, (len(X), 2))
    return np.vstack([X, strange]), np.concatenate([y, np.repeat([7, 8], len(X) // 2)])


def search(boat):
    grid = {"gamma": [0.25, 1.0, 4.0], "lam": [0.0, 0.2, 0.4, 0.6]}
    rules = {"n_repeats": 2, "all_scores": True, "random_state": 0}
    return OpenSetSearchCV(OpenSetSVC(), grid, **rules).fit(*boat)


def regions(boat, svm, bounded, ax):
    return DecisionRegionsDisplay.from_estimator(
        bounded, *boat, grid_resolution=120, margin=0.6, certificate=True, ax=ax
    )


def unbounded_regions(boat, svm, bounded, ax):
    return DecisionRegionsDisplay.from_estimator(svm, *boat, grid_resolution=120, ax=ax)


def surface(boat, svm, bounded, ax):
    return DecisionSurfaceDisplay.from_estimator(svm, boat[0], 3, grid_resolution=40, ax=ax)


def path(boat, svm, bounded, ax):
    return LambdaPathDisplay.from_path(lambda_path(*boat, gamma=1.0, tol=1e-6), ax=ax)


def oscr(boat, svm, bounded, ax):
    display = OSCRDisplay.from_estimator(svm, *test_set(boat), ax=ax)
    return OSCRDisplay.from_estimator(bounded, *test_set(boat), ax=display.ax_)


def roc(boat, svm, bounded, ax):
    return KnownROCDisplay.from_estimator(bounded, *test_set(boat), ax=ax)


def histogram(boat, svm, bounded, ax):
    return ScoreHistogramDisplay.from_estimator(bounded, *test_set(boat), bins=20, ax=ax)


def confusion(boat, svm, bounded, ax):
    return OpenSetConfusionMatrixDisplay.from_estimator(bounded, *test_set(boat), ax=ax)


def heatmap(boat, svm, bounded, ax):
    return SearchHeatmapDisplay.from_estimator(search(boat), ax=ax)


def critical_difference(boat, svm, bounded, ax):
    return CriticalDifferenceDisplay.from_ranks(RANKS, control="OSSVM", n_datasets=20, ax=ax)


def evidence(boat, svm, bounded, ax):
    monitor = UnknownRateMonitor(rate0=0.1)
    monitor.update(np.where(np.arange(60) % 6 == 0, -1.0, 1.0))
    return EvidenceDisplay.from_monitor(monitor, ax=ax)


def traffic(boat, svm, bounded, ax):
    X, y = boat
    moved = X + np.random.RandomState(2).normal(0, 0.3, X.shape)
    return TrafficDisplay.from_estimator(bounded, test_set(boat)[0], (moved, y), bins=20, ax=ax)


DRAWINGS = {
    draw.__name__: draw
    for draw in (
        regions,
        unbounded_regions,
        surface,
        path,
        oscr,
        roc,
        histogram,
        confusion,
        heatmap,
        critical_difference,
        evidence,
        traffic,
    )
}
