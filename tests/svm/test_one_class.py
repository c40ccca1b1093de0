"""The one-class SVM of each class against scikit-learn's, worked numbers and its own facts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.svm import OneClassSVM

from openset.svm import MulticlassOneClassSVM


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def test_worked_numbers():
    X = np.array([[0.0], [1.0], [3.0]])
    model = MulticlassOneClassSVM(nu=0.5, gamma=0.5, tol=1e-9).fit(X, [7, 7, 7])
    assert_array_equal(model.support_, [0, 1, 2])
    assert_allclose(model.dual_coef_[0], [0.521156, 0.309984, 0.668860], atol=2e-6)
    assert_allclose(-model.intercept_, 0.716601, atol=1e-6)
    f = model.decision_function([[0.5], [2.0], [6.0]])[:, 0]
    assert_allclose(f, [0.046265, -0.052372, -0.709170], atol=1e-6)


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5, 0.97])
@pytest.mark.parametrize("gamma", [0.05, 1.0, 20.0])
def test_against_scikit_learn(iris, nu, gamma):
    X, y = iris
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 1, X.max(axis=0) + 1, size=(100, 4))
    model = MulticlassOneClassSVM(nu=nu, gamma=gamma, tol=1e-8).fit(X, y)
    for c, label in enumerate(model.classes_):
        theirs = OneClassSVM(nu=nu, gamma=gamma, tol=1e-10).fit(X[y == label])
        assert_allclose(model.decision_function(Z)[:, c], theirs.decision_function(Z), atol=1e-5)
        assert_allclose(model.intercept_[c], theirs.intercept_[0], atol=1e-5)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_weights_against_copies_in_scikit_learn(iris, kernel):
    X, y = iris
    weight = np.random.default_rng(1).integers(1, 4, size=len(X))
    # A sum of multipliers that is not whole leaves one of them free: rho is unique.
    model = MulticlassOneClassSVM(nu=0.317, kernel=kernel, gamma=1.0, tol=1e-8)
    model.fit(X, y, sample_weight=weight)
    for c, label in enumerate(model.classes_):
        own = y == label
        copies = np.repeat(X[own], weight[own], axis=0)
        theirs = OneClassSVM(nu=0.317, kernel=kernel, gamma=1.0, tol=1e-10).fit(copies)
        expected = theirs.decision_function(X)
        scale = max(1.0, np.abs(expected).max())
        assert_allclose(model.decision_function(X)[:, c], expected, atol=1e-5 * scale)
    assert np.all(model.bounded_ == (kernel == "rbf"))


def test_a_class_sees_its_own_samples_only(iris):
    X, y = iris
    model = MulticlassOneClassSVM(gamma=0.5).fit(X, y)
    assert [set(y[model.support_[row != 0]]) for row in model.dual_coef_] == [
        {label} for label in model.classes_
    ]
    two = MulticlassOneClassSVM(gamma=0.5).fit(X[y != "setosa"], y[y != "setosa"])
    assert_array_equal(two.intercept_, model.intercept_[1:])
    assert_allclose(two.decision_function(X), model.decision_function(X)[:, 1:], atol=1e-5)


@pytest.mark.parametrize("nu", [0.1, 0.4])
def test_nu_bounds_the_fractions(iris, nu):
    X, y = iris
    model = MulticlassOneClassSVM(nu=nu, gamma=0.5, tol=1e-8).fit(X, y)
    f = model.decision_function(X)
    for c, label in enumerate(model.classes_):
        own = y == label
        assert np.mean(f[own, c] < -1e-6) <= nu
        assert np.count_nonzero(model.dual_coef_[c]) >= nu * own.sum()
        assert_allclose(model.dual_coef_[c].sum(), nu * own.sum())


def test_own_parameters_for_each_class(iris):
    X, y = iris
    nu = {"setosa": 0.1, "versicolor": 0.2, "virginica": 0.7}
    gamma = {"setosa": 0.3, "versicolor": 2.0, "virginica": 1.0}
    model = MulticlassOneClassSVM(nu=nu, gamma=gamma).fit(X, y)
    for c, label in enumerate(model.classes_):
        alone = MulticlassOneClassSVM(nu=nu[label], gamma=gamma[label]).fit(X, y)
        assert_allclose(
            model.decision_function(X)[:, c], alone.decision_function(X)[:, c], atol=1e-5
        )


def test_normalized_scores_are_minus_one_far_away(iris):
    X, y = iris
    plain = MulticlassOneClassSVM(gamma=0.5, nu=0.2).fit(X, y)
    model = MulticlassOneClassSVM(gamma=0.5, nu=0.2, normalize=True).fit(X, y)
    assert_allclose(
        model.decision_function(X), plain.decision_function(X) / -plain.intercept_, atol=1e-6
    )
    assert_array_equal(model.decision_function(X + 1e3), -1.0)
    assert_allclose(model.known_radius_, plain.known_radius_)
    with pytest.raises(ValueError, match="normalize=True divides by rho"):
        MulticlassOneClassSVM(kernel="linear", normalize=True).fit(X, y)


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("kernel", ["rbf", "t_student"])
def test_every_class_is_bounded_and_keeps_its_certificate(iris, kernel, gamma):
    X, y = iris
    rng = np.random.default_rng(2)
    model = MulticlassOneClassSVM(kernel=kernel, gamma=gamma, nu=0.05).fit(X, y)
    assert model.bounded_.all() and np.all(model.intercept_ < 0)
    for c, row in enumerate(model.dual_coef_):
        directions = rng.normal(size=(500, 4))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        centers = X[model.support_[rng.choice(np.flatnonzero(row), size=500)]]
        Z = centers + directions * model.known_radius_[c] * 1.0001
        nearest = np.linalg.norm(Z[:, None] - X[model.support_[row > 0]], axis=2).min(axis=1)
        outside = Z[nearest > model.known_radius_[c]]
        assert len(outside) > 0
        assert np.all(model.decision_function(outside)[:, c] < 0)


def test_threads_do_not_change_the_result(iris):
    X, y = iris
    one = MulticlassOneClassSVM().fit(X, y)
    two = MulticlassOneClassSVM(n_jobs=2).fit(X, y)
    assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert_array_equal(one.intercept_, two.intercept_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu": 0.0}, "'nu' parameter"),
        ({"nu": 1.0}, "'nu' parameter"),
        ({"nu": {"setosa": 0.5}}, "nu is a dict for the classes"),
        ({"nu": {"setosa": 0.5, "versicolor": 1.0, "virginica": 0.1}}, r"nu\['versicolor'\]"),
        ({"gamma": -1.0}, "'gamma' parameter"),
        ({"kernel": "precomputed"}, "kernel"),
        ({"normalize": 2}, "'normalize' parameter"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        MulticlassOneClassSVM(**parameters).fit(*iris)
