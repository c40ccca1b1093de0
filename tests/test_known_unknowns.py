"""Rows of an explicit unknown label: negatives of every class, and never a class themselves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

from openset import all_estimators
from openset.calibration import Accuracy, CalibratedRejector
from openset.evaluation import comparison_splits, evaluate_method, fit_method, held_out_report
from openset.evt import ExtremeValueMachine
from openset.gaussian import SIMCA, OpenSetCentroids, OpenSetLDA
from openset.model_selection import ClosedSetSplit, OpenSetSearchCV, OpenSetSplit
from openset.neighbors import OSNN, OpenSetKNN
from openset.persistence import load_model, save_model
from openset.svm import MulticlassOneClassSVM, MulticlassSVDD, OneVsRestSVC, OpenSetSVC
from openset.wrappers import CascadeRejector, ThresholdRejector

ARGUMENTS = {
    ThresholdRejector: [GaussianNB()],
    CascadeRejector: [OneClassSVM(nu=0.1), GaussianNB()],
}
REFUSING = [MulticlassOneClassSVM, MulticlassSVDD, ThresholdRejector, CascadeRejector]
TAKING = [cls for _, cls in all_estimators() if cls not in REFUSING]


@pytest.fixture(scope="module")
def data():
    """Three known classes and 25 rows of the label "oos" between them."""
    X, y = make_blobs([25] * 4, n_features=3, cluster_std=1.5, random_state=1)
    return X, np.array(["a", "b", "c", "oos"])[y]


def _known(X, y):
    rows = y != "oos"
    return X[rows], y[rows]


@pytest.mark.parametrize("cls", TAKING, ids=lambda cls: cls.__name__)
def test_every_method_that_takes_them(data, cls, tmp_path):
    X, y = data
    model = cls(unknown_label="oos").fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.unknown_label_ == "oos" and model.n_known_unknowns_ == 25
    assert set(model.predict(X)) <= {"a", "b", "c", "oos"}
    assert "oos" not in model.predict_known(X)
    assert model.decision_function(X).shape == (100, 3)
    # They are learned from: fewer of them are accepted than without.
    plain = cls().fit(*_known(X, y))
    rows = X[y == "oos"]
    assert np.sum(model.predict_set(rows)) <= np.sum(plain.predict_set(rows))
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("cls", REFUSING, ids=lambda cls: cls.__name__)
def test_every_method_that_refuses_them(data, cls):
    model = cls(*ARGUMENTS.get(cls, ()), unknown_label="oos")
    with pytest.raises(ValueError, match=r"cannot learn from the 25 rows .*unknown_label='oos'"):
        model.fit(*data)
    assert model.fit(*_known(*data)).n_known_unknowns_ == 0


@pytest.mark.parametrize("cls", TAKING, ids=lambda cls: cls.__name__)
def test_known_unknowns_identical_to_known_rows(data, cls):
    X, y = data
    twins = np.vstack([X, X[y == "a"][:10]]), np.append(y, ["oos"] * 10)
    model = cls(unknown_label="oos").fit(*twins)
    assert np.isfinite(model.decision_function(twins[0])).all()
    assert model.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("cls", TAKING, ids=lambda cls: cls.__name__)
def test_no_row_carries_the_label(data, cls):
    X, y = _known(*data)
    model = cls(unknown_label="oos").fit(X, y)
    assert model.n_known_unknowns_ == 0 and model.unknown_label_ == "oos"
    assert_array_equal(model.decision_function(X), cls().fit(X, y).decision_function(X))


@pytest.mark.parametrize("cls", TAKING, ids=lambda cls: cls.__name__)
def test_one_sample_of_a_class_and_more_features_than_samples(data, cls):
    X, y = data
    rng = np.random.default_rng(0)
    few = np.concatenate(
        [np.flatnonzero(y == c)[:n] for c, n in zip("abc", (8, 8, 1), strict=True)]
    )
    rows = np.append(few, np.flatnonzero(y == "oos")[:6])
    wide = np.hstack([X[rows], 0.1 * rng.normal(size=(len(rows), 40))])
    model = cls(unknown_label="oos").fit(wide, y[rows])
    assert model.classes_.tolist() == ["a", "b", "c"] and model.n_known_unknowns_ == 6
    assert np.isfinite(model.decision_function(wide)).all()
    assert set(model.predict(wide)) <= {"a", "b", "c", "oos"}


def test_auto_changes_nothing(data):
    model = OpenSetSVC().fit(*data)
    assert model.classes_.tolist() == ["a", "b", "c", "oos"]
    assert model.unknown_label_ == "unknown" and model.n_known_unknowns_ == 0


def test_too_few_classes(data):
    X, y = data
    for cls in TAKING:
        with pytest.raises(ValueError, match="no class: all 25 rows carry unknown_label='oos'"):
            cls(unknown_label="oos").fit(X[y == "oos"], y[y == "oos"])
    with pytest.raises(ValueError, match=r"y has 1 class: \['a'\]. No row carries .*'oos'"):
        OneVsRestSVC(unknown_label="oos").fit(X[y == "a"], y[y == "a"])


def test_machines_are_those_against_the_rest(data):
    """Decision values against scikit-learn's SVM with the same negatives and weights."""
    X, y = data
    model = OneVsRestSVC(C=3.0, unknown_label="oos", class_weight={"oos": 2.0}, tol=1e-8)
    scores = model.fit(X, y).decision_function(X)
    gamma = 1 / (
        3 * np.average((X - np.average(X, weights=_twice(X, y))) ** 2, weights=_twice(X, y))
    )
    assert_allclose(model.gamma_, gamma)
    for c, name in enumerate("abc"):
        weight = np.where(y == "oos", 2.0, 1.0)
        svc = SVC(C=3.0, gamma=gamma, tol=1e-8).fit(X, y == name, sample_weight=weight)
        assert_allclose(scores[:, c], svc.decision_function(X), atol=1e-5)


