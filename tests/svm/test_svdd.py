"""The ball around each class against an interior-point solver, worked numbers and its own facts."""

import numpy as np
import pytest
from cvxopt import matrix, solvers
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel

from openset.svm import MulticlassOneClassSVM, MulticlassSVDD


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3], y[::3]


def interior_point(K, boxes):
    """Multipliers and squared radius of the ball, from Tax and Duin's dual."""
    n = len(K)
    options = {"show_progress": False, "abstol": 1e-13, "reltol": 1e-13, "feastol": 1e-13}
    solution = solvers.qp(
        matrix(2 * K),
        matrix(-K.diagonal()),
        matrix(np.vstack([-np.eye(n), np.eye(n)])),
        matrix(np.append(np.zeros(n), boxes)),
        matrix(np.ones((1, n))),
        matrix(1.0),
        options=options,
    )
    alpha = np.array(solution["x"]).ravel()
    d2 = K.diagonal() - 2 * K @ alpha + alpha @ K @ alpha
    free = (alpha > 1e-5 * boxes) & (alpha < boxes * (1 - 1e-5))
    return alpha, d2[free].mean()


@pytest.mark.parametrize("C", [2 / 3, 1.0, 8.0])
def test_worked_numbers(C):
    model = MulticlassSVDD(C=C, gamma=0.5, tol=1e-9).fit([[0.0], [1.0], [3.0]], [1, 1, 1])
    assert_allclose(model.dual_coef_[0] / 2, [0.347438, 0.206656, 0.445907], atol=1e-6)
    assert_allclose(model.radius_**2, 0.522266, atol=1e-6)
    score = model.decision_function([[0.5], [2.0], [6.0]])[:, 0]
    assert_allclose(score, [0.061686, -0.069829, -0.945560], atol=1e-6)


@pytest.mark.parametrize("gamma", [0.1, 2.0])
@pytest.mark.parametrize("price", [{"C": 1.0}, {"C": 0.08}, {"nu": 0.3}])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_an_interior_point_solver(iris, gamma, price, weighted):
    X, y = iris
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.5, 2, size=len(X)) if weighted else np.ones(len(X))
    Z = rng.uniform(X.min(axis=0) - 1, X.max(axis=0) + 1, size=(50, 4))
    model = MulticlassSVDD(**price, gamma=gamma, tol=1e-8).fit(X, y, sample_weight=weight)
    for c in range(3):
        own, w = X[y == c], weight[y == c]
        K = rbf_kernel(own, gamma=gamma)
        alpha, R2 = interior_point(K, price.get("C", 1 / (price.get("nu", 1) * w.sum())) * w)
        d2 = 1 - 2 * rbf_kernel(Z, own, gamma=gamma) @ alpha + alpha @ K @ alpha
        assert_allclose(model.decision_function(Z)[:, c], R2 - d2, atol=1e-5)
        assert_allclose(model.radius_[c] ** 2, R2, atol=1e-5)


def test_a_price_of_one_holds_every_sample(iris):
    X, y = iris
    hard = MulticlassSVDD(C=1.0, gamma=0.5, tol=1e-6).fit(X, y)
    scores = hard.decision_function(X)[np.arange(len(X)), y]
    assert scores.min() > -1e-5
    higher = MulticlassSVDD(C=50.0, gamma=0.5, tol=1e-6).fit(X, y)
    assert_allclose(higher.radius_, hard.radius_, atol=1e-5)


@pytest.mark.parametrize("price", [{"C": 1e-3}, {"C": 1 / 17}, {"nu": 1.0}])
def test_a_small_price_leaves_the_mean_without_radius(iris, price):
    X, y = iris
    model = MulticlassSVDD(**price, gamma=0.5).fit(X, y)
    assert_array_equal(model.radius_, 0.0)
    K = rbf_kernel(X, gamma=0.5)
    for c in range(3):
        own = y == c
        d2 = 1 - 2 * K[:, own].mean(axis=1) + K[np.ix_(own, own)].mean()
        assert_allclose(model.decision_function(X)[:, c], -d2, atol=1e-6)
    assert model.bounded_.all()
    assert np.all(model.predict(X) == model.unknown_label_)


@pytest.mark.parametrize("nu", [0.1, 0.6])
def test_it_accepts_what_the_one_class_svm_accepts(iris, nu):
    X, y = iris
    balls = MulticlassSVDD(nu=nu, gamma=0.7, tol=1e-8).fit(X, y)
    planes = MulticlassOneClassSVM(nu=nu, gamma=0.7, tol=1e-8).fit(X, y)
    counts = np.bincount(y)
    expected = planes.decision_function(X) * 2 / (nu * counts)
    assert_allclose(balls.decision_function(X), expected, atol=1e-6)


def test_own_parameters_for_each_class(iris):
    X, y = iris
    nu, gamma = {0: 0.1, 1: 0.2, 2: 0.7}, {0: 0.3, 1: 2.0, 2: 1.0}
    model = MulticlassSVDD(nu=nu, gamma=gamma).fit(X, y)
    for c in range(3):
        alone = MulticlassSVDD(nu=nu[c], gamma=gamma[c]).fit(X, y)
        assert_allclose(model.radius_[c], alone.radius_[c], atol=1e-6)


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("kernel", ["rbf", "inverse_multiquadric"])
def test_every_class_is_bounded(iris, kernel, gamma):
    X, y = iris
    model = MulticlassSVDD(kernel=kernel, gamma=gamma).fit(X, y)
    assert model.bounded_.all() and np.all(model.intercept_ < 0)
    for direction in np.random.default_rng(1).normal(size=(30, 4)):
        direction /= np.linalg.norm(direction)
        far = X.mean(axis=0) + (np.ptp(X) + model.known_radius_.max()) * 1.01 * direction
        assert model.predict([far])[0] == model.unknown_label_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"nu": 0.0}, "'nu' parameter"),
        ({"nu": 1.1}, "'nu' parameter"),
        ({"nu": {0: 0.1, 1: 2.0, 2: 0.5}}, r"nu\[1\] must be"),
        ({"kernel": "linear"}, "kernel='linear' does not decay"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        MulticlassSVDD(**parameters).fit(*iris)
