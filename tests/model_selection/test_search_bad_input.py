"""Every wrong argument of the search is refused with a message that helps, before the work."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset import OneVsRestSVC, OpenSetSVC
from openset.base import OpenSetClassifier
from openset.evt import ExtremeValueMachine
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OSNN
from openset.wrappers import ThresholdRejector

X, Y = make_blobs([12] * 4, n_features=3, random_state=0)
GRID = {"gamma": [0.1, 1.0]}
PIPELINE = make_pipeline(StandardScaler(), OpenSetSVC())


class Unfit(OpenSetSVC):
    """Must not be reached."""

    def _problem(self, *args, **params):
        raise AssertionError("the argument should have been refused before any fit")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"estimator": LogisticRegression()}, TypeError, "LogisticRegression is not an open-set"),
        (
            {"estimator": make_pipeline(StandardScaler())},
            TypeError,
            "StandardScaler is not an open",
        ),
        ({"estimator": "svc"}, ValueError, "'estimator' parameter"),
        ({"estimator": OpenSetSVC}, TypeError, r"OpenSetSVC is a class. Pass an instance"),
        (
            {"estimator": PIPELINE, "param_grid": {"opensetsvc": [OpenSetSVC(), OpenSetSVC(C=8)]}},
            ValueError,
            "param_grid replaces the step 'opensetsvc'.*each estimator on its own",
        ),
        ({"estimator": None}, ValueError, "'estimator' parameter"),
        ({"param_grid": "gamma"}, ValueError, "'param_grid' parameter"),
        ({"param_grid": []}, ValueError, "param_grid=.. is empty"),
        ({"param_grid": {"gamma": []}}, ValueError, "'gamma' need.*non-empty"),
        ({"param_grid": {"gamma": 1.0}}, TypeError, "'gamma'"),
        ({"param_grid": {"gamma": "scale"}}, TypeError, "'gamma'"),
        ({"param_grid": {"gama": [1.0]}}, ValueError, "Invalid parameter 'gama'"),
        ({"param_grid": {"gamma": [1.0, -1.0]}}, ValueError, "'gamma' parameter.*-1.0"),
        ({"param_grid": {"gamma": [1.0, "wide"]}}, ValueError, "'gamma' parameter.*'wide'"),
        ({"param_grid": {"C": [0.0]}}, ValueError, "'C' parameter.*0.0"),
        ({"param_grid": [GRID, {"lam": [0.5, 1.0]}]}, ValueError, "'lam' parameter.*1.0"),
        ({"param_grid": {"lam": [np.nan]}}, ValueError, "'lam' parameter.*nan"),
        ({"param_grid": {"C": [dict.fromkeys(range(4), 1.0)]}}, ValueError, "C=.*level='class'"),
        (
            {"estimator": Unfit(C=dict.fromkeys(range(4), 1.0))},
            ValueError,
            "C=.*one value per class.*Set a number",
        ),
        ({"estimator": Unfit(kernel="linear")}, ValueError, "kernel='linear' does not decay"),
        ({"estimator": Unfit(unknown_label="no")}, ValueError, "unknown_label='no'"),
        ({"estimator": Unfit(tol=-1)}, ValueError, "'tol' parameter"),
        ({"preset": "best"}, ValueError, "'preset' parameter"),
        ({"scenario": "half-open"}, ValueError, "'scenario' parameter"),
        ({"level": "machine"}, ValueError, "'level' parameter"),
        ({"scoring": "f1"}, ValueError, "scoring='f1' is not a measure.*normalized_accuracy"),
        ({"scoring": 3}, ValueError, "'scoring' parameter"),
        ({"scoring": "oscr_area", "level": "class"}, ValueError, "'oscr_area' is not defined"),
        ({"scoring": max, "level": "class"}, ValueError, "must be a name"),
        (
            {"level": "class", "param_grid": {"gamma": [1.0], "kernel": ["rbf"]}},
            ValueError,
            r"\['gamma', 'C', 'lam'\]; param_grid has \['gamma', 'kernel'\]",
        ),
        (
            {
                "level": "class",
                "estimator": PIPELINE,
                "param_grid": {"standardscaler__with_mean": [True]},
            },
            ValueError,
            "opensetsvc__gamma.*param_grid has .'standardscaler__with_mean'",
        ),
        ({"n_repeats": 0}, ValueError, "'n_repeats' parameter.*0"),
        ({"n_repeats": -2}, ValueError, "'n_repeats' parameter"),
        ({"n_repeats": 2.5}, ValueError, "'n_repeats' parameter"),
        ({"refit": "yes"}, ValueError, "'refit' parameter"),
        ({"n_jobs": 0.5}, ValueError, "'n_jobs' parameter"),
        ({"random_state": "lucky"}, ValueError, "'random_state' parameter"),
        ({"verbose": -1}, ValueError, "'verbose' parameter"),
    ],
)
def test_bad_arguments(arguments, error, message):
    arguments = {"estimator": Unfit(), "param_grid": GRID} | arguments
    with pytest.raises(error, match=message):
        OpenSetSearchCV(**arguments).fit(X, Y)


@pytest.mark.parametrize(
    "model", [ExtremeValueMachine(), OSNN(), ThresholdRejector(OneVsRestSVC())]
)
def test_level_class_is_for_binary_machines(model):
    search = OpenSetSearchCV(model, {"threshold": [0.5]}, level="class")
    with pytest.raises(ValueError, match=f"{type(model).__name__} does not have.*level='model'"):
        search.fit(X, Y)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_an_estimator_without_a_grid_of_its_own(preset):
    class Own(OpenSetClassifier):
        unknown_label = "auto"

        def fit(self, X, y):
            raise AssertionError("not reached")

    with pytest.raises(ValueError, match=f"Own has no grid.*preset='{preset}'.*Pass param_grid"):
        OpenSetSearchCV(Own(), preset=preset).fit(X, Y)


@pytest.mark.parametrize("estimator", [Unfit(), make_pipeline(StandardScaler(), Unfit())])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None}, "target y is None"),
        ({"X": X[:-1]}, "inconsistent numbers of samples"),
        ({"X": X[:0], "y": Y[:0]}, "0 samples"),
        ({"y": Y + 0.5}, "Unknown label type"),
        ({"y": np.where(Y == 1, np.nan, Y)}, "y contains NaN"),
        ({"y": ["a", 1] * 24}, "Unknown label type"),
        ({"y": np.eye(4)[Y]}, "y should be a 1d array"),
        ({"y": np.r_[Y[:-1], 9]}, "1 sample of class 9"),
        ({"X": np.where(X > 4, np.nan, X)}, "X contains NaN"),
        ({"X": np.where(X > 4, np.inf, X)}, "X contains infinity"),
        ({"X": X[:, 0]}, "Expected 2D array"),
        ({"X": X.astype(complex)}, "Complex data"),
        (
            {"sample_weight": np.zeros(48)},
            "sample_weight is zero for every sample|at least one non-zero",
        ),
        ({"sample_weight": -np.ones(48)}, "[Nn]egative"),
        ({"sample_weight": np.ones(47)}, r"sample_weight.shape == \(47,\)"),
        ({"sample_weight": np.r_[np.ones(47), np.nan]}, "sample_weight contains NaN"),
    ],
)
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_bad_data(estimator, changes, message, preset):
    with pytest.raises(ValueError, match=message):
        OpenSetSearchCV(estimator, preset=preset).fit(**{"X": X, "y": Y} | changes)


def test_weights_for_an_estimator_that_takes_none():
    search = OpenSetSearchCV(ExtremeValueMachine(), {"threshold": [0.5]})
    with pytest.raises(ValueError, match="ExtremeValueMachine takes no weights"):
        search.fit(X, Y, sample_weight=np.ones(48))


@pytest.mark.filterwarnings("ignore:y has:UserWarning")
def test_too_few_classes():
    two = Y == 0
    with pytest.raises(ValueError, match="level='class' needs at least 2 classes"):
        OpenSetSearchCV(OpenSetSVC(), preset="paper").fit(X[two], Y[two])
    with pytest.raises(ValueError, match="OneVsRestSVC needs at least 2 classes"):
        OpenSetSearchCV(OneVsRestSVC()).fit(X[two], Y[two])
    with pytest.raises(ValueError, match="lam=0 is not defined"):
        OpenSetSearchCV(OpenSetSVC(), GRID).fit(X[two], Y[two])


@pytest.mark.parametrize("scoring", ["accuracy_unknown", "auroc_known", "oscr_area"])
def test_measures_that_need_unknowns(scoring):
    search = OpenSetSearchCV(OpenSetSVC(), GRID, scenario="closed", scoring=scoring)
    with pytest.raises(ValueError, match="not a number for any setting"):
        search.fit(X, Y)
