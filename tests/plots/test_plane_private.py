"""The plane that a display cuts through the feature space."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris

from openset.plots import DecisionRegionsDisplay
from openset.plots._decision_regions import find_plane
from openset.svm import OpenSetSVC


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("plane", [None, "pca", "means"])
def test_plane_through_more_dimensions(plane, iris, ax):
    X, y = iris
    model = OpenSetSVC(gamma=0.5).fit(X, y)
    display = DecisionRegionsDisplay.from_estimator(
        model, X, y, plane=plane, certificate=True, grid_resolution=40, ax=ax
    )
    chosen = find_plane(plane, X, y, None)
    np.testing.assert_allclose(chosen.directions @ chosen.directions.T, np.eye(2), atol=1e-12)
    for i, j in [(5, 30), (20, 20), (33, 8)]:
        point = chosen.embed(np.array([[display.x0[j], display.x1[i]]]))
        assert display.regions[i, j] % 3 == model.predict(point)[0] % 3  # unknown: 3 and -1
        # A certificate on the plane is the ball cut by it, not a circle of the whole radius.
        for c in range(3):
            positive = model.support_vectors_[model.dual_coef_[c] > 0]
            beyond = cdist(point, positive).min() - model.known_radius_[c]
            assert display.certificates[c, i, j] == pytest.approx(beyond, abs=1e-6)


def test_plane_of_means_holds_the_means(iris):
    X, y = iris
    plane = find_plane("means", X, y, None)
    means = np.stack([X[y == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(plane.embed(plane.project(means)), means)
    u = plane.project(means)
    np.testing.assert_allclose(u[0], 0, atol=1e-12)
    assert u[1, 0] > 0 and u[2, 1] > 0
