"""Bad input of OpenSetSVC and OneVsRestSVC: an error that names the argument, or a sane answer."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from openset import OneVsRestSVC, OpenSetSVC
from openset.kernels import RBF, Kernel

both = pytest.mark.parametrize("Estimator", [OpenSetSVC, OneVsRestSVC])

X = np.random.default_rng(0).normal(size=(30, 3))
y = np.arange(30) % 3


def spoiled(value, array=X):
    array = array.astype(object if isinstance(value, str) else np.float64)
    array[4, 1] = value
    return array


# --- X and y --------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (spoiled(np.nan), "NaN"),
        (spoiled(np.inf), "infinity"),
        (spoiled(-np.inf), "infinity"),
        (spoiled("far"), "could not convert string to float: 'far'"),
        (sparse.csr_array(spoiled(np.nan)), "NaN"),
        (sparse.csr_array(spoiled(np.inf)), "infinity"),
        (X[:, 0], "Expected 2D array"),
        (X[None], "dim 3"),
        (X[:0], "0 sample"),
        (X[:, :0], "0 feature"),
        (X[:-1], "inconsistent numbers of samples"),
        (X + 1j, "Complex data"),
    ],
)
def test_bad_X(Estimator, bad, message):
    with pytest.raises(ValueError, match=message):
        Estimator().fit(bad, y)


@both
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "y"),
        (y[:-1], "inconsistent numbers of samples"),
        (np.stack([y, y], axis=1), "1d array"),
        (np.where(y == 0, np.nan, y), "NaN"),
        (X[:, 0], "continuous"),
        ([1, "one", 2] * 10, "Convert all of them to strings"),
        (np.array([1, "one", None] * 10, dtype=object), "Convert all of them to strings"),
        (np.array(["a", None, "b"] * 10, dtype=object), "Convert all of them to strings"),
    ],
)
def test_bad_y(Estimator, bad, message):
    with pytest.raises(ValueError, match=message):
        Estimator().fit(X, bad)


def test_one_class():
    with pytest.raises(ValueError, match=r"needs at least 2 classes; y has 1 class: \[7\]"):
        OneVsRestSVC().fit(X, np.full(30, 7))
    with pytest.raises(ValueError, match=r"lam=0 .* one class .* Choose lam in \(0, 1\)"):
        OpenSetSVC().fit(X, np.full(30, 7))
    # A weight of zero takes the others away.
    with pytest.raises(ValueError, match="lam=0"):
        OpenSetSVC().fit(X, y, sample_weight=(y == 1).astype(float))


def test_one_sample():
    with pytest.raises(ValueError, match="2 classes"):
        OneVsRestSVC().fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="lam=0"):
        OpenSetSVC().fit(X[:1], y[:1])


@both
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e5 / 3])
def test_constant_features(Estimator, layout, value):
    # Nothing can be learned; nothing breaks either, and no width of 1e33 comes of rounding.
    model = Estimator().fit(layout(np.full((30, 3), value)), y)
    assert model.gamma_.tolist() == [1.0, 1.0, 1.0]
    f = model.decision_function(layout(np.full((2, 3), value)))
    assert np.all(np.isfinite(f))
    assert np.all(f[0] == f[1])


@both
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_constant_feature_says_nothing(Estimator, layout):
    model = Estimator(gamma=0.5, tol=1e-7)
    f = model.fit(layout(X), y).decision_function(layout(X))
    wider = layout(np.column_stack([X, np.full(30, 5.0)]))
    np.testing.assert_allclose(model.fit(wider, y).decision_function(wider), f, atol=1e-5)


@both
def test_same_rows_in_two_classes(Estimator):
    model = Estimator(C=100.0).fit(np.repeat(X[:15], 2, axis=0), np.tile([0, 1], 15))
    assert np.all(model.kkt_gap_ <= model.tol)
    np.testing.assert_allclose(model.decision_function(X[:15]), 0, atol=2e-3)


@both
@pytest.mark.parametrize("size", [1e-170, 1e170])
def test_values_beyond_arithmetic(Estimator, size):
    with np.errstate(over="ignore"):
        with pytest.raises(ValueError, match=r"variance of X .* gamma='scale'. Scale X"):
            Estimator().fit(size * X, y)


# --- sample_weight and class_weight ---------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.zeros(30), "non-zero|zero for every sample"),
        (np.where(y == 1, -1.0, 1.0), "Negative values"),
        (np.where(y == 1, np.nan, 1.0), "NaN"),
        (np.where(y == 1, np.inf, 1.0), "infinity"),
        (np.ones(29), "sample_weight"),
        (np.ones((30, 1)), "must be 1D array or scalar"),
    ],
)
def test_bad_sample_weight(Estimator, bad, message):
    with pytest.raises(ValueError, match=message):
        Estimator().fit(X, y, sample_weight=bad)


@both
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({0: 0.0, 1: 1.0, 2: 1.0}, r"class_weight\[0\] must be .* got 0.0"),
        ({1: -2.0}, r"class_weight\[1\] must be .* got -2.0"),
        ({2: np.inf}, r"class_weight\[2\] must be .* got inf"),
        ({2: np.nan}, r"class_weight\[2\] must be .* got nan"),
        ({2: "heavy"}, r"class_weight\[2\] must be .* got 'heavy'"),
        ({9: 1.0}, "class_weight"),
        ("heavy", "class_weight"),
        ([1, 2, 3], "class_weight"),
    ],
)
def test_bad_class_weight(Estimator, bad, message):
    with pytest.raises(ValueError, match=message):
        Estimator(class_weight=bad).fit(X, y)


# --- parameters -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0.0),
        ("C", -1.0),
        ("C", np.nan),
        ("C", np.inf),
        ("C", "1"),
        ("C", None),
        ("C", [1.0, 1.0, 1.0]),
        ("gamma", 0.0),
        ("gamma", -1.0),
        ("gamma", np.nan),
        ("gamma", np.inf),
        ("gamma", "wide"),
        ("gamma", None),
        ("kernel", None),
        ("kernel", RBF),
        ("kernel", np.dot),
        ("kernel", "poly"),
        ("kernel", "precomputed"),
        ("tol", 0.0),
        ("tol", -1e-3),
        ("tol", np.nan),
        ("max_iter", -2),
        ("max_iter", 10.5),
        ("cache_size", 0),
        ("cache_size", -1),
        ("n_jobs", 0),
        ("n_jobs", 1.5),
        ("n_jobs", "all"),
        ("verbose", -1),
        ("unknown_label", "unknown"),
        ("unknown_label", None),
        ("unknown_label", np.nan),
    ],
    # The repr of a function holds an address, which differs between test processes.
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_bad_parameter(Estimator, name, value):
    with pytest.raises(ValueError, match=name):
        Estimator(**{name: value}).fit(X, y)


@pytest.mark.parametrize("value", [-0.1, 1.0, 1.5, np.nan, np.inf, "0.5", None], ids=repr)
def test_bad_lam(value):
    with pytest.raises(ValueError, match="'lam' parameter of OpenSetSVC must be"):
        OpenSetSVC(lam=value).fit(X, y)


def test_bad_ensure_bounded():
    with pytest.raises(ValueError, match="ensure_bounded"):
        OpenSetSVC(ensure_bounded="yes").fit(X, y)


@pytest.mark.parametrize("name", ["C", "gamma", "lam"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({0: 0.5, 1: 0.5}, r"dict for the classes \[0, 1\], but y has \[0, 1, 2\]"),
        ({0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5}, r"classes \[0, 1, 2, 3\], but y has \[0, 1, 2\]"),
        ({0: 0.5, 1: 0.5, "2": 0.5}, "but y has"),
        ({}, "but y has"),
        ({0: 0.5, 1: -0.5, 2: 0.5}, r"\[1\] must be .* got -0.5"),
        ({0: 0.5, 1: np.nan, 2: 0.5}, r"\[1\] must be .* got nan"),
        ({0: 0.5, 1: 0.5, 2: "scale"}, r"\[2\] must be .* got 'scale'"),
        ({0: 0.5, 1: 0.5, 2: None}, r"\[2\] must be .* got None"),
        ({0: [0.5, 1], 1: 0.5, 2: 0.5}, r"\[0\] must be .* got \[0.5, 1\]"),
    ],
)
def test_bad_dict(name, value, message):
    with pytest.raises(ValueError, match=f"{name}.*{message}"):
        OpenSetSVC(**{name: value}).fit(X, y)


def test_lam_1_in_a_dict():
    with pytest.raises(ValueError, match=r"lam\[2\] must be .*\[0.0, 1.0\), got 1.0"):
        OpenSetSVC(lam={0: 0.0, 1: 0.0, 2: 1.0}).fit(X, y)


def test_linear_kernel_is_never_bounded():
    with pytest.raises(ValueError, match=r"kernel='linear' does not decay .* OneVsRestSVC"):
        OpenSetSVC(kernel="linear").fit(X, y)


def test_precomputed_kernel_points_to_the_right_place():
    with pytest.raises(ValueError, match=r"subclass openset\.kernels\.Kernel"):
        OpenSetSVC(kernel="precomputed").fit(X @ X.T, y)


@both
def test_kernel_that_does_not_decay(Estimator):
    class Constant(Kernel):
        def value(self, s, out=None):
            out = np.empty_like(s) if out is None else out
            out[...] = 1.0
            return out

        def inverse(self, t):
            return 0.0

    with pytest.raises(ValueError, match=r"kernel Constant: k\(s\) must tend to 0"):
        Estimator(kernel=Constant()).fit(X, y)


# --- prediction -----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "method", ["decision_function", "predict", "predict_known", "predict_set", "known_score"]
)
def test_bad_test_matrix(Estimator, method):
    with pytest.raises(NotFittedError):
        getattr(Estimator(), method)(X)
    ask = getattr(Estimator().fit(X, y), method)
    for columns in (X[:, :2], np.column_stack([X, X])):
        for layout in (np.asarray, sparse.csr_array):
            with pytest.raises(ValueError, match=r"features, but .* is expecting 3 features"):
                ask(layout(columns))
    for value, message in [(np.nan, "NaN"), (np.inf, "infinity"), ("far", "could not convert")]:
        with pytest.raises(ValueError, match=message):
            ask(spoiled(value))
    with pytest.raises(ValueError, match="Expected 2D array"):
        ask(X[0])
    with pytest.raises(ValueError, match="0 sample"):
        ask(X[:0])


@both
def test_columns_of_another_frame(Estimator):
    pd = pytest.importorskip("pandas")
    model = Estimator().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=["c", "b", "a"]))
    with pytest.raises(ValueError, match="missing:\n- c"):
        model.predict(pd.DataFrame(X[:, :2], columns=["a", "b"]))


@both
def test_failed_fit_leaves_no_model(Estimator):
    model = Estimator()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(spoiled(np.nan), y)
    with pytest.raises(NotFittedError):
        model.predict(X)
