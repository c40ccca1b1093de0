"""Whatever takes a model says that it is not fitted, and does so as scikit-learn does."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline as plain_pipeline
from sklearn.preprocessing import StandardScaler

from openset import (
    CalibratedRejector,
    OpenSetKNN,
    OpenSetSearchCV,
    OpenSetSVC,
    ThresholdRejector,
    group_unknowns,
    make_pipeline,
)
from openset.base import explain
from openset.calibration import calibrate, operating_curve
from openset.discovery import Decisions
from openset.evaluation import learn_decisions
from openset.metrics import open_set_report
from openset.model_selection import get_scorer
from openset.plots import DecisionRegionsDisplay, DecisionSurfaceDisplay, OSCRDisplay
from openset.utils import split_fitted

X, y = np.arange(8.0).reshape(4, 2), np.array([0, 0, 1, 2])
USES = {
    "open_set_report": lambda model: open_set_report(model, X, y),
    "scorer": lambda model: get_scorer("normalized_accuracy")(model, X, y),
    "explain": lambda model: explain(model, X),
    "calibrate": lambda model: calibrate(model, X, y),
    "operating_curve": lambda model: operating_curve(model, X, y),
    "group_unknowns": lambda model: group_unknowns(model, X),
    "learn": lambda model: learn_decisions(model, X, y, X, Decisions(np.array([0]), ["new"], [9])),
    "regions": lambda model: DecisionRegionsDisplay.from_estimator(model, X, y),
    "surface": lambda model: DecisionSurfaceDisplay.from_estimator(model, X, 0),
    "oscr": lambda model: OSCRDisplay.from_estimator(model, X, y),
    "split_fitted": split_fitted,
}
MODELS = [
    OpenSetSVC(),
    OpenSetKNN(),
    make_pipeline(StandardScaler(), OpenSetSVC()),
    plain_pipeline(StandardScaler(), OpenSetSVC()),
    OpenSetSearchCV(OpenSetSVC()),
    GridSearchCV(OpenSetSVC(), {"C": [1.0]}),
    CalibratedRejector(OpenSetSVC()),
    ThresholdRejector(LogisticRegression()),
    FrozenEstimator(OpenSetSVC()),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_model_that_is_not_fitted(use, model):
    with pytest.raises(NotFittedError):
        use(model)
