"""Data at the edge of floating point: answers are right, or there is an error or a warning.

Each test is about an answer that was once silently wrong.
"""

import threading
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from openset import OpenSetSVC
from openset.evt import ExtremeValueMachine as EVM
from openset.kernels import RBF, InverseMultiquadric, RationalQuadratic, TStudent, get_kernel
from openset.neighbors import OSNN
from openset.solver import decision_values, kernel_rows, svm_problem
from openset.svm import (
    FixedBiasSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    OneVsRestSVC,
    OneVsSetMachine,
)

from .solver.reference_solver import solve_reference


def three_classes(m, d, seed=0, distance=2.0):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % 3
    X = rng.normal(size=(m, d)) / np.sqrt(d)
    X[:, :3] += distance * np.eye(3)[y][:, : min(3, d)]
    return X, y


def exact_scores(model, X):
    """The expansion of a fitted model, evaluated directly in float64."""
    S = model.support_vectors_
    S, X = (A.toarray() if sparse.issparse(A) else A for A in (S, X))
    kernel, squares = get_kernel(model.kernel), cdist(X, S, "sqeuclidean")
    columns = zip(model.gamma_, model.dual_coef_, model.intercept_, strict=True)
    return np.column_stack([kernel.value(g * squares) @ a + b for g, a, b in columns])


def true_gap(model, X, y):
    """Largest violation of the optimality conditions over the classes, in float64."""
    X = X.toarray() if sparse.issparse(X) else X
    scores, gaps = exact_scores(model, X), []
    for c, label in enumerate(model.classes_):
        signs = np.where(y == label, 1.0, -1.0)
        beta = np.zeros(len(X))
        beta[model.support_] = model.dual_coef_[c]
        v = signs - scores[:, c]
        grow = np.where(signs > 0, beta < model.C, beta < 0)
        shrink = np.where(signs > 0, beta > 0, beta > -model.C)
        gaps.append(v[grow].max(initial=-np.inf) - v[shrink].min(initial=np.inf))
    return max(gaps)


# --- distances ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [RBF(), TStudent(0.8), InverseMultiquadric(0.3)], ids=repr)
@pytest.mark.parametrize("d", [4, 80])
@pytest.mark.parametrize("offset", [1e6, 1e8, -1e10])
def test_csr_data_with_a_common_offset(offset, d, kernel):
    X, y = three_classes(90, d)
    X = np.round(X * 2**14) / 2**14 + np.round(offset)  # exact, so that dense data is the oracle
    dense = OpenSetSVC(gamma=1.0, kernel=kernel, C=4.0).fit(X, y)
    model = OpenSetSVC(gamma=1.0, kernel=kernel, C=4.0).fit(sparse.csr_array(X), y)
    scores = model.decision_function(sparse.csr_array(X))
    assert_allclose(scores, exact_scores(model, X), atol=2e-5)
    assert_allclose(scores, dense.decision_function(X), atol=5e-3)  # both within tol
    assert true_gap(model, X, y) <= 2 * model.tol
    assert np.mean(model.predict(sparse.csr_array(X)) == y) > 0.9
    near = model.explain(sparse.csr_array(X))
    assert_allclose(near.distance, cdist(X, model.support_vectors_.toarray()).min(axis=1))


@pytest.mark.parametrize("size", [1e9, 1e11, 1e15, 1e100, 1e200])
@pytest.mark.parametrize("d", [64, 65, 200])
def test_one_huge_cell(d, size):
    X, y = three_classes(120, d)
    X[7, 5] = size
    model = OpenSetSVC(gamma=1.0, C=4.0).fit(X, y)
    assert_allclose(model.decision_function(X), exact_scores(model, X), atol=2e-5)
    assert true_gap(model, X, y) <= 2 * model.tol
    assert np.mean(model.predict(X) == y) > 0.9
    assert_allclose(model.explain(X).distance, cdist(X, model.support_vectors_).min(axis=1))


@pytest.mark.parametrize("size", [1e9, 1e13, 1e100])
def test_one_huge_cell_among_neighbours(size):
    X, y = three_classes(150, 80)
    expected = OSNN().fit(X[1:], y[1:]).predict(X[1:] + 0.01)
    X[0, 3] = size
    for model in (OSNN(), EVM(tail_size=20)):
        model.fit(X, y)
        assert np.mean(model.predict(X) == y) > 0.9
    assert_array_equal(OSNN().fit(X, y).predict(X[1:] + 0.01), expected)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_half_of_the_data_far_away(layout):
    # The mean lies far from both halves: centring there would lose the digits of either.
    X, _ = three_classes(100, 90)
    X[:50, 2] += 1e12
    rows = kernel_rows(layout(X), RBF(), 1.0, 10)
    expected = np.exp(-cdist(X, X, "sqeuclidean"))
    assert_allclose(rows.store.rows, expected, atol=1e-6)
    coef, bias = np.linspace(-1, 1, 100)[None], np.zeros(1)
    f = decision_values(layout(X), layout(X), coef, bias, RBF(), np.ones(1))
    assert_allclose(f, expected @ coef.T, atol=2e-5)


