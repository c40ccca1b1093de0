"""Scorers: equal to the measures by hand, in scikit-learn's searches and behind a Pipeline."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, ParameterGrid, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import metrics
from openset.base import OpenSetClassifier, validate_training_data
from openset.model_selection import ClosedSetSplit, OpenSetSplit, get_scorer, get_scorer_names
from openset.svm import OneVsRestSVC, OpenSetSVC

NAMES = {
    "normalized_accuracy",
    "harmonic_normalized_accuracy",
    "accuracy_known",
    "accuracy_unknown",
    "open_set_f1_macro",
    "open_set_f1_micro",
    "f1_with_unknown_macro",
    "f1_with_unknown_micro",
    "auroc_known",
    "neg_fpr_at_95_tpr",
    "oscr_area",
    "accuracy",
}


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def blobs():
    """Six overlapping classes, 20 samples each, named by letters."""
    X, y = make_blobs([20] * 6, n_features=2, cluster_std=2.0, random_state=0)
    return X, np.array(list("abcdef"))[y]


def by_hand(name, model, X, y):
    """The measure of a fitted estimator, from its own answers and scores."""
    labels = {"known": model.classes_, "unknown_label": model.unknown_label_}
    if name == "accuracy":
        truth = np.where(np.isin(y, model.classes_), y, model.unknown_label_)
        return accuracy_score(truth, model.predict(X))
    if name == "auroc_known":
        return metrics.auroc_known(y, model.known_score(X), known=model.classes_)
    if name == "neg_fpr_at_95_tpr":
        return -metrics.fpr_at_tpr(y, model.known_score(X), known=model.classes_, tpr=0.95)
    if name == "oscr_area":
        return metrics.oscr_area(y, model.decision_function(X), known=model.classes_)
    measure, _, average = name.rpartition("_")
    if average in ("macro", "micro"):
        return getattr(metrics, measure)(y, model.predict(X), **labels, average=average)
    return getattr(metrics, name)(y, model.predict(X), **labels)


def test_names():
    assert set(get_scorer_names()) == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_equal_to_the_measure_by_hand(name, blobs):
    X, y = blobs
    for fit, validation in OpenSetSplit(random_state=0).split(X, y):
        model = OpenSetSVC(gamma=0.5).fit(X[fit], y[fit])
        got = get_scorer(name)(model, X[validation], y[validation])
        assert type(got) is float
        assert got == by_hand(name, model, X[validation], y[validation])
        assert name == "neg_fpr_at_95_tpr" or 0 < got < 1  # no edge case by accident


@pytest.mark.parametrize("name", sorted(NAMES))
def test_worked_numbers(name):
    """The ten samples of the specification, with scores that give its predictions."""
    y = np.array(list("AAAABBCUUU"))
    scores = np.array([[c == p for c in "ABC"] for p in "AAUBBUUUAB"]) - 0.5

    class Table(OpenSetClassifier):
        unknown_label = "auto"

        def fit(self, X, y):
            validate_training_data(self, X, y)
            return self

        def decision_function(self, X):
            return scores[X[:, 0]]

    expected = {
        "accuracy_known": 3 / 7,
        "accuracy_unknown": 1 / 3,
        "normalized_accuracy": 0.380952,
        "harmonic_normalized_accuracy": 0.375,
        "open_set_f1_macro": 0.333333,
        "open_set_f1_micro": 0.461538,
        "f1_with_unknown_macro": 0.322581,
        "f1_with_unknown_micro": 0.4,
        "accuracy": 0.4,
        # Known scores: 4 of 7 knowns and 2 of 3 unknowns are accepted, all alike.
        "auroc_known": (4 * 1 + 0.5 * (4 * 2 + 3 * 1)) / 21,
        "neg_fpr_at_95_tpr": -1.0,
        # Correct and above: 3 of the accepted; ties among the rejected: one has its class first.
        "oscr_area": (3 * 1 + 0.5 * (3 * 2 + 1 * 1)) / 21,
    }
    X = np.arange(10)[:, np.newaxis]
    got = get_scorer(name)(Table().fit(X[:7], y[:7]), X, y)
    assert got == pytest.approx(expected[name], abs=5e-7)


def test_many_models_at_once():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 4, 50)
    scores = rng.normal(size=(2, 3, 50, 3))
    for name in get_scorer_names():
        values = get_scorer(name).of_scores(true, scores)
        assert values.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            assert values[i, j] == get_scorer(name).of_scores(true, scores[i, j])


def test_zero_accepts_and_the_first_class_wins_ties():
    scores = np.array([[0.0, 0.0], [-1.0, 0.0], [-1e-300, -1.0]])
    assert get_scorer("accuracy").of_scores(np.array([0, 1, 2]), scores) == 1


@pytest.mark.parametrize(
    "to_y", [np.asarray, list, pd.Series, lambda y: pd.Series(y, dtype="category")]
)
def test_kinds_of_labels(to_y, blobs):
    X, y = blobs
    model = OpenSetSVC(gamma=0.5).fit(X[y < "d"], to_y(y[y < "d"]))
    expected = by_hand("normalized_accuracy", model, X, y)
    assert get_scorer("normalized_accuracy")(model, X, to_y(y)) == expected


@pytest.mark.parametrize("name", sorted(NAMES))
def test_without_unknowns(name, blobs):
    X, y = blobs
    model = OpenSetSVC(gamma=0.5).fit(X, y)
    got = get_scorer(name)(model, X, y)
    if name in ("normalized_accuracy", "harmonic_normalized_accuracy"):
        assert got == accuracy_score(y, model.predict(X)) > 0
    elif name in ("accuracy_unknown", "auroc_known", "neg_fpr_at_95_tpr", "oscr_area"):
        assert np.isnan(got)
    else:
        assert got == by_hand(name, model, X, y) > 0


@pytest.mark.parametrize("name", sorted(NAMES))
def test_without_knowns(name, blobs):
    X, y = blobs
    model = OpenSetSVC(gamma=0.5).fit(X[y < "d"], y[y < "d"])
    got = get_scorer(name)(model, X[y >= "d"], y[y >= "d"])
    np.testing.assert_equal(got, by_hand(name, model, X[y >= "d"], y[y >= "d"]))


def pipeline():
    return make_pipeline(MinMaxScaler(), OpenSetSVC())


@pytest.mark.parametrize(
    "estimator", [OpenSetSVC(ensure_bounded=False), pipeline()], ids=["svc", "pipeline"]
)
@pytest.mark.parametrize(
    ("name", "cv"),
    [
        ("normalized_accuracy", OpenSetSplit(random_state=0)),
        ("oscr_area", OpenSetSplit(random_state=0)),
        ("normalized_accuracy", ClosedSetSplit(random_state=0)),
    ],
)
def test_grid_search(name, cv, estimator, blobs):
    X, y = blobs
    prefix = "" if isinstance(estimator, OpenSetSVC) else "opensetsvc__"
    grid = {f"{prefix}gamma": [0.25, 4.0], f"{prefix}lam": [0.0, 0.2, 0.4]}
    search = GridSearchCV(estimator, grid, scoring=get_scorer(name), cv=cv).fit(X, y)

    assert search.n_splits_ == cv.n_repeats
    truth_measure = "accuracy" if isinstance(cv, ClosedSetSplit) else name
    for k, (fit, validation) in enumerate(cv.split(X, y)):
        for i, parameters in enumerate(ParameterGrid(grid)):
            model = clone(estimator).set_params(**parameters)
            X_fit, X_validation = X[fit], X[validation]
            if prefix:  # the scaler sees the fitting part only
                scaler = MinMaxScaler().fit(X_fit)
                X_fit, X_validation = scaler.transform(X_fit), scaler.transform(X_validation)
                model = model[-1]
            model.fit(X_fit, y[fit])
            expected = by_hand(truth_measure, model, X_validation, y[validation])
            assert search.cv_results_[f"split{k}_test_score"][i] == pytest.approx(
                expected, abs=1e-12
            )
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()

    # The search is scored too, by the classes it has refitted on.
    y_new = np.where(y == "a", "new", y)
    assert search.score(X, y_new) == get_scorer(name)(search, X, y_new)
    if not prefix:
        assert search.score(X, y_new) == by_hand(name, search.best_estimator_, X, y_new)


def test_cross_validate_with_every_measure(blobs):
    X, y = blobs
    cv = OpenSetSplit(n_repeats=3, random_state=1)
    scorers = {name: get_scorer(name) for name in get_scorer_names()}
    results = cross_validate(pipeline(), X, y, scoring=scorers, cv=cv, return_estimator=True)
    for k, (_, validation) in enumerate(cv.split(X, y)):
        scaler, model = results["estimator"][k]
        X_validation = scaler.transform(X[validation])
        for name in scorers:
            expected = by_hand(name, model, X_validation, y[validation])
            assert results[f"test_{name}"][k] == expected


def test_search_inside_a_pipeline(blobs):
    X, y = blobs
    search = GridSearchCV(
        pipeline(), {"opensetsvc__gamma": [1.0, 16.0]}, cv=ClosedSetSplit(random_state=0)
    )
    outer = make_pipeline(MinMaxScaler(), search).fit(X[y < "e"], y[y < "e"])
    got = get_scorer("accuracy_unknown")(outer, X, y)
    assert got == np.mean(outer.predict(X[y >= "e"]) == "unknown")


def test_metadata_routing(blobs):
    X, y = blobs
    model = OpenSetSVC(gamma=0.5)
    arguments = {"cv": OpenSetSplit(random_state=0), "scoring": get_scorer("normalized_accuracy")}
    plain = cross_validate(model, X, y, **arguments)["test_score"]
    with sklearn.config_context(enable_metadata_routing=True):
        routed = cross_validate(
            model.set_fit_request(sample_weight=True),
            X,
            y,
            params={"sample_weight": np.ones(len(y))},
            **arguments,
        )["test_score"]
    assert np.array_equal(plain, routed)


class TestRequireBounded:
    def fitted(self, **parameters):
        """Positive bias for the class that surrounds the other, unless bounded by force."""
        angle = np.linspace(0, 2 * np.pi, 20, endpoint=False)
        ring = np.column_stack([np.cos(angle), np.sin(angle)])
        X = np.concatenate([4 * ring, ring])
        return OpenSetSVC(gamma=0.1, **parameters).fit(X, ["out"] * 20 + ["in"] * 20), X

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_an_unbounded_machine_scores_minus_infinity(self, name):
        model, X = self.fitted(ensure_bounded=False)
        assert not model.bounded_.all()
        y = ["out"] * 20 + ["in"] * 10 + ["else"] * 10
        got = get_scorer(name, require_bounded=True)(model, X, y)
        assert type(got) is float
        assert got == -np.inf
        assert np.isfinite(get_scorer(name)(model, X, y))

    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_bounded_machines_score_as_ever(self, name):
        model, X = self.fitted(ensure_bounded=True)
        y = ["out"] * 20 + ["in"] * 10 + ["else"] * 10
        assert get_scorer(name, require_bounded=True)(model, X, y) == get_scorer(name)(model, X, y)

    def test_behind_a_pipeline_and_a_search(self):
        model, X = self.fitted(ensure_bounded=False)
        y = ["out"] * 20 + ["in"] * 20
        search = GridSearchCV(
            make_pipeline(MinMaxScaler((-4, 4)), clone(model)),
            {"opensetsvc__gamma": [0.1]},
            cv=ClosedSetSplit(random_state=0),
            scoring=get_scorer("accuracy"),
        ).fit(X, y)
        assert get_scorer("accuracy")(search, X, y) > 0.5
        assert get_scorer("accuracy", require_bounded=True)(search, X, y) == -np.inf

    def test_the_linear_machine_is_never_bounded(self, blobs):
        X, y = blobs
        model = OneVsRestSVC(kernel="linear").fit(X, y)
        assert get_scorer("accuracy", require_bounded=True)(model, X, y) == -np.inf

    def test_an_estimator_without_machines_is_let_be(self, blobs):
        X, y = blobs

        class Nearest(OpenSetClassifier):  # has no intercept_ and proves nothing
            unknown_label = "auto"

            def fit(self, X, y):
                X, codes, *_ = validate_training_data(self, X, y)
                self.means_ = np.array([X[codes == c].mean(axis=0) for c in np.unique(codes)])
                return self

            def decision_function(self, X):
                return 3 - np.linalg.norm(X[:, np.newaxis] - self.means_, axis=2)

        model = Nearest().fit(X, y)
        got = get_scorer("accuracy", require_bounded=True)(model, X, y)
        assert got == np.mean(model.predict(X) == y) > 0.2

    def test_a_search_does_not_choose_the_unbounded(self):
        _, X = self.fitted()
        y = np.repeat(["out", "in"], 20)
        grid = {"lam": [0.0, 0.9]}
        chosen = {}
        for require_bounded in (False, True):
            search = GridSearchCV(
                OpenSetSVC(gamma=0.1, ensure_bounded=False),
                grid,
                scoring=get_scorer("accuracy", require_bounded=require_bounded),
                cv=ClosedSetSplit(n_repeats=3, random_state=0),
            )
            with warnings.catch_warnings():  # of scikit-learn: scores that are not finite
                warnings.filterwarnings("ignore", "One or more of the test scores", UserWarning)
                warnings.filterwarnings("ignore", "invalid value", RuntimeWarning)
                search.fit(X, y)
            chosen[require_bounded] = search.best_params_["lam"]
        assert chosen == {False: 0.0, True: 0.9}
        assert search.cv_results_["mean_test_score"][0] == -np.inf
        assert np.all(search.best_estimator_.bounded_)


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        lambda s: pickle.loads(pickle.dumps(s)),
        lambda s: clone(s, safe=False),
    ],
)
def test_copies_are_equal(duplicate):
    scorer = get_scorer("oscr_area", require_bounded=True)
    assert duplicate(scorer) == scorer
    assert scorer != get_scorer("oscr_area")
    assert repr(duplicate(scorer)) == "OpenSetScorer(name='oscr_area', require_bounded=True)"


def test_a_callable_is_returned_as_it_is():
    def mine(estimator, X, y):
        return 0.0

    assert get_scorer(mine) is mine
    scorer = get_scorer("accuracy")
    assert get_scorer(scorer) is scorer
    with pytest.raises(ValueError, match="require_bounded=True is for the measures of openset"):
        get_scorer(mine, require_bounded=True)


def test_bad_arguments(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match=r"scoring='f1' is not a measure.*'normalized_accuracy'"):
        get_scorer("f1")
    with pytest.raises(ValueError, match="scoring=None is not a measure"):
        get_scorer(None)
    with pytest.raises(ValueError, match="require_bounded='yes' must be True or False"):
        get_scorer("accuracy", require_bounded="yes")
    scorer = get_scorer("accuracy")
    with pytest.raises(NotFittedError):
        scorer(OpenSetSVC(), X, y)
    with pytest.raises(TypeError, match="LogisticRegression is not an open-set estimator"):
        scorer(LogisticRegression().fit(X, y), X, y)
    model = OpenSetSVC().fit(X, y)
    with pytest.raises(ValueError, match="y contains missing values"):
        scorer(model, X, np.full(len(X), np.nan))
