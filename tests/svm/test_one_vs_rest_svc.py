"""OneVsRestSVC against scikit-learn's SVC, one machine at a time."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from openset import OneVsRestSVC
from openset.kernels import InverseMultiquadric, RationalQuadratic, TStudent


def scikit_learn(X, y, Z, **parameters):
    """Decision values of Z, one SVC for each class against the rest."""
    sample_weight = parameters.pop("sample_weight", None)
    machines = [
        SVC(tol=1e-8, **parameters).fit(X, np.where(y == c, 1, -1), sample_weight)
        for c in np.unique(y)
    ]
    return np.column_stack([machine.decision_function(Z) for machine in machines])


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_digits():
    X, y = load_digits(return_X_y=True)
    model = OneVsRestSVC(tol=1e-6).fit(X, y)
    Z = np.random.default_rng(0).uniform(0, 16, size=(200, 64))
    assert np.abs(model.decision_function(X) - scikit_learn(X, y, X)).max() <= 1e-4
    assert np.abs(model.decision_function(Z) - scikit_learn(X, y, Z)).max() <= 1e-4
    assert np.all(model.kkt_gap_ <= 1e-6)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.01, 10.0])
def test_iris(iris, C, gamma):
    X, y = iris
    model = OneVsRestSVC(C=C, gamma=gamma, tol=1e-7).fit(X, y)
    expected = scikit_learn(X, y, X, C=C, gamma=gamma)
    # At C = 100 scikit-learn's own answer is off by 1e-4: it keeps kernel values in float32.
    assert_allclose(model.decision_function(X), expected, atol=2e-4 if C == 100.0 else 1e-4)


@pytest.mark.parametrize("kernel", [TStudent(1.5), RationalQuadratic(0.5), InverseMultiquadric(2)])
def test_other_kernels(iris, kernel):
    X, y = iris

    def gram(A, B):
        return kernel.value(0.3 * cdist(A, B, "sqeuclidean"))

    model = OneVsRestSVC(kernel=kernel, gamma=0.3, tol=1e-7).fit(X, y)
    assert_allclose(model.decision_function(X), scikit_learn(X, y, X, kernel=gram), atol=1e-4)


def test_linear_kernel(iris):
    X, y = iris
    X = X[:, :3] - X[:, :3].mean(axis=0)
    model = OneVsRestSVC(kernel="linear", tol=1e-6).fit(X, y)
    assert_allclose(model.decision_function(X), scikit_learn(X, y, X, kernel="linear"), atol=1e-4)
    assert not model.bounded_.any()
    assert np.all(np.isinf(model.known_radius_))


def test_sample_weight(iris):
    X, y = iris
    weight = np.random.default_rng(0).uniform(0.2, 5, size=len(X))
    model = OneVsRestSVC(gamma=0.5, tol=1e-7).fit(X, y, sample_weight=weight)
    expected = scikit_learn(X, y, X, gamma=0.5, sample_weight=weight)
    assert_allclose(model.decision_function(X), expected, atol=1e-4)


def test_class_weight(iris):
    X, y = iris
    y = np.minimum(y, 1)
    model = OneVsRestSVC(gamma=0.5, class_weight="balanced", tol=1e-7).fit(X, y)
    theirs = SVC(gamma=0.5, class_weight="balanced", tol=1e-8).fit(X, y)
    expected = np.outer(theirs.decision_function(X), [-1, 1])
    assert_allclose(model.decision_function(X), expected, atol=1e-4)


def test_duplicate_rows_across_classes(iris):
    X, y = iris
    X, y = np.r_[X, X[40:110]], np.r_[y, (y[40:110] + 1) % 3]
    model = OneVsRestSVC(C=10.0, gamma=0.5, tol=1e-7).fit(X, y)
    assert_allclose(model.decision_function(X), scikit_learn(X, y, X, C=10.0, gamma=0.5), atol=1e-4)


def test_attributes(iris):
    X, y = iris
    model = OneVsRestSVC(C=2.0, gamma=0.5, tol=1e-7).fit(X, y)
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert_allclose(model.dual_coef_.sum(axis=1), 0, atol=1e-12)
    signs = np.where(y[model.support_] == model.classes_[:, None], 1, -1)
    assert np.all((model.dual_coef_ * signs >= 0) & (model.dual_coef_ * signs <= 2.0))
    assert np.all(model.dual_coef_.any(axis=0))
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    f = K[:, model.support_] @ model.dual_coef_.T + model.intercept_
    # What rounding to float32 may change, see "How exact is a score?" in docs/faq.md.
    bound = 4e-7 * np.abs(model.dual_coef_).sum(axis=1)
    assert np.all(np.abs(model.decision_function(X) - f) <= bound)
    objective = [
        0.5 * beta @ K[np.ix_(model.support_, model.support_)] @ beta - np.abs(beta).sum()
        for beta in model.dual_coef_
    ]
    assert_allclose(model.dual_objective_, objective, rtol=1e-6)
    assert np.all(model.n_iter_ > 0)
    assert_array_equal(model.bounded_, model.intercept_ < 0)


@pytest.mark.parametrize("n_features", [1, 5, 40, 70, 200])
def test_scores_are_as_exact_as_documented(n_features):
    """The bounds of "How exact is a score?" in docs/faq.md."""
    rng = np.random.default_rng(n_features)
    for C in (0.1, 10.0, 1e4):
        y = rng.integers(0, 3, 300)
        X = rng.normal(size=(3, n_features))[y] + rng.normal(size=(300, n_features))
        model = OneVsRestSVC(C=C, gamma=1 / n_features, max_iter=20_000)
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            model.fit(X, y)
        Z = np.vstack([X, (X[:-1] + X[1:]) / 2])
        K = np.exp(-cdist(Z, model.support_vectors_, "sqeuclidean") / n_features)
        exact = K @ model.dual_coef_.T + model.intercept_
        error = np.abs(model.decision_function(Z) - exact)
        share = 4e-7 if n_features <= 64 else 5e-6
        assert np.all(error <= share * np.abs(model.dual_coef_).sum(axis=1))
        assert error.max() <= 3e-5
        assert np.all(error[np.abs(exact) < 1e-4] <= 1e-9)


def test_boat(data_home):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_parquet(data_home / "boat.parquet")
    X = frame.drop(columns="target").to_numpy(dtype=np.float64)
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    model = OneVsRestSVC(gamma=16.0, tol=1e-6).fit(X, frame["target"])
    assert model.intercept_.round(3).tolist() == [-0.832, -0.860, 0.594]
    assert model.bounded_.tolist() == [True, True, False]
    # The third class is everything far away, and says so nowhere but there.
    far = [[50.0, 0.0], [0.0, -50.0], [-1e9, 1e9]]
    assert model.predict(far).tolist() == [model.classes_[2]] * 3