def _twice(X, y):
    return np.repeat(np.where(y == "oos", 2.0, 1.0)[:, None], 3, axis=1)


def test_class_weight(data):
    X, y = data
    balanced = OpenSetSVC(unknown_label="oos", class_weight="balanced", tol=1e-8).fit(
        X[20:], y[20:]
    )
    counts = {c: np.sum(y[20:] == c) for c in np.unique(y)}
    weights = {c: len(y[20:]) / (4 * n) for c, n in counts.items()}
    same = OpenSetSVC(unknown_label="oos", class_weight=weights, tol=1e-8).fit(X[20:], y[20:])
    assert_allclose(balanced.decision_function(X), same.decision_function(X), atol=1e-5)
    # A weight of the unknown label may be given although no row carries it.
    none = OpenSetSVC(unknown_label="oos", class_weight={"oos": 2.0}).fit(*_known(X, y))
    plain = OpenSetSVC().fit(*_known(X, y))
    assert_allclose(none.decision_function(X), plain.decision_function(X))
    with pytest.raises(ValueError, match="class_weight"):
        OpenSetSVC(unknown_label="oos", class_weight={"oos": 0.0}).fit(X, y)


def test_one_known_class_with_known_unknowns_is_bounded(data):
    X, y = data
    rows = np.isin(y, ["a", "oos"])
    far = np.random.default_rng(0).normal(size=(300, 3)) * 1e6
    for C in (0.01, 1.0, 1e4):
        model = OpenSetSVC(C=C, unknown_label="oos").fit(X[rows], y[rows])
        assert model.classes_.tolist() == ["a"]
        assert model.bounded_.all() and np.isfinite(model.known_radius_).all()
        assert set(model.predict(far)) == {"oos"}
        positive = model.support_vectors_[model.dual_coef_[0] > 0]
        Z = np.random.default_rng(1).uniform(-30, 30, size=(3000, 3))
        beyond = cdist(Z, positive).min(axis=1) > model.known_radius_[0]
        assert beyond.any() and not model.predict_set(Z[beyond]).any()
    with pytest.raises(ValueError, match=r"lam=0 is not defined .* known unknowns"):
        OpenSetSVC(unknown_label="oos").fit(X[y == "a"], y[y == "a"])


