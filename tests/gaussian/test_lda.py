"""Gaussian classes with one covariance against the formulas written out with scikit-learn's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_iris

from openset.gaussian import SIMCA, OpenSetLDA, ViM
from openset.utils import thread_map


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, size=(200, 4))
    return X, y, Z


def _distances(X, y, Z, relative=False, normalize=False):
    """(n, K) distances, by the definition."""
    if normalize:
        X, Z = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Z))
    means = np.array([X[y == c].mean(axis=0) for c in np.unique(y)])
    inverse = np.linalg.inv(ledoit_wolf(X - means[y], assume_centered=True)[0])
    d = np.array([[(z - m) @ inverse @ (z - m) for m in means] for z in Z])
    if relative:
        inverse = np.linalg.inv(ledoit_wolf(X - X.mean(axis=0), assume_centered=True)[0])
        d -= np.array([(z - X.mean(axis=0)) @ inverse @ (z - X.mean(axis=0)) for z in Z])[:, None]
    return d


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_distances_written_out(data, relative, normalize):
    X, y, Z = data
    model = OpenSetLDA(relative=relative, normalize=normalize).fit(X, y)
    expected = _distances(X, y, Z, relative, normalize)
    assert_allclose(-model.raw_scores(Z), expected, rtol=1e-8, atol=1e-8)
    assert_allclose(model.decision_function(Z), model.radius_ - expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("relative", [False, True])
def test_radius_is_a_quantile_of_distances_without_the_sample(data, relative):
    """Leave each row out and invert anew; only the amount of shrinkage stays."""
    X, y, _ = data
    X, y = X[::3], y[::3]
    n = len(X)
    model = OpenSetLDA(quantile=0.8, relative=relative).fit(X, y)
    own = []
    for i in range(n):
        rest = np.arange(n) != i
        mean = X[rest & (y == y[i])].mean(axis=0)
        within = X - np.array([X[rest & (y == c)].mean(axis=0) for c in range(3)])[y]
        own.append(_quadratic(X[i] - mean, within[rest], model.covariance_, model.shrinkage_, n))
        if relative:
            S0, shrinkage = ledoit_wolf(X - X.mean(axis=0), assume_centered=True)
            mean = X[rest].mean(axis=0)
            own[-1] -= _quadratic(X[i] - mean, X[rest] - mean, S0, shrinkage, n)
    assert_allclose(model.radius_, np.quantile(own, 0.8), rtol=1e-8)


def _quadratic(r, R, covariance, shrinkage, n):
    target = np.trace(covariance) / len(covariance)
    S = (1 - shrinkage) * R.T @ R / n + shrinkage * target * np.eye(len(covariance))
    return r @ np.linalg.inv(S) @ r


def test_radius_holds_for_new_samples_with_many_features():
    """In-sample distances would accept 3 % of new samples here; those without the sample 90 %."""
    rng = np.random.default_rng(1)
    means = rng.normal(size=(20, 60))
    y = np.repeat(np.arange(20), 8)
    draw = lambda: means[y] + rng.normal(size=(len(y), 60))  # noqa: E731
    model = OpenSetLDA(quantile=0.9).fit(draw(), y)
    own = [model.decision_function(draw())[np.arange(len(y)), y] >= 0 for _ in range(5)]
    assert 0.85 < np.mean(own) < 0.95


def test_per_class_radius(data):
    X, y, _ = data
    model = OpenSetLDA(per_class=True).fit(X, y)
    same = OpenSetLDA().fit(X, y)
    assert len(set(model.radius_)) == 3 and len(set(same.radius_)) == 1
    assert_array_equal(model.set_params(per_class=False).radius_, same.radius_)


def test_bounded_exactly_if_the_eigenvalue_is_positive(data):
    X, y, _ = data
    directions = np.random.default_rng(0).normal(size=(500, 4))
    assert OpenSetLDA().fit(X, y).bounded_.all()
    assert not OpenSetLDA(normalize=True).fit(X, y).bounded_.any()
    found = set()
    for seed in range(6):
        # Classes that differ in all features, or in one of four.
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(8, 4)) * (5 if seed % 2 else [5, 0, 0, 0])
        codes = np.repeat(np.arange(8), 20)
        A = means[codes] + rng.normal(size=(160, 4))
        model = OpenSetLDA(relative=True).fit(A, codes)
        S0 = ledoit_wolf(A - A.mean(axis=0), assume_centered=True)[0]
        difference = np.linalg.inv(model.covariance_) - np.linalg.inv(S0)
        values, vectors = np.linalg.eigh(difference)
        assert model.bounded_.all() == (values[0] > 0)
        found.add(bool(values[0] > 0))
        axes = np.vstack([vectors.T, directions])
        far = model.decision_function(1e8 * axes) >= 0
        assert far.any() == (values[0] < 0)
    assert found == {False, True}


def test_more_features_than_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 50)) + 4 * np.repeat(np.eye(3, 50), 4, axis=0)
    y = np.repeat(["a", "b", "c"], 4)
    for relative in (False, True):
        model = OpenSetLDA(relative=relative, quantile=1.0).fit(X, y)
        assert_array_equal(model.predict_known(X), y)
        assert np.isfinite(model.radius_).all()


def test_classes_with_one_sample(data):
    X, y, _ = data
    X, y = np.vstack([X, [[20.0, 20, 20, 20]]]), np.append(y, 3)
    model = OpenSetLDA().fit(X, y)
    assert model.predict([[20.0, 20, 20, 20], [20.1, 20, 20, 20], [90, 0, 0, 0]]).tolist() == [
        3,
        3,
        -1,
    ]
    with pytest.raises(ValueError, match="covariance of X within the classes is zero"):
        OpenSetLDA().fit(X[[0, 60, 120]], [0, 1, 2])
    with pytest.raises(ValueError, match="one distinct sample"):
        OpenSetLDA().fit(X[[0, 0, 60, 60]], [0, 0, 1, 1])


def test_threads_of_the_caller_do_not_matter(data):
    X, y, Z = data
    model = OpenSetLDA().fit(X, y)
    expected = model.decision_function(Z)
    for scores in thread_map(model.decision_function, [Z] * 4, 2):
        assert_allclose(scores, expected)


def test_huge_samples_are_scored(data):
    X, y, _ = data
    far = np.random.default_rng(0).normal(size=(50, 4)) * 1e200
    for relative in (False, True):
        scores = OpenSetLDA(relative=relative).fit(X, y).decision_function(far)
        assert np.isfinite(scores).all()
    assert (OpenSetLDA().fit(X, y).decision_function(far) < 0).all()


def test_zero_vector_has_no_direction(data):
    X, y, Z = data
    model = OpenSetLDA(normalize=True).fit(X, y)
    with pytest.raises(ValueError, match="1 rows of zeros"):
        model.predict(np.vstack([Z[:2], np.zeros(4)]))
    with pytest.raises(ValueError, match="rows of zeros"):
        OpenSetLDA(normalize=True).fit(np.vstack([X, np.zeros(4)]), np.append(y, 0))


@pytest.mark.parametrize(
    "bad", [{"quantile": 1.5}, {"quantile": -0.1}, {"relative": 2}, {"normalize": "l2"}]
)
def test_bad_parameters(data, bad):
    X, y, _ = data
    with pytest.raises(ValueError, match=f"'{next(iter(bad))}' parameter"):
        OpenSetLDA(**bad).fit(X, y)


@pytest.mark.parametrize("method", [OpenSetLDA(), SIMCA(), ViM()], ids=["LDA", "SIMCA", "ViM"])
def test_where_lapack_gives_up(data, method, monkeypatch):
    # syevr fails on 1,000 features of 400 rows (15-scenes) with some kernels of OpenBLAS.
    X, y, Z = data
    expected = clone(method).fit(X, y).decision_function(Z)

    def gives_up(matrix):
        raise np.linalg.LinAlgError("Internal Error.")

    monkeypatch.setattr("openset.gaussian._means.eigh", gives_up)
    scores = clone(method).fit(X, y).decision_function(Z)
    assert_allclose(scores, expected, rtol=1e-8, atol=1e-8)