def test_large_boxes_on_csr_data_with_an_offset():
    # Found by tests/fuzz: a KKT gap of 32 tol was reported as 0.2 tol.
    rng = np.random.default_rng(0)
    y = np.arange(45) % 2
    X = sparse.csc_array(np.round(2**12 * rng.normal(size=(45, 2))) / 2**12 + 1e6)
    model = OneVsRestSVC(C=1e4, gamma=1e-3, tol=1e-5, kernel=InverseMultiquadric(5.0)).fit(X, y)
    assert true_gap(model, X, y) <= 2e-5


@pytest.mark.parametrize("kernel", [TStudent(0.5), InverseMultiquadric(5.0)], ids=repr)
def test_a_radius_beyond_the_square_root_of_the_largest_number(kernel):
    # Found by tests/fuzz: the square of the radius overflowed, and the certificate was lost.
    X, y = three_classes(30, 3)
    model = OpenSetSVC(kernel=kernel).fit(X * 1e150, y)
    assert model.bounded_.all() and np.isfinite(model.known_radius_).all()
    assert np.all(model.predict(np.full((1, 3), 1e307)) == -1)


# --- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [TStudent(0.1), InverseMultiquadric(1e10), TStudent(1e-3)])
def test_kernels_that_hardly_decay_are_refused(kernel):
    X, y = three_classes(30, 3)
    with pytest.raises(ValueError, match="must tend to 0"):
        OpenSetSVC(kernel=kernel).fit(X, y)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("d", [3, 70])
@pytest.mark.parametrize("kernel", [TStudent(0.45), InverseMultiquadric(1e6), RationalQuadratic()])
def test_slow_kernels_far_beyond_the_certificate(kernel, d, layout):
    X, y = three_classes(60, d)
    model = OpenSetSVC(kernel=kernel, gamma=1.0, C=100.0, tol=1e-6).fit(layout(X), y)
    assert model.bounded_.all()
    directions = np.random.default_rng(1).normal(size=(10, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    far = 1.01 * model.known_radius_.max() + np.abs(X).max() * d
    for scale in (1.0, 1e10, 1e40, 1e100, 1e250):
        points = layout(directions * (far * scale))
        assert np.all(model.predict(points) == -1)
        with np.errstate(over="ignore"):
            assert_allclose(model.decision_function(points), exact_scores(model, points), atol=1e-6)


@pytest.mark.parametrize("gamma", [1 / 32, 2.0**-9])
@pytest.mark.parametrize("d", [5, 100])
def test_wide_kernels_keep_their_digits(gamma, d):
    # Many multipliers at their bounds: rounding of k near 1 adds up over all of them.
    rng = np.random.default_rng(3)
    X, y = rng.random((400, d)) / np.sqrt(d), np.arange(400) % 2
    X[:, 0] += 0.1 * y
    model = OneVsRestSVC(gamma=gamma, C=32.0, tol=1e-7).fit(X, y)
    assert np.abs(model.dual_coef_).sum() > 1000
    assert_allclose(model.decision_function(X), exact_scores(model, X), atol=1e-5)
    assert true_gap(model, X, y) <= 2e-7
    # And of the fit: the optimum of a solver in float64.
    K = np.exp(-gamma * cdist(X, X, "sqeuclidean"))
    signs = np.where(y == 1, 1.0, -1.0)
    problem = svm_problem(signs, np.full(len(y), 32.0), 0.0)
    expected = solve_reference(problem, K, tol=1e-7)
    f = K @ expected.beta
    assert_allclose(model.decision_function(X)[:, 1] - model.intercept_[1], f, atol=1e-5)


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e100, 1e150])
def test_scaled_data_scales_gamma(scale, layout):
    X, y = three_classes(60, 4)
    expected = OpenSetSVC().fit(layout(X), y)
    model = OpenSetSVC().fit(layout(X * scale), y)
    assert_allclose(model.gamma_ * scale * scale, expected.gamma_, rtol=1e-9)
    scores = model.decision_function(layout(X * scale))
    assert_allclose(scores, expected.decision_function(layout(X)), atol=5e-3)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_an_offset_leaves_gamma_alone(layout):
    X, y = three_classes(60, 4)
    X = np.round(X * 64) / 64
    model = OpenSetSVC().fit(layout(X + 1e14), y)
    assert_allclose(model.gamma_, 1 / (4 * X.var()), rtol=1e-9)
    assert np.mean(model.predict(layout(X + 1e14)) == y) > 0.9
    constant = OpenSetSVC().fit(layout(np.full((6, 4), 0.1)), [0, 1] * 3)
    assert_array_equal(constant.gamma_, 1.0)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e-165, 1e-200, 1e160, 1e250])