def test_evm_margins_by_hand():
    """The margin of the only class is half of the distance to the known unknown."""
    X = np.array([[0.0], [0.1], [4.0], [4.2]])
    y = np.array(["a", "a", "oos", "oos"])
    model = ExtremeValueMachine(tail_size=1, cover_threshold=1.0, n_fused=1, unknown_label="oos")
    model.fit(X, y)
    assert model.extreme_index_.tolist() == [0, 1]
    two = ExtremeValueMachine(tail_size=1, cover_threshold=1.0, n_fused=1).fit(X, y)
    assert_allclose(model.inclusion_proba(X)[:, 0], two.inclusion_proba(X)[:, 0])


def test_osnn_counts_them_as_another_class(data):
    X, y = data
    Z = np.random.default_rng(0).uniform(X.min(), X.max(), size=(200, 3))
    model = OSNN(0.9, unknown_label="oos").fit(X, y)
    four = OSNN(0.9).fit(X, y)
    assert_allclose(model.decision_function(Z), four.decision_function(Z)[:, :3])
    expected = four.predict(Z)
    assert_array_equal(model.predict(Z), np.where(expected == "unknown", "oos", expected))


@pytest.mark.parametrize("cls", [OpenSetLDA, OpenSetCentroids, OpenSetKNN, SIMCA])
def test_radius_is_the_best_up_to_the_quantile(data, cls):
    X, y = data
    model = cls(quantile=0.9, unknown_label="oos").fit(X, y).set_params(per_class=False) if (
        cls is not OpenSetKNN
    ) else cls(quantile=0.9, unknown_label="oos").fit(X, y)  # fmt: skip
    plain = cls(quantile=0.9).fit(*_known(X, y))
    if cls is not OpenSetKNN:
        plain.set_params(per_class=False)
    radius, largest = model.radius_[0], plain.radius_[0]
    assert radius <= largest
    own, unknown = model._own, -model.raw_scores(X[y == "oos"]).max(axis=1)

    def value(r):
        return np.mean(own <= r) + np.mean(unknown > r)

    candidates = np.append(own[own <= largest], largest)
    assert value(radius) == pytest.approx(max(map(value, candidates)))


def test_add_classes_turns_them_into_a_class(data):
    X, y = data
    settings = {"gamma": 0.2, "unknown_label": "oos", "tol": 1e-6}
    model = OpenSetSVC(**settings).fit(X, y)
    rows = np.flatnonzero(y == "oos")
    grown = y.copy()
    grown[rows[:15]] = "new"
    model.add_classes(X, grown)
    whole = OpenSetSVC(**settings).fit(X, grown)
    assert model.classes_.tolist() == ["a", "b", "c", "new"] and model.n_known_unknowns_ == 10
    assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-4)


def test_splits(data):
    _, y = data
    for split in (OpenSetSplit(5, random_state=0, unknown_label="oos"),
                  ClosedSetSplit(5, random_state=0, unknown_label="oos")):  # fmt: skip
        for simulation in split.simulate(y):
            assert "oos" not in simulation.known
            fitting = y[simulation.fit]
            assert np.sum(fitting == "oos") == 12  # half of 25, the held-out part rounded up
            assert set(fitting) == {*simulation.known, "oos"}
            assert np.sum(y[simulation.validation] == "oos") == 13
    # One row of the label is for fitting.
    y = np.append(np.repeat(["a", "b", "c"], 4), "oos")
    (simulation,) = OpenSetSplit(1, random_state=0, unknown_label="oos").simulate(y)
    assert 12 in simulation.fit
    with pytest.raises(ValueError, match="no class: all 3 rows"):
        OpenSetSplit(unknown_label="oos").simulate(["oos"] * 3)


@pytest.mark.parametrize("level", ["model", "class"])
def test_search_by_the_engine_agrees_with_fits(data, level):
    X, y = data
    grid = {"gamma": [0.05, 0.5], "lam": [0.0, 0.2]}
    model = OpenSetSVC(unknown_label="oos", ensure_bounded=False, tol=1e-6)
    how = {"n_repeats": 2, "all_scores": True, "random_state": 3}
    search = OpenSetSearchCV(model, grid, level=level, **how).fit(X, y)
    assert search.classes_.tolist() == ["a", "b", "c"] and search.n_known_unknowns_ == 25
    if level == "model":
        from openset.model_selection import get_scorer

        slow = OpenSetSearchCV(model, grid, scoring=get_scorer("normalized_accuracy"), **how)
        expected = slow.fit(X, y).cv_results_["mean_test_score"]
        assert_allclose(search.cv_results_["mean_test_score"], expected, atol=0.02)
    else:
        assert set(search.best_params_["gamma"]) == {"a", "b", "c"}


