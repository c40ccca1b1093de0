"""The plane that a display cuts through the feature space."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from openset.plots import DecisionRegionsDisplay
from openset.svm import OpenSetSVC


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model(iris):
    return OpenSetSVC(gamma=0.5).fit(*iris)


def _plane(kind, X, y):
    """Origin and directions: of the principal components, or by Gram and Schmidt."""
    if kind != "means":
        pca = PCA(n_components=2).fit(X)
        return pca.mean_, pca.components_
    origin, *others = (X[y == c].mean(axis=0) for c in range(3))
    first, second = (mean - origin for mean in others)
    first = first / np.linalg.norm(first)
    second = second - first * (second @ first)
    return origin, np.stack([first, second / np.linalg.norm(second)])


@pytest.mark.parametrize("plane", [None, "pca", "means"])
def test_plane_through_more_dimensions(plane, iris, model, ax):
    X, y = iris
    display = DecisionRegionsDisplay.from_estimator(
        model, X, y, plane=plane, certificate=True, grid_resolution=40, ax=ax
    )
    origin, directions = _plane(plane, X, y)
    np.testing.assert_allclose(display.points, (X - origin) @ directions.T, atol=1e-12)
    for i, j in [(5, 30), (20, 20), (33, 8)]:
        point = origin + np.array([[display.x0[j], display.x1[i]]]) @ directions
        assert display.regions[i, j] % 3 == model.predict(point)[0] % 3  # unknown: 3 and -1
        # A certificate on the plane is the ball cut by it, not a circle of the whole radius.
        for c in range(3):
            positive = model.support_vectors_[model.dual_coef_[c] > 0]
            beyond = cdist(point, positive).min() - model.known_radius_[c]
            assert display.certificates[c, i, j] == pytest.approx(beyond, abs=1e-6)


def test_plane_of_means_holds_the_means(iris, model, ax):
    X, y = iris
    means = np.stack([X[y == c].mean(axis=0) for c in range(3)])
    display = DecisionRegionsDisplay.from_estimator(
        model, X, y, plane="means", grid_resolution=2, ax=ax
    )
    u = np.stack([display.points[y == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(pdist(u), pdist(means))  # none is off the plane
    np.testing.assert_allclose(u[0], 0, atol=1e-12)
    assert u[1, 0] > 0 and u[2, 1] > 0
