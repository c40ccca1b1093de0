"""Decision values against the formula, evaluated directly in float64."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from openset.kernels import RBF, InverseMultiquadric, Linear, RationalQuadratic, TStudent
from openset.solver import decision_values

KERNELS = [RBF(), TStudent(), TStudent(0.8), RationalQuadratic(0.3), InverseMultiquadric(0.5)]


def formula(X, S, coef, bias, kernel, gamma):
    squares = cdist(X, S, "sqeuclidean")
    return np.column_stack(
        [kernel.value(g * squares) @ a + b for g, a, b in zip(gamma, coef, bias, strict=True)]
    )


def expansion(seed, n_sv=80, d=4, n_classes=3, size=1.0):
    rng = np.random.default_rng(seed)
    S = rng.normal(size=(n_sv, d))
    coef = size * rng.uniform(-1, 1, size=(n_classes, n_sv)) * (rng.random((n_classes, n_sv)) < 0.6)
    X = np.vstack([S, rng.normal(size=(70, d)), 5 * rng.normal(size=(20, d))])
    return X, S, coef, rng.normal(size=n_classes)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("d", [1, 4, 300])
@pytest.mark.parametrize("width", [1e-3, 1.0, 1e3])
def test_formula(kernel, d, width):
    X, S, coef, bias = expansion(0, d=d)
    gamma = np.full(3, width / d)
    f = decision_values(X, S, coef, bias, kernel, gamma)
    assert_allclose(f, formula(X, S, coef, bias, kernel, gamma), atol=2e-5)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_classes_of_several_widths(layout):
    X, S, coef, bias = expansion(1, n_classes=5)
    gamma = np.array([0.3, 2.0, 0.3, 1e-4, 500.0])
    f = decision_values(layout(X), layout(S), coef, bias, RBF(), gamma)
    assert_allclose(f, formula(X, S, coef, bias, RBF(), gamma), atol=2e-5)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_sparse_is_dense(kernel):
    X, S, coef, bias = expansion(2, d=30)
    X, S = (np.where(np.abs(A) > 1, A, 0.0) for A in (X, S))
    gamma = np.full(3, 0.05)
    f = decision_values(sparse.csr_array(X), sparse.csr_array(S), coef, bias, kernel, gamma)
    assert_allclose(f, formula(X, S, coef, bias, kernel, gamma), atol=2e-5)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_linear(layout):
    X, S, coef, bias = expansion(3)
    f = decision_values(layout(X), layout(S), coef, bias, Linear(), np.ones(3))
    assert type(f) is np.ndarray
    assert_allclose(f, X @ S.T @ coef.T + bias, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_many_points_and_support_vectors(n_jobs):
    # More than one tile both ways, and neither a multiple of its side.
    rng = np.random.default_rng(4)
    X, S = rng.normal(size=(700, 5)), rng.normal(size=(2300, 5))
    coef, bias = rng.normal(size=(2, 2300)) / 50, rng.normal(size=2)
    gamma = np.array([0.5, 0.5])
    f = decision_values(X, S, coef, bias, RBF(), gamma, n_jobs)
    assert_allclose(f, formula(X, S, coef, bias, RBF(), gamma), atol=2e-5)
    assert_array_equal(f, decision_values(X, S, coef, bias, RBF(), gamma))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_far_away_only_the_bias_is_left(kernel, layout):
    X, S, coef, bias = expansion(5)
    directions = X[-20:] / np.linalg.norm(X[-20:], axis=1, keepdims=True)
    for gamma in (1e-3, 1.0, 1e3):
        for distance in (1e20, 1e150, 1e250, 1.5e308):
            with np.errstate(all="raise", under="ignore"):
                far = layout(np.clip(directions * distance, -1.5e308, 1.5e308))
            f = decision_values(far, layout(S), coef, bias, kernel, np.full(3, gamma))
            assert_allclose(f, np.tile(bias, (20, 1)), atol=1e-5)


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e6, 1e8, 1e12])
def test_slow_kernels_on_the_way_out(distance):
    X, S, coef, bias = expansion(6)
    coef, bias = np.abs(coef), np.zeros(3)
    far = distance * X[-20:]
    for kernel in (TStudent(0.8), InverseMultiquadric(0.5)):
        f = decision_values(far, S, coef, bias, kernel, np.ones(3))
        assert_allclose(f, formula(far, S, coef, bias, kernel, np.ones(3)), rtol=1e-5)


@pytest.mark.parametrize("gap", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("kernel", KERNELS[:2], ids=repr)
def test_support_vectors_far_apart(kernel, gap):
    X, S, coef, bias = expansion(7)
    X[: len(S) // 2] += gap
    S[: len(S) // 2] += gap
    gamma = np.ones(3)
    f = decision_values(X, S, coef, bias, kernel, gamma)
    assert_allclose(f, formula(X, S, coef, bias, kernel, gamma), atol=2e-5)


def test_mean_1000():
    X, S, coef, bias = expansion(8)
    f = decision_values(X, S, coef, bias, RBF(), np.ones(3))
    moved = decision_values(X + 1000, S + 1000, coef, bias, RBF(), np.ones(3))
    assert_allclose(moved, f, atol=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_rounding_never_decides(kernel, size, layout):
    # A bias that puts a point a hair on either side of zero: the sign is that of float64.
    X, S, coef, _ = expansion(9, size=size, n_classes=1)
    gamma = np.array([0.5])
    f = formula(X, S, coef, [0.0], kernel, gamma)[:, 0]
    for hair in (-1e-9, 1e-9):
        for i in range(0, len(X), 7):
            bias = np.array([hair * size - f[i]])
            value = decision_values(layout(X), layout(S), coef, bias, kernel, gamma)[i, 0]
            assert_allclose(value, hair * size, rtol=1e-3)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("gamma", [[0.5] * 3, [0.5, 0.2, 0.7]], ids=str)
def test_rounding_never_decides_between_classes(gamma, layout):
    X, S, coef, bias = expansion(8, n_sv=300)
    gamma, bias = np.array(gamma), np.array([4.0, 4.0, -9.0])
    exact = formula(X, S, coef, bias, RBF(), gamma)
    shift = exact[:, 0] - exact[:, 1]
    tied = 0
    for row in range(60):  # the biases make two classes tie at this row, but for 1e-9 either way
        for more in (-1e-9, 1e-9):
            moved = bias + np.array([0.0, shift[row] + more, 0.0])
            f = decision_values(layout(X[row : row + 1]), layout(S), coef, moved, RBF(), gamma)
            if f[0].max() == f[0, :2].max() > 0:
                tied += 1
                assert f[0].argmax() == int(more > 0)
    assert tied > 60


def test_classes_without_support_vectors():
    X, S, coef, bias = expansion(10)
    coef[1] = 0
    f = decision_values(X, S, coef, bias, RBF(), np.array([1.0, 2.0, 1.0]))
    assert np.all(f[:, 1] == bias[1])
    f = decision_values(X, S[:0], coef[:, :0], bias, RBF(), np.ones(3))
    assert_array_equal(f, np.tile(bias, (len(X), 1)))


def test_memory_order_of_the_points_does_not_matter():
    X, S, coef, bias = expansion(11)
    f = decision_values(X, S, coef, bias, RBF(), np.ones(3))
    for A in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X[::-1][::-1]):
        given = A.copy()
        assert_allclose(decision_values(A, S, coef, bias, RBF(), np.ones(3)), f, atol=1e-6)
        assert_array_equal(A, given)