@pytest.mark.parametrize("cls", [MulticlassSVDD, OpenSetKNN, ThresholdRejector])
def test_search_of_other_methods(data, cls):
    X, y = data
    model = cls(*ARGUMENTS.get(cls, ()), unknown_label="oos")
    search = OpenSetSearchCV(make_pipeline(StandardScaler(), model), n_repeats=2, random_state=0)
    search.fit(X, y)
    assert search.classes_.tolist() == ["a", "b", "c"]
    assert search.n_known_unknowns_ == (25 if cls is OpenSetKNN else 0)


def test_search_with_one_class_and_known_unknowns(data):
    X, y = data
    rows = np.isin(y, ["a", "oos"])
    grid = {"gamma": [0.02, 0.2], "lam": [0.0, 0.2]}
    search = OpenSetSearchCV(OpenSetSVC(unknown_label="oos"), grid, random_state=0)
    search.fit(X[rows], y[rows])
    assert search.scenario_ == "closed" and search.bounded_.all()
    assert search.best_score_ > 0.6


@pytest.mark.parametrize("by", ["own", "estimator"])
def test_calibration_without_them(data, by):
    """The promise is about known rows: known unknowns have no influence on its threshold."""
    X, y = data
    svc = OpenSetSVC(unknown_label="oos").fit(X[::2], y[::2])
    label = "oos" if by == "own" else "auto"
    with_them = CalibratedRejector(FrozenEstimator(svc), alpha=0.2, unknown_label=label)
    with_them.fit(X[1::2], y[1::2])
    without = CalibratedRejector(FrozenEstimator(svc), alpha=0.2).fit(*_known(X[1::2], y[1::2]))
    assert_allclose(with_them.thresholds_, without.thresholds_)
    assert with_them.n_known_unknowns_ == np.sum(y[1::2] == "oos") and with_them.promise_
    # Where a criterion needs unknown samples, they serve.
    held = y[1::2] == "oos"
    used = CalibratedRejector(FrozenEstimator(svc), criterion=Accuracy()).fit(X[1::2], y[1::2])
    given = CalibratedRejector(FrozenEstimator(svc), criterion=Accuracy()).fit(
        X[1::2][~held], y[1::2][~held], X_unknown=X[1::2][held]
    )
    assert_allclose(used.thresholds_, given.thresholds_)


def test_calibration_with_its_own_fit(data):
    X, y = data
    model = CalibratedRejector(OpenSetSVC(unknown_label="oos"), alpha=0.2, random_state=0)
    model.fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"] and model.unknown_label_ == "oos"
    assert 0 < model.estimator_.n_known_unknowns_ < 25 == model.n_known_unknowns_
    # An estimator that does not know the label, or refuses such rows, is fitted without them.
    for estimator in (OpenSetSVC(), MulticlassSVDD(unknown_label="oos")):
        model = CalibratedRejector(estimator, alpha=0.2, unknown_label="oos", random_state=0)
        assert model.fit(X, y).classes_.tolist() == ["a", "b", "c"]
        assert model.estimator_.n_known_unknowns_ == 0


def test_evaluation(data):
    X, y = data
    svc = OpenSetSVC(unknown_label="oos")
    for split in comparison_splits(y, 3, random_state=0, unknown_label="oos"):
        assert "oos" not in split.known
        result = evaluate_method(svc, X, y, split)
        assert result.evaluation.classes.tolist() == split.known.tolist()
        held_out = result.evaluation.truth == "oos"
        assert 0 < held_out.sum() < 25 and not result.evaluation.is_known[held_out].any()
    report = held_out_report(svc, X, y, random_state=0)
    assert set(report.classes) == {"a", "b", "c"}
    assert all(turn["n_unknown"] > 5 for turn in report.turns)
    assert fit_method(MulticlassSVDD(unknown_label="oos"), X, y).model.n_known_unknowns_ == 0
