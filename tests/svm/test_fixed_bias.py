"""The SVM without bias against an interior-point solver, LIBLINEAR, the OSSVM and its own facts."""

import numpy as np
import pytest
from benchmarks import fixed_bias
from cvxopt import matrix, solvers
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

from openset.svm import FixedBiasSVC, OpenSetSVC


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3], y[::3]


def interior_point(K, signs, boxes, bias):
    """y_i alpha_i of the machine whose bias is held at `bias`."""
    n = len(K)
    solution = solvers.qp(
        matrix(K * np.outer(signs, signs)),
        matrix(-(1 - signs * bias)),
        matrix(np.vstack([-np.eye(n), np.eye(n)])),
        matrix(np.append(np.zeros(n), boxes)),
        options={"show_progress": False, "abstol": 1e-12, "reltol": 1e-12, "feastol": 1e-12},
    )
    return signs * np.array(solution["x"]).ravel()


@pytest.mark.parametrize("mode", ["fixed", "artificial"])
@pytest.mark.parametrize("bias", [0.0, -0.25, -1.0])
@pytest.mark.parametrize("gamma", [0.1, 3.0])
def test_against_an_interior_point_solver(iris, mode, bias, gamma):
    X, y = iris
    weight = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    Z = np.random.default_rng(1).uniform(X.min(axis=0) - 1, X.max(axis=0) + 1, size=(50, 4))
    model = FixedBiasSVC(C=2.0, bias=bias, mode=mode, gamma=gamma, tol=1e-8)
    model.fit(X, y, sample_weight=weight)
    K = rbf_kernel(X, gamma=gamma)
    for c in range(3):
        signs = np.where(y == c, 1.0, -1.0)
        inside = bias if mode == "fixed" else 0.0
        beta = interior_point(K, signs, 2 * weight, inside)
        f = rbf_kernel(Z, X, gamma=gamma) @ beta + bias
        assert_allclose(model.decision_function(Z)[:, c], f, atol=2e-5)
    assert_array_equal(model.intercept_, bias)


@pytest.mark.parametrize("C", [1e3, 1e5])
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_wide_kernels_and_large_boxes_need_few_iterations(iris, C):
    X, y = iris
    # One multiplier at a time needs 300,000 iterations with C = 1000.
    model = FixedBiasSVC(C=C, bias=-0.3, gamma=1e-3, tol=1e-6, max_iter=20_000).fit(X, y)
    K = rbf_kernel(X, gamma=1e-3)
    for c in range(3):
        beta = interior_point(K, np.where(y == c, 1.0, -1.0), np.full(len(X), C), -0.3)
        assert_allclose(model.decision_function(X)[:, c], K @ beta - 0.3, atol=1e-5)


def test_against_liblinear(iris):
    X, y = iris
    model = FixedBiasSVC(kernel="linear", mode="artificial", bias=0.0, tol=1e-6).fit(X, y)
    for c in range(3):
        theirs = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-10, max_iter=10**6)
        expected = theirs.fit(X, y == c).decision_function(X)
        assert_allclose(model.decision_function(X)[:, c], expected, atol=1e-3)
    assert not model.bounded_.any()


def test_a_fixed_bias_is_the_ossvm_with_the_lambda_that_belongs_to_it(iris):
    X, y = iris
    # A class below its bias without lambda: holding the bias asks for a positive lambda.
    plain = OpenSetSVC(gamma=0.5, ensure_bounded=False, tol=1e-8).fit(X, y)
    c = int(np.argmax(plain.intercept_))
    bias = plain.intercept_[c] - 0.2
    assert bias < 0
    model = FixedBiasSVC(gamma=0.5, bias=bias, tol=1e-8).fit(X, y)
    lam = model.dual_coef_[c].sum() / np.count_nonzero(y == c)
    assert 0 < lam < 1
    ossvm = OpenSetSVC(gamma=0.5, lam=lam, tol=1e-8).fit(X, y)
    assert_allclose(ossvm.intercept_[c], bias, atol=1e-5)
    assert_allclose(ossvm.decision_function(X)[:, c], model.decision_function(X)[:, c], atol=1e-5)


@pytest.mark.parametrize("mode", ["fixed", "artificial"])
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e3])
def test_a_negative_bias_bounds_every_class(iris, mode, gamma):
    X, y = iris
    model = FixedBiasSVC(bias=-0.05, mode=mode, gamma=gamma).fit(X, y)
    assert model.bounded_.all()
    for direction in np.random.default_rng(0).normal(size=(30, 4)):
        far = np.ptp(X) + 1.01 * model.known_radius_.max()
        Z = X.mean(axis=0) + far * direction / np.linalg.norm(direction)
        assert model.predict([Z])[0] == model.unknown_label_
    assert not FixedBiasSVC(bias=0.0, mode=mode, gamma=gamma).fit(X, y).bounded_.any()


