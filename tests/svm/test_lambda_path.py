"""lambda_path: each point of it is the machine that OpenSetSVC would train there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from openset import OpenSetSVC
from openset.svm import lambda_path

LAMS = [0.0, 0.05, 0.2, 0.25, 0.6, 0.9]


def blobs(seed, m=60, d=2, n_classes=3, spread=0.7):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % n_classes
    X = spread * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(m, d))
    return X, y, 2 * rng.normal(size=(50, d))


@pytest.fixture(scope="module")
def boat(data_home):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pd.read_parquet(data_home / "boat.parquet")
    X = frame.drop(columns="target").to_numpy(dtype=np.float64)
    return (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0)), frame["target"].to_numpy()


def test_boat(boat):
    path = lambda_path(*boat, gamma=16.0, tol=1e-6)
    assert_allclose(path.lams, np.linspace(0, 0.95, 20))
    assert path.bias[:, 0].round(3).tolist() == [-0.832, -0.860, 0.594]
    assert path.bias[2, :5].round(4).tolist() == [0.5942, 0.3674, 0.1374, -0.0925, -0.3370]
    assert path.lams[path.bounded[2].argmax()] == pytest.approx(0.15)
    assert np.all(path.bounded[:2])
    assert path.smallest_bounding[:2].tolist() == [0, 0]
    assert 0.10 < path.smallest_bounding[2] < 0.15
    assert np.all(np.diff(path.bias, axis=1) < 1e-5)


@pytest.mark.parametrize("C", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("kernel", ["rbf", "t_student"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_every_point_is_a_fit(C, kernel, layout):
    X, y, Z = blobs(0)
    weight = np.random.default_rng(0).uniform(0.2, 2, size=len(X))
    weight[::7] = 0
    settings = {"C": C, "gamma": 0.7, "kernel": kernel, "tol": 1e-7}
    path = lambda_path(
        layout(X), y, lams=LAMS, X_validation=layout(Z), sample_weight=weight, **settings
    )
    assert path.classes.tolist() == [0, 1, 2]
    assert path.scores.shape == (3, len(LAMS), len(Z))
    for t, lam in enumerate(LAMS):
        model = OpenSetSVC(lam=lam, ensure_bounded=False, **settings)
        model.fit(layout(X), y, sample_weight=weight)
        assert_allclose(path.bias[:, t], model.intercept_, atol=1e-5 * max(1, C))
        # A fit is refined in float64; a path has the rounding of float32 kernel values.
        assert_allclose(path.objective[:, t], model.dual_objective_, rtol=5e-6, atol=1e-6)
        assert_array_equal(path.bounded[:, t], model.bounded_)
        f = model.decision_function(layout(Z))
        assert_allclose(path.scores[:, t].T, f, atol=1e-5 * max(1, C))
        n_support = np.count_nonzero(model.dual_coef_, axis=1)
        assert np.all(np.abs(path.n_support[:, t] - n_support) <= 1)


@pytest.mark.parametrize("lams", [[0.0, 0.5], [0.0], [0.3, 0.6], [0.9], None], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_smallest_bounding_lambda(seed, lams):
    # Whatever the values asked for, it is the one that OpenSetSVC finds.
    X, y, _ = blobs(seed, n_classes=2, spread=0.3)
    path = lambda_path(X, y, lams=lams, gamma=1.0, tol=1e-6)
    model = OpenSetSVC(gamma=1.0, tol=1e-6).fit(X, y)
    assert_allclose(path.smallest_bounding, model.lam_, atol=1e-5)
    assert model.lam_.max() > 0


def test_parameters_for_each_class():
    X, y, Z = blobs(1)
    C, gamma = {0: 1.0, 1: 4.0, 2: 0.5}, {0: 0.5, 1: 0.5, 2: 2.0}
    path = lambda_path(X, y, lams=LAMS, X_validation=Z, C=C, gamma=gamma, tol=1e-7)
    for c in range(3):
        alone = lambda_path(X, y, lams=LAMS, X_validation=Z, C=C[c], gamma=gamma[c], tol=1e-7)
        for name in ("bias", "objective", "scores", "smallest_bounding"):
            assert_allclose(getattr(path, name)[c], getattr(alone, name)[c], atol=1e-5)


@pytest.mark.parametrize("lams", [[0, 1e-12, 1e-6, 0.5], [0, 1e-9, 2e-9, 0.7, 0.70001, 0.9]])
def test_uneven_steps(lams):
    X, y, Z = blobs(2)
    path = lambda_path(X, y, lams=lams, X_validation=Z, gamma=0.5, tol=1e-7)
    for t, lam in enumerate(lams):
        model = OpenSetSVC(lam=lam, gamma=0.5, tol=1e-7, ensure_bounded=False).fit(X, y)
        assert_allclose(path.scores[:, t].T, model.decision_function(Z), atol=1e-5)


@pytest.mark.parametrize("cache_size", [0.001, 1000])
def test_threads_do_not_change_a_bit(cache_size):
    X, y, Z = blobs(3)
    settings = {"lams": LAMS, "X_validation": Z, "gamma": 0.5, "cache_size": cache_size}
    first, *others = (lambda_path(X, y, n_jobs=n_jobs, **settings) for n_jobs in (1, 2, 3))
    for other in others:
        for name in ("bias", "objective", "n_support", "smallest_bounding", "scores"):
            assert_array_equal(getattr(other, name), getattr(first, name))


def test_memory_does_not_change_the_answer():
    X, y, Z = blobs(3)
    few, whole = (
        lambda_path(X, y, lams=LAMS, X_validation=Z, gamma=0.5, tol=1e-7, cache_size=cache_size)
        for cache_size in (0.001, 1000)
    )
    assert_allclose(few.scores, whole.scores, atol=1e-5)
    assert_allclose(few.objective, whole.objective, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("layout", "other"), [(np.asarray, sparse.csr_array), (sparse.csr_matrix, np.asarray)]
)
def test_validation_in_another_layout(layout, other):
    X, y, Z = blobs(4)
    scores = lambda_path(X, y, lams=[0, 0.4], X_validation=Z, tol=1e-7).scores
    path = lambda_path(layout(X), y, lams=[0, 0.4], X_validation=other(Z), tol=1e-7)
    assert_allclose(path.scores, scores, atol=1e-5)


def test_no_validation():
    X, y, _ = blobs(4)
    assert lambda_path(X, y, lams=[0.1]).scores is None


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lams", "message"),
    [
        ([], "lams"),
        ([[0.0, 0.1]], "lams"),
        ([0.2, 0.1], "increasing"),
        ([0.1, 0.1], "increasing"),
        ([0.0, np.nan, 0.5], "increasing"),
        ([np.nan], r"lams must lie in \[0, 1\)"),
        ([-0.1, 0.5], r"lams must lie in \[0, 1\)"),
        ([0.5, 1.0], r"lams must lie in \[0, 1\)"),
    ],
)
def test_bad_lams(lams, message):
    X, y, _ = blobs(5)
    with pytest.raises(ValueError, match=message):
        lambda_path(X, y, lams=lams)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("C", 0.0),
        ("C", {0: 1.0}),
        ("gamma", -1.0),
        ("gamma", "scal"),
        ("kernel", "linear"),
        ("kernel", "precomputed"),
        ("tol", 0.0),
        ("cache_size", -1),
        ("n_jobs", 1.5),
        ("sample_weight", [1.0, 2.0]),
    ],
)
def test_bad_parameter(parameter, value):
    X, y, _ = blobs(5)
    with pytest.raises(ValueError, match=parameter):
        lambda_path(X, y, **{parameter: value})


def test_bad_data():
    X, y, Z = blobs(5)
    with pytest.raises(ValueError, match=r"3 features, but .* 2 features"):
        lambda_path(X, y, X_validation=np.column_stack([Z, Z[:, 0]]))
    with pytest.raises(ValueError, match="NaN"):
        lambda_path(X, y, X_validation=np.where(Z > 0, Z, np.nan))
    with pytest.raises(ValueError, match="NaN"):
        lambda_path(np.where(X > 0, X, np.nan), y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        lambda_path(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        lambda_path(X, y[:-1])
