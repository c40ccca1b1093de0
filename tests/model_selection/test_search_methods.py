"""The search with every method: both presets, and the grid engine against plain fits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import OneClassSVM

import openset
from openset.evt import PISVM, WSVM, ExtremeValueMachine
from openset.model_selection import OpenSetSearchCV, OpenSetSplit, get_scorer
from openset.svm import (
    DecisionBoundaryCarving,
    FixedBiasSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    OneVsRestSVC,
    OneVsSetMachine,
    OpenSetSVC,
    ThresholdSVC,
)
from openset.wrappers import ThresholdRejector

ARGUMENTS = {
    "CascadeRejector": (OneClassSVM(nu=0.1), GaussianNB()),
    "ThresholdRejector": (GaussianNB(),),
}
PER_CLASS = {
    OneVsRestSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    DecisionBoundaryCarving,
    OpenSetSVC,
    FixedBiasSVC,
    ThresholdSVC,
}
# In the order of ties.
GAMMAS = [2.0**k for k in range(15, -16, -2)]
TWENTY = [k / 20 for k in range(20)]
PRESSURES = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4]


@pytest.fixture(scope="module")
def blobs():
    """Four overlapping classes in the unit square, 16 samples each."""
    X, y = make_blobs([16] * 4, n_features=2, cluster_std=2.0, random_state=1)
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return X, np.array(["ant", "bee", "cat", "dog"])[y]


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize(("name", "kind"), openset.all_estimators())
def test_every_estimator_with_both_presets(blobs, name, kind, preset):
    X, y = blobs
    search = OpenSetSearchCV(
        kind(*ARGUMENTS.get(name, ())), preset=preset, n_repeats=1, random_state=0
    )
    search.fit(X, y)
    assert search.level_ == ("class" if preset == "paper" and kind in PER_CLASS else "model")
    assert np.isfinite(search.cv_results_["mean_test_score"]).any()
    assert search.best_params_ and len(search.cv_results_["params"]) > 1
    if search.level_ == "class":
        assert all(
            set(value) == set("ant bee cat dog".split()) for value in search.best_params_.values()
        )
    assert search.predict(X).shape == y.shape
    assert search.bounded_.shape == (4,)
    if hasattr(kind, "inclusion_proba"):
        assert search.inclusion_proba(X).shape == (len(X), 4)


@pytest.mark.parametrize(
    ("kind", "grid"),
    [
        (OneVsRestSVC, {"gamma": GAMMAS}),
        (OpenSetSVC, {"gamma": GAMMAS, "lam": TWENTY[::-1]}),
        (MulticlassOneClassSVM, {"gamma": GAMMAS, "nu": TWENTY[:0:-1]}),
        (MulticlassSVDD, {"gamma": GAMMAS}),
        (DecisionBoundaryCarving, {"gamma": GAMMAS}),
        (OneVsSetMachine, {"p_near": PRESSURES, "p_far": PRESSURES}),
        (WSVM, {"gamma": GAMMAS, "delta_R": [2.0**k for k in range(-7, 1)]}),
        (PISVM, {"gamma": GAMMAS, "threshold": TWENTY}),
        (
            ExtremeValueMachine,
            {"tail_size": [1000, 200, 100, 50, 25, 10, 5], "threshold": TWENTY},
        ),
    ],
)
def test_grids_of_the_paper(kind, grid):
    """What the paper searches; everything else has the value that it fixes."""
    searched = OpenSetSearchCV(kind(), preset="paper").describe()["grid"]
    assert set(searched) == set(grid)
    for name, values in grid.items():
        assert_allclose(searched[name], values)
    model = kind()
    assert getattr(model, "C", 1.0) == 1.0
    if kind is WSVM:
        assert (model.delta_tau, model.nu) == (0.001, 0.5)


ENGINE = [
    (OneVsRestSVC(), {"C": [1.0, 8.0]}),
    (MulticlassOneClassSVM(), {"nu": [0.05, 0.31, 0.62]}),
    (MulticlassOneClassSVM(normalize=True), {"nu": [0.05, 0.31, 0.62]}),
    (MulticlassSVDD(), {"C": [0.01, 0.3, 1.0]}),
    (MulticlassSVDD(), {"nu": [0.11, 0.52, 1.0]}),
    (DecisionBoundaryCarving(), {"C": [1.0, 8.0]}),
    (DecisionBoundaryCarving(tie="restrictive"), {"C": [1.0]}),
    (FixedBiasSVC(), {"C": [1.0, 8.0], "bias": [-0.01, -0.5]}),
    (FixedBiasSVC(mode="artificial"), {"bias": [-0.01, -0.5]}),
    (ThresholdSVC(), {"C": [1.0, 8.0], "threshold": [-0.3, 0.0, 0.5]}),
]


@pytest.mark.parametrize(("estimator", "grid"), ENGINE, ids=repr)
def test_the_engine_scores_as_plain_fits_do(blobs, estimator, grid):
    X, y = blobs
    model = clone(estimator).set_params(tol=1e-7)
    grid = {"gamma": [0.5, 8.0, 2000.0], **grid}
    settings = {"n_repeats": 3, "random_state": 0, "refit": False}
    engine = OpenSetSearchCV(model, grid, all_scores=True, **settings).fit(X, y)
    # A callable makes the search fit every setting on every split.
    plain = OpenSetSearchCV(model, grid, scoring=get_scorer("normalized_accuracy"), **settings)
    plain.fit(X, y)
    assert engine.cv_results_["params"] == plain.cv_results_["params"]
    for s in range(3):
        name = f"split{s}_test_score"
        # A score within rounding of zero may fall on either side: one sample of about 20.
        assert_allclose(engine.cv_results_[name], plain.cv_results_[name], atol=0.03)
        assert np.mean(engine.cv_results_[name] == plain.cv_results_[name]) > 0.6


@pytest.mark.parametrize(("estimator", "grid"), ENGINE, ids=repr)
def test_the_engine_scores_single_machines_as_plain_fits_do(blobs, estimator, grid):
    X, y = blobs
    model = clone(estimator).set_params(tol=1e-7)
    grid = {"gamma": [0.5, 8.0, 2000.0], **grid}
    search = OpenSetSearchCV(
        model, grid, level="class", n_repeats=2, all_scores=True, random_state=0, refit=False
    ).fit(X, y)
    candidates = search.cv_results_["params"][: len(search.cv_results_["params"]) // 4]
    codes = np.unique(y, return_inverse=True)[1]
    expected = []
    for c in range(4):
        simulations = OpenSetSplit(2, random_state=0).simulate(codes, positive=c)
        for candidate in candidates:
            scores = []
            for s in simulations:
                fitted = clone(model).set_params(**candidate).fit(X[s.fit], codes[s.fit])
                column = np.flatnonzero(fitted.classes_ == c)[0]
                accepted = fitted.decision_function(X[s.validation])[:, column] >= 0
                right = accepted == (codes[s.validation] == c)
                known = np.isin(codes[s.validation], s.known)
                scores.append(0.5 * (right[known].mean() + right[~known].mean()))
            expected.append(np.mean(scores))
    assert_allclose(search.cv_results_["mean_test_score"], expected, atol=0.03)
    assert np.mean(np.isclose(search.cv_results_["mean_test_score"], expected)) > 0.6


def test_thresholds_cost_no_fit(blobs):
    """All values of what acts after fitting are tried on one fit of each split."""
    X, y = blobs

    class Counting(PISVM):
        fits = 0
        __init__ = PISVM.__init__

        def fit(self, X, y):
            type(self).fits += 1
            return super().fit(X, y)

    grid = {"gamma": [1.0, 4.0], "threshold": TWENTY}
    OpenSetSearchCV(Counting(), grid, n_repeats=3, refit=False, random_state=0).fit(X, y)
    assert Counting.fits == 2 * 3


def test_settings_for_each_class_are_for_machines_that_decide_alone(blobs):
    X, y = blobs
    for model in (PISVM(), WSVM(), OneVsSetMachine(), ThresholdRejector(GaussianNB())):
        with pytest.raises(ValueError, match="level='class' chooses parameters"):
            OpenSetSearchCV(model, level="class").fit(X, y)


@pytest.mark.parametrize("scenario", ["open", "closed"])
@pytest.mark.parametrize(
    ("kind", "largest", "smallest"),
    [
        (OneVsRestSVC, ["gamma"], []),
        (OpenSetSVC, ["gamma", "lam"], []),
        (MulticlassOneClassSVM, ["gamma", "nu"], []),
        (MulticlassSVDD, ["gamma"], []),
        (DecisionBoundaryCarving, ["gamma"], []),
        (OneVsSetMachine, [], ["p_far", "p_near"]),
        (WSVM, ["gamma"], ["delta_R"]),
        (PISVM, ["gamma"], ["threshold"]),
        (ExtremeValueMachine, ["tail_size"], ["threshold"]),
    ],
)
def test_ties_in_the_search_of_the_paper(kind, largest, smallest, scenario):
    """Far classes, which many settings tell apart: the narrowest kernel and so on is taken."""
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    X, y = make_blobs([12] * 5, centers=corners, cluster_std=0.02, random_state=0)
    search = OpenSetSearchCV(kind(), preset="paper", scenario=scenario, random_state=0).fit(X, y)
    results = search.cv_results_
    labels = results.get("class", np.zeros(len(results["params"])))
    some = False
    for c in np.unique(labels):
        best = (labels == c) & (results["rank_test_score"] == 1)
        some |= best.sum() > 1
        for name in [*largest, *smallest]:
            values = results[f"param_{name}"][best].astype(float)
            value = max(values) if name in largest else min(values)
            chosen = search.best_params_[name]
            assert (chosen[c] if isinstance(chosen, dict) else chosen) == value
            best &= results[f"param_{name}"] == value
    assert some