def test_training_makes_up_for_a_fixed_bias(iris):
    X, y = iris
    fixed = FixedBiasSVC(bias=-0.5, C=8.0).fit(X, y)
    artificial = FixedBiasSVC(bias=-0.5, C=8.0, mode="artificial").fit(X, y)
    assert np.mean(fixed.predict(X) == y) > np.mean(artificial.predict(X) == y)


def test_own_parameters_for_each_class(iris):
    X, y = iris
    bias, gamma = {0: -0.1, 1: -0.2, 2: -0.7}, {0: 0.3, 1: 2.0, 2: 1.0}
    model = FixedBiasSVC(bias=bias, gamma=gamma).fit(X, y)
    assert_array_equal(model.intercept_, [-0.1, -0.2, -0.7])
    for c in range(3):
        alone = FixedBiasSVC(bias=bias[c], gamma=gamma[c]).fit(X, y)
        assert_allclose(
            model.decision_function(X)[:, c], alone.decision_function(X)[:, c], atol=1e-5
        )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bias": 0.1}, "'bias' parameter"),
        ({"bias": {0: -0.1, 1: 0.5, 2: -0.1}}, r"bias\[1\] must be"),
        ({"bias": {0: -0.1}}, "bias is a dict for the classes"),
        ({"mode": "later"}, "'mode' parameter"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        FixedBiasSVC(**parameters).fit(*iris)


def test_it_needs_two_classes(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least 2 classes"):
        FixedBiasSVC().fit(X[y == 0], y[y == 0])


def near_copies(seed):
    """Rows of which half are copies of the others up to less than float32 can tell."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(20, 60)), int(rng.integers(1, 9))
    X, y = rng.normal(size=(m, d)), np.r_[0, 1, rng.integers(0, 2, m - 2)]
    X[m // 2 :] = X[: m - m // 2] + 1e-8 * rng.normal(size=(m - m // 2, d))
    return X, y, {"C": 1e3 * rng.uniform(1, 9), "gamma": 10.0 ** rng.uniform(-4, -2) / d}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(12))
def test_equal_rows_do_not_exchange_multipliers_for_ever(seed):
    X, y, params = near_copies(seed)
    model = FixedBiasSVC(bias=-0.1, tol=1e-8, **params).fit(X, y)
    assert model.n_iter_.max() < 200_000
    K = rbf_kernel(X, gamma=params["gamma"])
    for c in range(2):  # the gap is that in double precision, reached or not
        signs = np.where(y == c, 1.0, -1.0)
        beta = np.zeros(len(X))
        beta[model.support_] = model.dual_coef_[c]
        v = signs + 0.1 - K @ beta
        upper, lower = np.maximum(signs, 0) * params["C"], np.minimum(signs, 0) * params["C"]
        gap = 2 * max(v[beta < upper].max(initial=0.0), -v[beta > lower].min(initial=0.0))
        assert model.kkt_gap_[c] == pytest.approx(gap, rel=1e-3, abs=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("landmarks", [None, 10])
@pytest.mark.parametrize("seed", range(4))
def test_machines_with_a_bias_end_on_equal_rows(seed, landmarks):
    X, y, params = near_copies(seed)
    model = OpenSetSVC(landmarks=landmarks, random_state=0, tol=1e-12, **params).fit(X, y)
    assert model.n_iter_.max() < 10_000_000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [FixedBiasSVC, OpenSetSVC])
@pytest.mark.parametrize("max_iter", [0, 1, 50, 1000])
def test_max_iter_is_a_limit(model, max_iter):
    for seed in range(6):
        X, y, params = near_copies(seed)
        fitted = model(tol=1e-7, max_iter=max_iter, **params).fit(X, y)
        assert fitted.n_iter_.max() <= max_iter


def test_an_unfinished_fit_says_so():
    X, y, params = near_copies(3)
    with pytest.warns(ConvergenceWarning, match="KKT gap"):
        model = FixedBiasSVC(tol=1e-7, max_iter=20, **params).fit(X, y)
    assert model.kkt_gap_.max() > 1e-7


@pytest.mark.slow
def test_every_fit_ends_in_time():
    FixedBiasSVC().fit([[0.0], [1.0], [5.0], [6.0]], [0, 0, 1, 1])  # compiled or loaded
    measured = [fixed_bias.fit(np.random.default_rng([7, case])) for case in range(300)]
    assert max(result.seconds for result in measured) < 3  # of a busy machine
