"""OpenSetSVC: worked numbers, just enough lambda, and what must not change the answer."""

import warnings

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM

from openset import OneVsRestSVC, OpenSetSVC
from openset.kernels import RBF
from openset.solver import kernel_rows, solve, svm_problem

ESTIMATORS = [OpenSetSVC, OneVsRestSVC]
both = pytest.mark.parametrize("Estimator", ESTIMATORS)


def blobs(seed, m=60, d=2, n_classes=3, spread=1.0):
    """Overlapping classes, and points to ask about."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    X = spread * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(m, d))
    return X, y, np.vstack([X, 2 * rng.normal(size=(40, d)), 10 * rng.normal(size=(10, d))])


# --- worked numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lam", "alpha", "bias"),
    [
        (0.25, [0.411468, 0.696578, 1, 0.225698, 0.333744, 1], 0.057187),
        (0.50, [0.651246, 0.812950, 1, 0.556107, 0.020303, 1], -0.278963),
    ],
)
def test_six_points(lam, alpha, bias):
    X = np.array([-2, -1.5, 1.5, 2, 0, 0.3])[:, None]
    model = OpenSetSVC(lam=lam, gamma=1.0, tol=1e-9, ensure_bounded=False)
    model.fit(X, [1, 1, 1, 1, 0, 0])
    beta = np.zeros(6)
    beta[model.support_] = model.dual_coef_[1]
    assert_allclose(beta, np.array(alpha) * [1, 1, 1, 1, -1, -1], atol=2e-6)
    assert_allclose(model.intercept_[1], bias, atol=2e-6)
    assert model.bounded_[1] == (bias < 0)
    assert model.lam_.tolist() == [lam, lam]


@pytest.fixture(scope="module")
def boat(data_home):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_parquet(data_home / "boat.parquet")
    X = frame.drop(columns="target").to_numpy(dtype=np.float64)
    return (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0)), frame["target"].to_numpy()


def test_boat(boat):
    X, y = boat
    for lam, bias in [(0, 0.5942), (0.05, 0.3674), (0.1, 0.1374), (0.15, -0.0925), (0.2, -0.337)]:
        model = OpenSetSVC(lam=lam, gamma=16.0, tol=1e-8, ensure_bounded=False).fit(X, y)
        assert model.intercept_[2].round(4) == bias
        assert model.bounded_.tolist() == [True, True, lam >= 0.15]


def test_boat_is_bounded_when_asked_for(boat):
    X, y = boat
    model = OpenSetSVC(gamma=16.0, tol=1e-6).fit(X, y)
    assert model.intercept_.round(3).tolist() == [-0.832, -0.860, -0.0]
    assert model.lam_[:2].tolist() == [0, 0]
    assert 0.10 < model.lam_[2] < 0.15
    assert model.bounded_.all()
    assert np.all(model.predict([[50.0, 0.0], [0.0, -50.0], [-1e9, 1e9]]) == model.unknown_label_)


# --- just enough lambda ---------------------------------------------------------------------------


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-2, 2),
    st.integers(-6, 5),
    st.sampled_from([0.0, 0.02, 0.3]),
)
def test_lambda_is_raised_just_enough(seed, log_C, log_gamma, lam):
    rng = np.random.default_rng(seed)
    X, y, _ = blobs(rng, int(rng.integers(4, 50)), int(rng.integers(1, 4)), 2, rng.uniform(0, 2))
    C, gamma, tol = 10.0**log_C, 2.0**log_gamma, 1e-8
    model = OpenSetSVC(C=C, lam=lam, gamma=gamma, tol=tol).fit(X, y)
    plain = OpenSetSVC(C=C, lam=lam, gamma=gamma, tol=tol, ensure_bounded=False).fit(X, y)
    rows = kernel_rows(X, RBF(), gamma, 10)
    for c in range(2):
        if plain.intercept_[c] <= -tol:
            assert model.lam_[c] == lam
            assert model.intercept_[c] == plain.intercept_[c]
            continue
        assert model.intercept_[c] == -tol
        assert lam <= model.lam_[c] < 1
        # With that lambda the bias held is optimal, and with a little less it would be too low.
        signs, boxes = np.where(y == c, 1.0, -1.0), np.full(len(y), C)
        low, high = solve(svm_problem(signs, boxes, model.lam_[c]), rows, tol=tol).bias_interval
        slack = 1e-5 * max(1.0, C)
        assert low - slack <= -tol <= high + slack
        if model.lam_[c] > lam + 1e-6:
            less = svm_problem(signs, boxes, model.lam_[c] - 1e-6)
            assert solve(less, rows, tol=tol).bias_interval[0] >= -tol - slack


def test_refit_with_effective_lambda():
    X, y, _ = blobs(3, spread=0.3)
    model = OpenSetSVC(gamma=2.0, tol=1e-3).fit(X, np.minimum(y, 1))
    assert 0 < model.lam_[1] and model.intercept_[1] == -1e-3
    again = OpenSetSVC(lam=model.lam_[1], gamma=2.0, tol=1e-9, ensure_bounded=False)
    again.fit(X, np.minimum(y, 1))
    assert_allclose(again.intercept_[1], -1e-3, atol=1e-3)


@pytest.mark.parametrize("C, tol", [(0.5, 0.05), (1e4, 1e-5)], ids=["as solved", "refined"])
def test_dual_objective_at_the_raised_lambda(C, tol):
    X, y, _ = blobs(3, spread=0.3)
    y = np.minimum(y, 1)
    model = OpenSetSVC(C=C, gamma=2.0, tol=tol).fit(X, y)
    assert model.lam_[1] > 0
    K = np.exp(-2.0 * cdist(model.support_vectors_, model.support_vectors_, "sqeuclidean"))
    for beta, objective in zip(model.dual_coef_, model.dual_objective_, strict=True):
        assert objective == pytest.approx(beta @ K @ beta / 2 - np.abs(beta).sum(), rel=1e-6)


# --- what must not change the answer --------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-2, 0),
    st.integers(-5, 5),
    st.sampled_from([0.0, 0.1, 0.6]),
)
def test_order_of_rows(seed, log_C, log_gamma, lam):
    rng = np.random.default_rng(seed)
    X, y, Z = blobs(rng, int(rng.integers(6, 60)), int(rng.integers(1, 5)), 3, rng.uniform(0, 3))
    order = rng.permutation(len(X))
    model = OpenSetSVC(C=10.0**log_C, lam=lam, gamma=2.0**log_gamma, tol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            f, g = (model.fit(X[k], y[k]).decision_function(Z) for k in (slice(None), order))
        except ConvergenceWarning:  # nearly equal rows under a wide kernel: tol is out of reach
            reject()
    assert np.abs(f - g).max() <= 1e-5


@pytest.mark.parametrize("seed", range(5))
def test_order_of_rows_with_large_boxes(seed):
    # Scores of a hundred are rounded to 1e-5 when they are asked for; the machine is not.
    X, y, Z = blobs(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    model = OpenSetSVC(C=100.0, lam=0.1, gamma=0.5, tol=1e-8)
    expected, f = (
        np.exp(-0.5 * cdist(Z, fitted.support_vectors_, "sqeuclidean")) @ fitted.dual_coef_.T
        + fitted.intercept_
        for fitted in (model.fit(X, y), OpenSetSVC(**model.get_params()).fit(X[order], y[order]))
    )
    assert_allclose(f, expected, atol=1e-5)
    assert_allclose(model.decision_function(Z), expected, rtol=1e-5, atol=1e-4)


@both
@pytest.mark.parametrize(
    "names",
    [["a", "b", "c"], ["z", "m", "a"], [10, -1, 7], [4.0, -1.0, 0.0], [True, False]],
    ids=repr,
)
def test_names_of_classes(Estimator, names):
    X, y, Z = blobs(0, n_classes=len(names))
    expected = Estimator(gamma=0.5).fit(X, y)
    names = np.array(names)
    model = Estimator(gamma=0.5).fit(X, names[y])
    column = np.searchsorted(model.classes_, names)
    f = expected.decision_function(Z)
    assert_array_equal(model.decision_function(Z)[:, column], f)
    answers, numbers = model.predict(Z), expected.predict(Z)
    known = numbers != expected.unknown_label_
    assert known.any()
    assert_array_equal(answers[known], names[numbers[known]])
    assert np.all(answers[~known] == model.unknown_label_)


@both
@pytest.mark.parametrize("d", [3, 100], ids=["narrow", "wide"])
def test_mean_1000(Estimator, d):
    X, y, Z = blobs(1, d=d)
    model = Estimator(tol=1e-8)
    f = model.fit(X, y).decision_function(Z)
    assert np.abs(model.fit(X + 1000, y).decision_function(Z + 1000) - f).max() <= 1e-5


@both
@pytest.mark.parametrize("kernel", ["rbf", "t_student", "inverse_multiquadric"])
@pytest.mark.parametrize("layout", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_and_dense(Estimator, kernel, layout):
    X, y, Z = blobs(2, d=8)
    X, Z = (np.where(np.abs(A) > 0.7, A, 0.0) for A in (X, Z))
    model = Estimator(kernel=kernel, tol=1e-8).fit(X, y)
    from_sparse = Estimator(kernel=kernel, tol=1e-8).fit(layout(X), y)
    assert_allclose(from_sparse.gamma_, model.gamma_, rtol=1e-12)
    assert sparse.issparse(from_sparse.support_vectors_)
    f = model.decision_function(Z)
    for fitted in (model, from_sparse):
        for points in (Z, layout(Z)):
            assert_allclose(fitted.decision_function(points), f, atol=1e-5)


def test_linear_kernel_sparse_and_dense():
    X, y, Z = blobs(2, d=8)
    model = OneVsRestSVC(kernel="linear", tol=1e-6).fit(X, y)
    from_sparse = OneVsRestSVC(kernel="linear", tol=1e-6).fit(sparse.csr_array(X), y)
    assert_allclose(from_sparse.decision_function(Z), model.decision_function(Z), atol=1e-4)


# --- weights --------------------------------------------------------------------------------------


@both
def test_whole_weights_are_copies(Estimator):
    X, y, Z = blobs(4)
    weight = np.random.default_rng(4).integers(1, 4, size=len(X))
    model = Estimator(tol=1e-8).fit(X, y, sample_weight=weight)
    copies = Estimator(tol=1e-8).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(model.gamma_, copies.gamma_, rtol=1e-12)
    assert_allclose(model.decision_function(Z), copies.decision_function(Z), atol=1e-5)


@both
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_weight_zero_is_absence(Estimator, layout):
    X, y, Z = blobs(5, n_classes=4)
    weight = np.random.default_rng(5).choice([0.0, 0.5, 2.0], size=len(X))
    weight[y == 3] = 0
    kept = weight > 0
    model = Estimator().fit(layout(X), y, sample_weight=weight)
    without = Estimator().fit(layout(X[kept]), y[kept], sample_weight=weight[kept])
    assert model.classes_.tolist() == [0, 1, 2]
    assert_array_equal(model.decision_function(Z), without.decision_function(Z))
    assert_array_equal(model.support_, np.flatnonzero(kept)[without.support_])
    assert_allclose(layout(X)[model.support_].sum(), model.support_vectors_.sum())


def test_class_weight():
    X, y, Z = blobs(6)
    y[:12] = 0
    by_class = OpenSetSVC(class_weight={0: 2.0, 2: 0.3}).fit(X, y)
    by_sample = OpenSetSVC().fit(X, y, sample_weight=np.array([2.0, 1.0, 0.3])[y])
    assert_array_equal(by_class.decision_function(Z), by_sample.decision_function(Z))
    balanced = OpenSetSVC(class_weight="balanced", lam=0.1).fit(X, y)
    weight = len(y) / (3 * np.bincount(y))
    by_sample = OpenSetSVC(lam=0.1).fit(X, y, sample_weight=weight[y])
    assert_allclose(balanced.decision_function(Z), by_sample.decision_function(Z), atol=1e-9)


def test_weights_multiply():
    X, y, Z = blobs(7)
    weight = np.random.default_rng(7).uniform(0.1, 2, size=len(X))
    model = OpenSetSVC(C=2.0, class_weight={1: 3.0}).fit(X, y, sample_weight=weight)
    scaled = OpenSetSVC(C=1.0, gamma=model.gamma_[0])
    scaled.fit(X, y, sample_weight=2 * weight * np.where(y == 1, 3.0, 1.0))
    assert_allclose(model.decision_function(Z), scaled.decision_function(Z), atol=1e-9)


def test_lambda_is_a_fraction_of_the_positive_boxes():
    X, y, _ = blobs(8)
    weight = np.random.default_rng(8).uniform(0.1, 2, size=len(X))
    model = OpenSetSVC(C=3.0, lam=0.4, ensure_bounded=False).fit(X, y, sample_weight=weight)
    boxes = 3.0 * np.bincount(y, weights=weight)
    assert_allclose(model.dual_coef_.sum(axis=1), 0.4 * boxes)


# --- parameters for each class --------------------------------------------------------------------


def test_parameters_for_each_class():
    X, y, Z = blobs(9)
    y = np.array(["oak", "elm", "fir"])[y]
    C = {"oak": 0.5, "elm": 2.0, "fir": 8.0}
    gamma = {"oak": 0.2, "elm": 3.0, "fir": 0.2}
    lam = {"oak": 0.0, "elm": 0.1, "fir": 0.3}
    model = OpenSetSVC(C=C, gamma=gamma, lam=lam, tol=1e-6).fit(X, y)
    assert_array_equal(model.gamma_, [gamma[c] for c in model.classes_])
    for k, c in enumerate(model.classes_):
        alone = OpenSetSVC(C=C[c], gamma=gamma[c], lam=lam[c], tol=1e-6).fit(X, y)
        f = alone.decision_function(Z)[:, k]
        assert_allclose(model.decision_function(Z)[:, k], f, atol=1e-5)
        for name in ("lam_", "intercept_", "known_radius_", "dual_objective_"):
            assert_allclose(getattr(model, name)[k], getattr(alone, name)[k], rtol=1e-6)
    plain = OneVsRestSVC(C=C, gamma=gamma, tol=1e-6).fit(X, y)
    alone = OneVsRestSVC(C=8.0, gamma=0.2, tol=1e-6).fit(X, y)
    assert_allclose(plain.decision_function(Z)[:, 1], alone.decision_function(Z)[:, 1], atol=1e-5)


def test_dict_keys_may_be_of_another_integer_type():
    X, y, Z = blobs(9)
    model = OpenSetSVC(C={np.int8(0): 1, 1: np.float32(1), 2.0: 1.0}, gamma=1).fit(X, y)
    assert_array_equal(
        model.decision_function(Z), OpenSetSVC(gamma=1.0).fit(X, y).decision_function(Z)
    )


# --- one known class ------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.02, 0.33, 0.9])
def test_one_class(lam):
    X, _, Z = blobs(10)
    model = OpenSetSVC(lam=lam, gamma=0.5, tol=1e-8).fit(X, np.full(len(X), "only"))
    theirs = OneClassSVM(nu=lam, gamma=0.5, tol=1e-10).fit(X)
    assert model.decision_function(Z).shape == (len(Z), 1)
    assert_allclose(model.decision_function(Z)[:, 0], theirs.decision_function(Z), atol=1e-5)
    assert model.lam_ == [lam]
    assert model.bounded_.tolist() == [True]
    assert set(model.predict(Z)) == {"only", "unknown"}
    # C scales the scores and moves no boundary; weights are boxes.
    twice = OpenSetSVC(C=2.0, lam=lam, gamma=0.5, tol=1e-8).fit(X, np.full(len(X), "only"))
    assert_allclose(twice.decision_function(Z), 2 * model.decision_function(Z), atol=1e-5)
    weight = np.random.default_rng(0).integers(1, 4, size=len(X))
    weighted = OpenSetSVC(lam=lam, gamma=0.5, tol=1e-8).fit(X, np.zeros(len(X)), weight)
    theirs.fit(np.repeat(X, weight, axis=0))
    assert_allclose(weighted.decision_function(Z)[:, 0], theirs.decision_function(Z), atol=1e-5)


def test_one_class_of_one_sample():
    model = OpenSetSVC(lam=0.5, gamma=1.0).fit([[1.0, 2.0]], ["it"])
    assert model.predict([[1.0, 2.0], [1.0, 3.0], [1e9, 0.0]]).tolist() == [
        "it",
        "unknown",
        "unknown",
    ]


# --- threads, memory, iterations ------------------------------------------------------------------


@both
@pytest.mark.parametrize("cache_size", [0.005, 1000], ids=["tiny", "large"])
@pytest.mark.parametrize("d", [3, 80], ids=["narrow", "wide"])
def test_threads_do_not_change_a_bit(Estimator, d, cache_size):
    X, y, Z = blobs(11, 140, d, 5, 0.5)
    models = [
        Estimator(gamma=1 / d, tol=1e-4, cache_size=cache_size, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2, 3, -1)
    ]
    for model in models[1:]:
        for name in ("support_", "dual_coef_", "intercept_", "known_radius_", "n_iter_"):
            assert_array_equal(getattr(model, name), getattr(models[0], name))
        assert_array_equal(model.decision_function(Z), models[0].decision_function(Z))


@both
@pytest.mark.parametrize("d", [3, 80], ids=["narrow", "wide"])
def test_memory_does_not_change_the_answer(Estimator, d):
    # 140 rows of 560 bytes: 0.005 MB hold 9 of them (two blocks of 64 for wide data), 1000 all.
    X, y, Z = blobs(12, 140, d, 3, 0.5)
    few, all_rows = (
        Estimator(gamma=1 / d, tol=1e-7, cache_size=cache_size).fit(X, y)
        for cache_size in (0.005, 1000)
    )
    assert_allclose(few.decision_function(Z), all_rows.decision_function(Z), atol=1e-5)
    assert_allclose(few.dual_objective_, all_rows.dual_objective_, rtol=1e-8)


@both
@pytest.mark.parametrize("max_iter", [0, 1, 10])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_max_iter_warns(Estimator, max_iter, n_jobs):
    X, y, Z = blobs(13, spread=0.3)
    model = Estimator(C=10.0, max_iter=max_iter, n_jobs=n_jobs)
    with pytest.warns(ConvergenceWarning, match=r"max_iter .* or tol"):
        model.fit(X, y)
    assert np.all(model.n_iter_ == max_iter)
    assert np.all(model.kkt_gap_ > model.tol)
    # What comes out is rough, but keeps the contract.
    assert np.all(np.isfinite(model.decision_function(Z)))
    assert model.bounded_.all() or Estimator is OneVsRestSVC


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_enough_iterations_do_not_warn():
    X, y, _ = blobs(13, spread=0.3)
    model = OneVsRestSVC(C=10.0, max_iter=100_000).fit(X, y)
    assert np.all(model.kkt_gap_ <= model.tol)


def test_verbose(capsys):
    X, y = load_iris(return_X_y=True)
    OpenSetSVC().fit(X, y)
    assert capsys.readouterr().out == ""
    OpenSetSVC(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all("support vectors, b = " in line for line in lines)
    assert lines[2].startswith("[OpenSetSVC] 3/3: class 2, ")
