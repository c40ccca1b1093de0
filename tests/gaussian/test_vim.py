"""The virtual logit, against scikit-learn's LDA and PCA written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from openset.gaussian import ViM


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, size=(200, 4))
    return X, y, Z


def _scores(X, y, Z, n_components):
    """ViM by the paper's recipe, over the logits of a linear discriminant in the zero-sum gauge."""
    means = np.array([X[y == c].mean(axis=0) for c in np.unique(y)])
    covariance = LedoitWolf(assume_centered=True).fit(X - means[y]).covariance_
    W = np.linalg.solve(covariance, means.T)
    b = -0.5 * np.sum(means.T * W, axis=0) + np.log(np.bincount(y) / len(y))
    W, b = W - W.mean(axis=1, keepdims=True), b - b.mean()
    u = -np.linalg.pinv(W.T) @ b
    _, vectors = np.linalg.eigh((X - u).T @ (X - u) / len(X))
    null = vectors[:, : X.shape[1] - n_components]
    alpha = (X @ W + b).max(axis=1).mean() / np.linalg.norm((X - u) @ null, axis=1).mean()
    logits = Z @ W + b
    best = logsumexp(logits, axis=1) - alpha * np.linalg.norm((Z - u) @ null, axis=1)
    return best[:, None] + logits - logits.max(axis=1, keepdims=True)


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_written_out(data, n_components):
    X, y, Z = data
    model = ViM(n_components, quantile=0.9).fit(X, y)
    own = np.empty(len(X))
    order = np.lexsort(np.column_stack([y, X]).T[::-1])
    for fold in range(5):
        judged = order[fold::5]
        fit = np.delete(np.arange(len(X)), judged)
        scores = _scores(X[fit], y[fit], X[judged], n_components)
        own[judged] = scores[np.arange(len(judged)), y[judged]]
    threshold = np.quantile(-own, 0.9)
    assert_allclose(model.radius_, threshold, rtol=1e-6)
    expected = _scores(X, y, Z, n_components) + threshold
    assert_allclose(model.decision_function(Z), expected, rtol=1e-6, atol=1e-6)


def test_the_head_is_the_linear_discriminant():
    X, y = load_digits(return_X_y=True)
    model = ViM().fit(X[:900], y[:900])
    head = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=LedoitWolf()).fit(
        X[:900], y[:900]
    )
    logits = head.decision_function(X[900:])
    agree = model.predict_known(X[900:]) == logits.argmax(axis=1)
    assert agree.mean() > 0.99  # scikit-learn averages the shrunk covariances of the classes


def test_never_bounded(data):
    X, y, _ = data
    model = ViM(n_components=2).fit(X, y)
    assert not model.bounded_.any()
    # Along a principal direction the logits win, across it the residual does.
    far = model.origin_ + 1e4 * np.vstack([model.components_, -model.components_])
    assert (model.predict(far) != -1).any()
    across = np.linalg.svd(model.components_)[2][2:]
    assert (model.predict(model.origin_ + 1e4 * np.vstack([across, -across])) == -1).all()
    assert np.isfinite(model.decision_function(1e250 * np.ones((1, 4)))).all()


def test_removing_a_class_keeps_the_scores_of_the_others(data):
    X, y, Z = data
    model = ViM().fit(X, y)
    before = model.decision_function(Z)
    model.remove_classes([1])
    assert_array_equal(model.decision_function(Z), before[:, [0, 2]])


def test_bad_input(data):
    X, y, _ = data
    for bad in (-1, 1.5, 0.0):
        with pytest.raises(ValueError, match="'n_components' parameter"):
            ViM(n_components=bad).fit(X, y)
    with pytest.raises(ValueError, match="covariance of X within the classes is zero"):
        ViM().fit(np.eye(3)[[0, 0, 1, 1]], [0, 0, 1, 1])
