"""Decision boundary carving against worked numbers, an exhaustive search and its own facts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.metrics import balanced_accuracy_score

from openset.svm import DecisionBoundaryCarving, OneVsRestSVC


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    # Two features: classes 1 and 2 overlap, so that there is something to carve.
    return X[:, :2], np.array(["setosa", "versicolor", "virginica"])[y]


def test_the_plane_moves_and_nothing_else(iris):
    X, y = iris
    plain = OneVsRestSVC(gamma=2.0, tol=1e-6).fit(X, y)
    model = DecisionBoundaryCarving(gamma=2.0, tol=1e-6).fit(X, y)
    assert_array_equal(model.dual_coef_, plain.dual_coef_)
    assert_allclose(model.intercept_, plain.intercept_ - model.epsilon_)
    assert_allclose(
        model.decision_function(X), plain.decision_function(X) - model.epsilon_, atol=1e-5
    )
    for c, label in enumerate(model.classes_):
        own = y == label
        before = balanced_accuracy_score(own, plain.decision_function(X)[:, c] >= 0)
        after = balanced_accuracy_score(own, model.decision_function(X)[:, c] >= 0)
        assert after >= before  # also where many samples lie on the margin, equal up to rounding
    assert np.abs(model.epsilon_).max() > 0.1


def test_ties_by_name(iris):
    X, y = iris
    epsilon = {
        tie: DecisionBoundaryCarving(tie=tie, gamma=2.0).fit(X, y).epsilon_
        for tie in ("permissive", "centre", "restrictive")
    }
    assert np.all(epsilon["permissive"] < epsilon["centre"])
    assert np.all(epsilon["centre"] < epsilon["restrictive"])
    assert_allclose(epsilon["centre"], (epsilon["permissive"] + epsilon["restrictive"]) / 2)


@pytest.mark.parametrize("tie", ["permissive", "centre", "restrictive"])
@pytest.mark.parametrize("gamma", [0.3, 20.0, 200.0])
def test_bounded_is_what_a_walk_far_away_finds(iris, tie, gamma):
    X, y = iris
    model = DecisionBoundaryCarving(tie=tie, gamma=gamma).fit(X, y)
    angle = np.linspace(0, 2 * np.pi, 12)
    walk = np.concatenate([r * np.column_stack([np.cos(angle), np.sin(angle)]) for r in (1e3, 1e6)])
    assert_array_equal(model.predict_set(walk), np.tile(~model.bounded_, (len(walk), 1)))
    assert_array_equal(np.isfinite(model.known_radius_), model.bounded_)


def test_carving_can_leave_a_class_unbounded():
    X = np.array([[-2.0], [-1.5], [1.5], [2.0], [0.0], [0.3]])
    y = np.array([1, 1, 1, 1, 0, 0])
    model = DecisionBoundaryCarving(gamma=1.0, tol=1e-6).fit(X, y)
    assert_allclose(model.intercept_[1] + model.epsilon_[1], 0.401380, atol=1e-4)
    assert_array_equal(model.bounded_, [True, False])
    assert model.predict([[1e6]])[0] == 1
    assert DecisionBoundaryCarving(gamma=1.0, tie="restrictive").fit(X, y).bounded_.all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tie": "center"}, "'tie' parameter"),
        ({"C": -1.0}, "'C' parameter"),
        ({"gamma": "wide"}, "'gamma' parameter"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        DecisionBoundaryCarving(**parameters).fit(*iris)


def test_it_needs_two_classes(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least 2 classes"):
        DecisionBoundaryCarving().fit(X[:50], y[:50])
