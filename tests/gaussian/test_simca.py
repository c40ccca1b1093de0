"""Class subspaces, against scikit-learn's PCA and the formulas written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2, norm
from sklearn.datasets import load_iris, make_blobs
from sklearn.decomposition import PCA

from openset.gaussian import SIMCA


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, size=(200, 4))
    return X, y, Z


def _distances(pca, Z):
    """Score distance and squared orthogonal distance, through the reconstruction."""
    T = pca.transform(Z)
    n = pca.n_samples_
    h = (T**2 / (pca.explained_variance_ * (n - 1) / n)).sum(axis=1)
    return h, ((Z - pca.inverse_transform(T)) ** 2).sum(axis=1)


def _degrees(values):
    return max(1.0, np.rint(2 * values.mean() ** 2 / values.var()))


@pytest.mark.parametrize("n_components", [1, 2, 0.95])
def test_written_out(data, n_components):
    X, y, Z = data
    expected, own = [], []
    for c in range(3):
        part = X[y == c]
        order = np.lexsort(part.T[::-1])
        h, v = np.empty(50), np.empty(50)
        for fold in range(5):
            judged = order[fold::5]
            fit = np.delete(np.arange(50), judged)
            pca = PCA(n_components, svd_solver="full").fit(part[fit])
            h[judged], v[judged] = _distances(pca, part[judged])
        degrees = _degrees(h), _degrees(v)

        def normal_score(h_z, v_z, h=h, v=v, degrees=degrees):
            total = degrees[0] * h_z / h.mean() + degrees[1] * v_z / v.mean()
            k = sum(degrees)
            return (np.cbrt(total / k) - 1 + 2 / (9 * k)) / np.sqrt(2 / (9 * k))

        own.append(normal_score(h, v))
        pca = PCA(n_components, svd_solver="full").fit(part)
        expected.append(normal_score(*_distances(pca, Z)))
    radius = np.quantile(np.concatenate(own), 0.9)
    model = SIMCA(n_components, quantile=0.9).fit(X, y)
    assert_allclose(model.radius_, radius, rtol=1e-8)
    assert_allclose(model.decision_function(Z), radius - np.array(expected).T, rtol=1e-6)
    model.set_params(per_class=True)
    assert_allclose(model.radius_, [np.quantile(part, 0.9) for part in own], rtol=1e-8)


def test_the_distance_is_a_standard_normal_for_gaussian_classes():
    """Held-out samples of a class are accepted as often as the chi-squared law says."""
    rng = np.random.default_rng(0)
    scale = np.r_[np.full(3, 3.0), np.full(9, 0.3)]
    X = np.concatenate([rng.normal(size=(400, 12)) * scale + 9 * c for c in range(3)])
    y = np.repeat([0, 1, 2], 400)
    model = SIMCA(n_components=3).fit(X, y)
    h_mean, h_freedom, v_mean, v_freedom = model.moments_.T
    # h is a sum of three squares, v of nine equal ones; a variance is known to some percent.
    assert_allclose(h_mean, 3, rtol=0.1)
    assert np.all((h_freedom > 1.5) & (h_freedom < 5))
    assert_allclose(v_mean, 9 * 0.09, rtol=0.1)
    assert np.all((v_freedom > 5) & (v_freedom < 14))
    fresh = rng.normal(size=(4000, 12)) * scale
    z = model.distances(fresh)[:, 0]
    for p in (0.5, 0.9, 0.99):
        assert abs(np.mean(z <= norm.ppf(p)) - p) < 0.04
    # The normal score is that of the chi-squared variable.
    for k in (2, 12):
        total = chi2.ppf(0.95, k)
        width = 2 / (9 * k)
        score = (np.cbrt(total / k) - 1 + width) / np.sqrt(width)
        assert abs(score - norm.ppf(0.95)) < 0.02


def test_bounded_in_and_out_of_the_subspace(data):
    X, y, _ = data
    model = SIMCA(n_components=2).fit(X, y)
    assert model.bounded_.all()
    directions = np.random.default_rng(0).normal(size=(200, 4))
    inside = model.components_[0] / np.linalg.norm(model.components_[0], axis=1, keepdims=True)
    for way in (directions, inside, -inside):
        assert (model.predict(X[0] + 1e3 * way) == -1).all()
        assert np.isfinite(model.decision_function(X[0] + 1e250 * way)).all()


def test_more_features_than_samples():
    X, y = make_blobs(60, n_features=300, centers=3, cluster_std=3.0, random_state=0)
    model = SIMCA(n_components=5).fit(X[:45], y[:45])
    assert (model.predict_known(X[45:]) == y[45:]).all()
    assert (model.predict(X[45:]) == y[45:]).mean() > 0.6


def test_small_classes_take_the_common_moments(data):
    X, y, _ = data
    small = np.array([[20.0, 0, 0, 0], [20.0, 1, 0, 0], [20.0, 0, 1, 0], [20.0, 0, 0, 1]])
    model = SIMCA(n_components=2).fit(np.vstack([X, small]), np.append(y, [3] * 4))
    held_out = SIMCA(n_components=2).fit(X, y)
    assert_array_equal(model.moments_[:3], held_out.moments_)
    assert model.predict(small.mean(axis=0)[None]) == 3


def test_bad_input(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="variance of X within the classes is zero"):
        SIMCA().fit(np.eye(3)[[0, 0, 1, 1]], [0, 0, 1, 1])
    for bad in (-1, 1.5, 0.0):
        with pytest.raises(ValueError, match="'n_components' parameter"):
            SIMCA(n_components=bad).fit(X, y)
    with pytest.raises(ValueError, match="overflows"):
        SIMCA().fit(X * 1e200, y)