def test_no_gamma_for_data_out_of_range(scale, layout):
    X, y = three_classes(60, 4)
    with pytest.raises(ValueError, match="variance of X"):
        OpenSetSVC().fit(layout(X * scale), y)


@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("tol", [1e-16, 1e-300])
def test_a_tolerance_out_of_reach_ends(tol, C):
    X, y = three_classes(90, 3, distance=0.5)
    fitted = []

    def fit():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = OneVsRestSVC(gamma=1.0, C=C, tol=tol).fit(X, y)
        fitted.append((model, [str(w.message) for w in caught]))

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    thread.join(60)
    assert fitted, "the fit does not end"
    model, messages = fitted[0]
    assert any("tol" in message for message in messages)
    assert model.kkt_gap_.max() < 1e-8


@pytest.mark.parametrize("C", [1e10, 1e12])
def test_a_box_that_no_multiplier_reaches(C):
    # The classes are apart: every large C gives the machine with hard margins.
    X, y = three_classes(60, 3, distance=20.0)
    for Estimator in (OneVsRestSVC, OpenSetSVC, MulticlassSVDD):
        expected = Estimator(C=1e6, gamma=0.01, tol=1e-6).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the tolerance grows with C
            model = Estimator(C=C, gamma=0.01, tol=1e-6).fit(X, y)
        atol = 2 * model.solver_settings["tol"]
        assert_allclose(model.decision_function(X), expected.decision_function(X), atol=atol)


@pytest.mark.parametrize("size", [1e14, 1e16, 1e300])
@pytest.mark.parametrize("model", [MulticlassOneClassSVM(), OpenSetSVC(lam=0.5)], ids=repr)
def test_weights_beyond_the_tolerance_end(model, size):
    # Decision values grow with the weights, until tol lies below their rounding error.
    X, y = three_classes(60, 4)
    weight = size ** np.random.default_rng(1).random(60) if size < 1e300 else np.full(60, size)
    messages = []

    def fit():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, y, sample_weight=weight)
        messages.append([str(w.message) for w in caught])

    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    thread.join(60)
    assert messages, "the fit does not end"
    assert any("tol" in message for message in messages[0])
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("model", [OneVsSetMachine(), FixedBiasSVC(kernel="linear")])
@pytest.mark.parametrize("scale", [1e16, 1e25, 1e160])
def test_a_linear_kernel_beyond_single_precision_is_refused(model, scale):
    X = scale * np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(ValueError, match="Scale X"):
        model.fit(X, np.arange(40) % 2)


def test_one_vs_set_on_large_features():
    rng = np.random.default_rng(0)
    X, y = 1e6 * rng.normal(size=(300, 8)), np.arange(300) % 3
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = OneVsSetMachine().fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert any("scale the data" in str(w.message) for w in caught)


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes",
    [
        [-1e17, -1.0],
        [-1e17, -1.0, -2.0],
        np.array([-(2.0**40), -1.0], dtype=np.float32),
        np.array([-1.0, -2048.0], dtype=np.float16),
        [2**53 + 1, 2**53, -1],
        [np.iinfo(np.int64).min, -1],
        np.array([0, 2**64 - 1], dtype=np.uint64),
    ],
    ids=str,
)
def test_the_unknown_label_is_no_class_and_classes_stay(classes):
    classes = np.asarray(classes)
    X = np.repeat(10.0 * np.arange(len(classes)), 3)[:, None]
    y = np.repeat(classes, 3)
    model = OpenSetSVC(gamma=1.0).fit(X, y)
    assert model.predict(X).tolist() == y.tolist()
    (unknown,) = model.predict([[1e6]]).tolist()
    assert unknown == model.unknown_label_
    assert unknown not in classes.tolist()
    assert np.isfinite(float(unknown))


def test_a_float_for_the_unknown_does_not_round_the_classes():
    y = np.repeat([2**53, 2**53 + 1], 3)
    X = np.repeat([0.0, 10.0], 3)[:, None]
    model = OpenSetSVC(gamma=1.0, unknown_label=-0.5).fit(X, y)
    assert model.predict(X).tolist() == y.tolist()
