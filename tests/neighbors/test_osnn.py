"""Open-set nearest neighbours against a loop over samples, by hand and by invariants."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset.neighbors import OSNN
from openset.solver import points as engine


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    distinct = np.sort(np.unique(X, axis=0, return_index=True)[1])
    X, y = X[distinct], y[distinct]
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, size=(200, 4))
    return X, y, Z


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.8, 0.99, 1.0])
def test_ratio_rule_written_out(data, metric, threshold):
    X, y, Z = data
    model = OSNN(threshold, metric=metric).fit(X[::2], y[::2])
    for z, answer, score in zip(Z, model.predict(Z), model.known_score(Z), strict=True):
        d = cdist([z], X[::2], metric)[0]
        t = d.argmin()
        ratio = d[t] / d[y[::2] != y[::2][t]].min()
        assert answer == (y[::2][t] if ratio <= threshold else -1)
        assert_allclose(score, threshold - ratio, atol=1e-9)


def test_agreement_rule_written_out(data):
    X, y, Z = data
    model = OSNN(rule="agreement").fit(X, y)
    answers = model.predict(Z)
    for z, answer in zip(Z, answers, strict=True):
        first, second = y[cdist([z], X)[0].argsort()[:2]]
        assert answer == (first if first == second else -1)
    assert set(answers) == {-1, 0, 1, 2}


@pytest.mark.parametrize("rule", ["ratio", "agreement"])
def test_ratios_of_all_classes_by_hand(rule):
    X = [[0.0], [1.0], [4.0], [6.0], [20.0]]
    model = OSNN(0.5, rule=rule).fit(X, ["a", "a", "b", "b", "c"])
    expected = {
        # nearest distances 1, 2, 18; second nearest 2, 4, none
        "ratio": 0.5 - np.array([1 / 2, 2 - 1 / 2, 2 - 1 / 18]),
        "agreement": 1 - np.array([1.0, 2 - 1 / 4, 2.0]),
    }[rule]
    assert_allclose(model.decision_function([[2.0]]), [expected])
    assert model.predict([[2.0]]) == ["a"]


def test_closed_set_answer_is_the_nearest_class(data):
    X, y, Z = data
    model = OSNN().fit(X, y)
    nearest = KNeighborsClassifier(1).fit(X, y)
    assert_array_equal(model.predict_known(Z), nearest.predict(Z))
    assert_array_equal(OSNN(1.0).fit(X, y).predict(Z), nearest.predict(Z))


def test_coinciding_classes_are_unknown():
    X = [[0.0], [0.0], [1.0], [9.0]]
    y = [0, 1, 1, 2]
    model = OSNN(0.999).fit(X, y)
    assert_allclose(model.decision_function([[0.0]]), [[-0.001, -0.001, -1.001]])
    assert model.predict([[0.0], [1.0]]).tolist() == [-1, 1]
    assert model.set_params(threshold=1.0).predict([[0.0]]) == [0]


def test_scaling_and_rotation_do_not_matter(data):
    X, y, Z = data
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    scores = OSNN().fit(X, y).decision_function(Z)
    moved = OSNN().fit(37 * X @ rotation + 5, y)
    assert_allclose(moved.decision_function(37 * Z @ rotation + 5), scores, atol=1e-9)


def test_bounded(data):
    X, y, _ = data
    directions = np.random.default_rng(0).normal(size=(200, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    model = OSNN(0.95).fit(X, y)
    assert model.bounded_.all()
    # d(x, u) <= d(x, t) + diameter: everything beyond T / (1 - T) diameters is rejected.
    diameter = cdist(X, X).max()
    for radius in (19 * diameter + diameter, 1e6, 1e12, 1e200):
        far = X.mean(axis=0) + radius * directions
        assert not model.predict_set(far).any()
        assert np.isfinite(model.decision_function(far)).all()
    assert not model.set_params(threshold=1.0).bounded_.any()
    assert model.predict_set(far).any(axis=1).all()
    agreement = OSNN(rule="agreement").fit(X, y)
    assert not agreement.bounded_.any()
    assert agreement.predict_set(X.mean(axis=0) + 1e6 * directions).any()
    assert not OSNN(metric="cosine").fit(X, y).bounded_.any()


def test_threshold_is_added_and_needs_no_fit(data):
    X, y, Z = data
    model = OSNN().fit(X, y)
    assert model.search_spec.after_fit == ("threshold",)
    for threshold in (0.0, 0.9):
        model.set_params(threshold=threshold)
        expected = model.raw_scores(Z) + threshold
        assert_array_equal(model.decision_function(Z), expected)


def test_blocks_and_threads_change_nothing(data, monkeypatch):
    X, y, Z = data
    expected = OSNN().fit(X, y).decision_function(Z)
    monkeypatch.setattr(engine, "BLOCK", 500)
    blocks = OSNN(n_jobs=2).fit(X, y).decision_function(Z)
    assert_array_equal(blocks, expected)


def test_pickle_and_pipeline(data):
    X, y, Z = data
    pipeline = make_pipeline(MinMaxScaler(), OSNN()).fit(X, y)
    loaded = pickle.loads(pickle.dumps(pipeline))
    assert_array_equal(loaded.decision_function(Z), pipeline.decision_function(Z))
    assert_array_equal(pipeline.predict(X), y)
    assert set(pipeline.predict(X + 1000)) == {-1}


@pytest.mark.parametrize(
    "bad",
    [{"threshold": 1.2}, {"threshold": -0.1}, {"rule": "both"}, {"metric": "l1"}, {"n_jobs": "2"}],
)
def test_bad_parameters(data, bad):
    X, y, _ = data
    with pytest.raises(ValueError, match=f"'{next(iter(bad))}' parameter"):
        OSNN(**bad).fit(X, y)


def test_bad_input(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="at least 2 classes"):
        OSNN().fit(X, np.zeros(len(X), dtype=int))
    with pytest.raises(ValueError, match="NaN"):
        OSNN().fit(X * np.nan, y)
    with pytest.raises(NotFittedError):
        OSNN().predict(X)
    assert not hasattr(OSNN(), "bounded_")
    with pytest.raises(ValueError, match="features"):
        OSNN().fit(X, y).predict(X[:, :2])
