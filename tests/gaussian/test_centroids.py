"""Nearest means with radii, against the formulas written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.neighbors import NearestCentroid

from openset.gaussian import OpenSetCentroids


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, size=(200, 4))
    return X, y, Z


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("per_class", [True, False])
def test_written_out(data, metric, per_class):
    X, y, Z = data
    U = X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X
    own = [[] for _ in range(3)]
    for i in range(len(U)):
        others = (y == y[i]) & (np.arange(len(U)) != i)
        own[y[i]] += [cdist([U[i]], [U[others].mean(axis=0)], metric)[0, 0]]
    pooled = np.quantile(np.concatenate(own), 0.9)
    radius = np.array([np.quantile(part, 0.9) if per_class else pooled for part in own])
    means = np.array([U[y == c].mean(axis=0) for c in range(3)])
    model = OpenSetCentroids(0.9, per_class, metric).fit(X, y)
    assert_allclose(model.radius_, radius, rtol=1e-8)
    expected = radius - cdist(Z, means, metric)
    assert_allclose(model.decision_function(Z), expected, rtol=1e-8, atol=1e-8)


def test_closed_set_answer_with_one_radius(data):
    X, y, Z = data
    model = OpenSetCentroids(per_class=False).fit(X, y)
    assert_array_equal(model.predict_known(Z), NearestCentroid().fit(X, y).predict(Z))


def test_bounded(data):
    X, y, _ = data
    model = OpenSetCentroids().fit(X, y)
    assert model.bounded_.all()
    # Exact: a ball around the mean.
    rng = np.random.default_rng(0)
    u = rng.normal(size=(300, 4))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    for c in range(3):
        on = model.means_[c] + model.radius_[c] * (1 + np.array([-1e-9, 1e-9]))[:, None, None] * u
        assert (model.decision_function(on[0])[:, c] >= 0).all()
        assert (model.decision_function(on[1])[:, c] < 0).all()
    cones = OpenSetCentroids(metric="cosine").fit(X, y)
    assert not cones.bounded_.any()
    assert_allclose(cones.far_scores(), np.diag(cones.decision_function(1e9 * cones.means_)))


def test_classes_with_one_sample(data):
    X, y, _ = data
    alone = np.array([[30.0, 0, 0, 0]])
    model = OpenSetCentroids().fit(np.vstack([X, alone]), np.append(y, 3))
    pooled = OpenSetCentroids(per_class=False).fit(X, y).radius_[0]
    assert_allclose(model.radius_[3], pooled)
    with pytest.raises(ValueError, match="no class has two samples"):
        OpenSetCentroids().fit(X[[0, 60, 120]], [0, 1, 2])


def test_more_features_than_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 200)) + 9 * np.repeat(np.eye(3, 200), 4, axis=0)
    y = np.repeat([0, 1, 2], 4)
    model = OpenSetCentroids(quantile=1.0).fit(X, y)
    fresh = rng.normal(size=(12, 200)) + 9 * np.repeat(np.eye(3, 200), 4, axis=0)
    # In-sample radii would be too small by the factor 3 / 4 and reject everything.
    assert (model.predict(fresh) == y).mean() > 0.5


def test_bad_input(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="rows of zeros"):
        OpenSetCentroids(metric="cosine").fit(np.vstack([X, np.zeros(4)]), np.append(y, 0))
    with pytest.raises(ValueError, match="mean of zero"):
        OpenSetCentroids(metric="cosine").fit([[1.0, 0], [-1, 0], [0, 1], [1, 1]], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="'metric' parameter"):
        OpenSetCentroids(metric="l1").fit(X, y)
    assert not hasattr(OpenSetCentroids(), "radius_")
