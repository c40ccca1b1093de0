"""ONNX models, run by onnxruntime, against the estimators they were made from."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import openset
from openset.calibration import KnownRejected
from openset.evt import PISVM, WSVM, ExtremeValueMachine
from openset.export import to_onnx
from openset.gaussian import OpenSetCentroids, OpenSetLDA
from openset.kernels import InverseMultiquadric, Kernel, RationalQuadratic, TStudent
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OpenSetKNN
from openset.svm import (
    DecisionBoundaryCarving,
    FixedBiasSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    OneVsRestSVC,
    OneVsSetMachine,
    OpenSetSVC,
    ThresholdSVC,
)

onnxruntime = pytest.importorskip("onnxruntime")

N_POINTS = 10_000
CLOSE = 1e-5
KERNELS = ["rbf", TStudent(1.5), RationalQuadratic(0.7), InverseMultiquadric(1.3)]
METHODS = [
    OpenSetSVC(lam=0.2),
    OneVsRestSVC(),
    FixedBiasSVC(),
    ThresholdSVC(threshold=0.3),
    DecisionBoundaryCarving(),
    MulticlassOneClassSVM(nu=0.2),
    MulticlassSVDD(nu=0.2),
    OneVsSetMachine(p_near=0.3, p_far=0.3),
    PISVM(),
    WSVM(),
    ExtremeValueMachine(),
    ExtremeValueMachine(weibull="survivor", n_fused=1),
    ExtremeValueMachine(metric="cosine"),
    OpenSetLDA(),
    OpenSetLDA(relative=True, quantile=0.8),
    OpenSetLDA(relative=True, normalize=True, per_class=True),
    OpenSetCentroids(),
    OpenSetCentroids(metric="cosine", per_class=False),
    OpenSetKNN(n_neighbors=3),
    OpenSetKNN(normalize=True),
]


@pytest.fixture(scope="module")
def blobs():
    """Four classes in five dimensions, and points inside, between and around them."""
    X, y = make_blobs(160, n_features=5, centers=4, cluster_std=1.5, random_state=0)
    low, high = X.min(axis=0), X.max(axis=0)
    around = np.random.default_rng(1).uniform(2 * low - high, 2 * high - low, (N_POINTS // 2, 5))
    inside = X[np.arange(N_POINTS // 2) % len(X)] + np.random.default_rng(2).normal(
        scale=0.7, size=(N_POINTS // 2, 5)
    )
    return X, y, np.concatenate([around, inside])


def _run(model, X):
    session = onnxruntime.InferenceSession(
        to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(["label", "scores", "known_score"], {"X": X})


def _assert_equal(model, X, close=CLOSE):
    label, scores, known_score = _run(model, X)
    expected = model.decision_function(X)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=close)
    np.testing.assert_allclose(known_score, expected.max(axis=1), rtol=0, atol=close)
    ordered = np.sort(np.column_stack([expected, np.full(len(X), -np.inf)]), axis=1)
    best, second = ordered[:, -1], ordered[:, -2]
    decided = (np.abs(best) > close) & ((best < 0) | (best - second > close))
    assert decided.mean() > 0.9
    np.testing.assert_array_equal(label[decided], model.predict(X)[decided])
    return label


@pytest.mark.parametrize("estimator", METHODS, ids=repr)
def test_every_method(estimator, blobs):
    X, y, points = blobs
    model = clone(estimator).fit(X, y)
    label = _assert_equal(model, points)
    assert {model.unknown_label_} < set(label.tolist())  # something is known, something not


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=repr)
@pytest.mark.parametrize(
    "estimator", [OpenSetSVC(), MulticlassSVDD(), WSVM()], ids=lambda e: type(e).__name__
)
def test_every_kernel(estimator, kernel, blobs):
    X, y, points = blobs
    _assert_equal(clone(estimator).set_params(kernel=kernel).fit(X, y), points)


@pytest.mark.parametrize("estimator", [OneVsRestSVC(), MulticlassOneClassSVM()], ids=repr)
def test_linear_kernel(estimator, blobs):
    X, y, points = blobs
    _assert_equal(clone(estimator).set_params(kernel="linear").fit(X, y), points)


def test_kernel_that_is_steep_at_zero(blobs):
    X, y, points = blobs
    model = OpenSetSVC(kernel=TStudent(0.5), gamma=1e4).fit(X, y)
    _assert_equal(model, np.concatenate([X, points[:1000]]))


def test_parameters_of_each_class(blobs):
    X, y, points = blobs
    gamma = {0: 0.01, 1: 0.1, 2: 0.01, 3: 1.0}
    model = OpenSetSVC(gamma=gamma, lam={0: 0.1, 1: 0.0, 2: 0.3, 3: 0.2}).fit(X, y)
    _assert_equal(model, points)


@pytest.mark.parametrize(
    "scaler",
    [
        MinMaxScaler(),
        MinMaxScaler((-1, 2), clip=True),
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        RobustScaler(),
        MaxAbsScaler(),
        Normalizer(),
        Normalizer("l1"),
        Normalizer("max"),
        PCA(3),
        PCA(3, whiten=True),
        "passthrough",
    ],
    ids=str,
)
def test_scalers(scaler, blobs):
    X, y, points = blobs
    shift = [0.0, 100.0, -1e4, 0.0, 1.0]  # a scaler has something to do
    model = make_pipeline(scaler, OpenSetSVC()).fit(X + shift, y)
    _assert_equal(model, points + shift)


def test_steps_that_are_pipelines_or_frozen(blobs):
    X, y, points = blobs
    frozen = FrozenEstimator(make_pipeline(RobustScaler(), "passthrough").fit(X))
    steps = frozen, make_pipeline(StandardScaler(), PCA(4)), OpenSetSVC()
    _assert_equal(make_pipeline(*steps).fit(X, y), points)


def test_rows_of_no_length_are_not_normalized(blobs):
    X, y, _ = blobs
    model = make_pipeline(Normalizer(), OpenSetSVC()).fit(X, y)
    _assert_equal_near(model, np.array([[0.0] * 5, [1e-200] * 5, [1e-15, 0, 0, 0, 0], [3.0] * 5]))


def test_clipped_scaler_before_a_projection(blobs):
    X, y, points = blobs
    if "clip" not in MaxAbsScaler().get_params():
        pytest.skip("of newer versions of scikit-learn")
    model = make_pipeline("passthrough", MaxAbsScaler(clip=True), PCA(2), OpenSetSVC())
    _assert_equal(openset.CalibratedRejector(model, alpha=0.2, random_state=0).fit(X, y), points)


def _assert_equal_near(model, X):
    label, scores, _ = _run(model, X)
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=0, atol=CLOSE)
    np.testing.assert_array_equal(label, model.predict(X))


def test_float32(blobs):
    X, y, points = blobs
    model = make_pipeline(StandardScaler(), OpenSetSVC()).fit(X, y)
    given = points.astype(np.float32)
    graph = to_onnx(model, dtype="float32").SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    label, scores = session.run(["label", "scores"], {"X": given})
    expected = model.decision_function(given.astype(float))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=CLOSE)
    np.testing.assert_array_equal(label, model.predict(given.astype(float)))
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32', got 'half'"):
        to_onnx(model, dtype="half")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("numbers", [["width"], []], ids=["both", "texts alone"])
def test_table_with_categories(numbers, dtype):
    pytest.importorskip("pyarrow")
    from openset.tables import TableEncoder

    rng = np.random.default_rng(0)
    y = np.repeat(["sand", "clay"], 30)
    frame = pd.DataFrame({"colour": np.where(y == "sand", "yellow", "br\u00e4unlich, dark")})
    frame["site"] = rng.choice(["a", "b"], 60)
    frame["width"] = rng.normal(size=60).round(2)
    frame = frame[["colour", *numbers, "site"]]
    model = openset.make_pipeline(TableEncoder(), MinMaxScaler(), OpenSetSVC(gamma=2.0))
    model.fit(frame, y)
    frame.loc[:9, "colour"] = "purple"  # which the model has not seen
    graph = to_onnx(model, dtype=dtype)
    told = {prop.key: json.loads(prop.value) for prop in graph.metadata_props}
    assert told["features"] == numbers
    assert told["categories"] == {"colour": ["br\u00e4unlich, dark", "yellow"], "site": ["a", "b"]}
    given = {"categories": frame[["colour", "site"]].to_numpy(dtype=object)}
    if numbers:
        frame["width"] = frame["width"].astype(dtype).astype(float)
        given["X"] = frame[["width"]].to_numpy(dtype=dtype)
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    label, scores = session.run(["label", "scores"], given)
    np.testing.assert_array_equal(label, model.predict(frame))
    np.testing.assert_allclose(scores, model.decision_function(frame), rtol=0, atol=CLOSE)
    assert "unknown" in label and "sand" in label


def test_search_of_a_pipeline_in_a_frozen_estimator(blobs):
    X, y, points = blobs
    search = OpenSetSearchCV(
        make_pipeline(MinMaxScaler(), OpenSetSVC()), n_repeats=1, random_state=0
    ).fit(X, y)
    # With boxes of 8 the sums are so large that their rounding to float32 on our side shows.
    _assert_equal(search, points, close=1e-4)
    label, *_ = _run(FrozenEstimator(search), points)
    np.testing.assert_array_equal(label, _run(search, points)[0])


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("estimator", [OpenSetSVC(), ExtremeValueMachine()], ids=repr)
def test_calibrated_thresholds(estimator, per_class, blobs):
    X, y, points = blobs
    model = openset.CalibratedRejector(
        make_pipeline(StandardScaler(), estimator),
        criterion=KnownRejected(0.2, within="class" if per_class else None),
        random_state=0,
        unknown_label=7,
    ).fit(X, y)
    assert np.all(model.thresholds_ != 0)
    label = _assert_equal(model, points)
    assert 7 in label
    _assert_equal(make_pipeline(MinMaxScaler(), model).fit(X, y), points)


def test_gaps_are_filled(blobs):
    X, y, points = blobs
    rng = np.random.default_rng(0)
    X, points = (np.where(rng.random(A.shape) < 0.1, np.nan, A) for A in (X, points))
    model = make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler(), OpenSetSVC()).fit(X, y)
    _assert_equal(model, points)
    X[:, 2] = np.nan  # a feature that the imputer removes
    with pytest.warns(UserWarning, match="no observed|Skipping"):
        model.fit(X, y)
        _assert_equal(model, points)


@pytest.mark.parametrize(
    "names, unknown_label",
    [
        (np.array(["ant", "bee", "cat", "dög"]), "auto"),
        (np.array(["ant", "bee", "unknown", "dog"], dtype=object), "auto"),
        (np.array([0.0, 1.0, 2.0, -1.0]), "auto"),
        (np.array([3, 1, 2, 0], dtype=np.uint8), "auto"),
        (np.array([3, 1, 2, 0]), 99),
    ],
    ids=["strings", "objects", "floats", "unsigned", "chosen"],
)
def test_labels_of_every_kind(names, unknown_label, blobs):
    X, y, points = blobs
    model = OpenSetSVC(unknown_label=unknown_label).fit(X, names[y])
    label = _assert_equal(model, points)
    assert set(label.tolist()) == {*names.tolist(), model.unknown_label_}


def test_scores_are_exact_in_double_precision(blobs):
    X, y, points = blobs
    model = OpenSetSVC(C=100.0, gamma=0.02).fit(X, y)
    squares = cdist(points, model.support_vectors_, "sqeuclidean")
    exact = np.exp(-0.02 * squares) @ model.dual_coef_.T + model.intercept_
    _, scores, _ = _run(model, points)
    np.testing.assert_allclose(scores, exact, rtol=0, atol=1e-10 * np.abs(model.dual_coef_).sum())


def test_one_class(blobs):
    X, y, points = blobs
    _assert_equal(MulticlassOneClassSVM().fit(X[y == 0], y[y == 0]), points)


def test_sparse_model(blobs):
    X, y, points = blobs
    X, points = np.maximum(X, 0), np.maximum(points, 0)
    model = OpenSetSVC().fit(sparse.csr_array(X), y)
    _, scores, _ = _run(model, points)
    np.testing.assert_allclose(scores, model.decision_function(points), rtol=0, atol=CLOSE)


@pytest.mark.parametrize("estimator", METHODS, ids=repr)
def test_far_away_and_not_a_number(estimator, blobs):
    X, y, _ = blobs
    model = clone(estimator).fit(X, y)
    far = np.array([[1e9] * 5, [-1e30] * 5, [1e150, 0, 0, 0, 0], [1e-200] * 5])
    label, scores, _ = _run(model, far)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(label, model.predict(far))
    label, *_ = _run(model, np.full((1, 5), np.nan))
    assert label == [model.unknown_label_]


@pytest.mark.filterwarnings("ignore:At the operating point")
@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize(
    "kernel", [TStudent(0.45), InverseMultiquadric(1e6), RationalQuadratic(10.0)], ids=repr
)
def test_slowly_decaying_kernels_far_away(kernel, calibrated, blobs):
    # The points were once clipped at 1e15, where such kernels have not vanished.
    X, y, _ = blobs
    model = OpenSetSVC(kernel=kernel, gamma=1.0, C=100.0, tol=1e-6)
    if calibrated:
        model = openset.CalibratedRejector(model, alpha=0.2, random_state=0)
    model.fit(X, y)
    directions = np.random.default_rng(3).normal(size=(20, 5))
    sizes = (1e8, 1e14, 1e20, 1e30, 1e40, 1e100, 1e160, 1e300)
    far = np.vstack([size * directions / np.abs(directions).max() for size in sizes])
    far = np.vstack([far, far[:, :1] * np.eye(5)[0]])
    label, scores, _ = _run(model, far)
    np.testing.assert_array_equal(label, model.predict(far))
    np.testing.assert_allclose(scores[-1], model.far_scores(), rtol=1e-9, atol=1e-15)
    svc = model.estimator_ if calibrated else model
    bias = svc.intercept_ - (model.thresholds_ if calibrated else 0.0)
    with np.errstate(over="ignore"):
        k = kernel.value(cdist(far, svc.support_vectors_, "sqeuclidean"))
    np.testing.assert_allclose(scores, k @ svc.dual_coef_.T + bias, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("estimator", METHODS, ids=repr)
def test_every_method_far_away(estimator, blobs):
    X, y, _ = blobs
    model = clone(estimator).fit(X, y)
    directions = np.random.default_rng(3).normal(size=(20, 5))
    far = np.vstack([size * directions for size in (1e10, 1e20, 1e30, 1e37)])
    far = far.astype(np.float32).astype(np.float64)
    label, scores, _ = _run(model, far)
    np.testing.assert_array_equal(label, model.predict(far))
    np.testing.assert_allclose(scores, model.decision_function(far), rtol=1e-6, atol=CLOSE)


def test_tails_that_are_steps():
    # Two samples a class: the models of their tails are steps.
    X = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    model = ExtremeValueMachine(n_fused=1).fit(X, ["a", "a", "b", "b"])
    assert np.isinf(model.weibull_.shape).any()
    points = np.random.default_rng(0).uniform(-3, 4, (1000, 2))
    _assert_equal(model, points)


def test_letter_with_twenty_known_classes(data_home):
    X, y = openset.datasets.load_dataset("letter", data_home=data_home, return_X_y=True)
    known = np.unique(y)[:20]
    train = np.flatnonzero(np.isin(y, known))[:3000]
    model = make_pipeline(MinMaxScaler(), OpenSetSVC(C=8.0, gamma=16.0)).fit(X[train], y[train])
    _assert_equal(model, X[-N_POINTS:])


def test_no_rows(blobs):
    X, y, _ = blobs
    label, scores, known_score = _run(OpenSetSVC().fit(X, y), np.empty((0, 5)))
    assert label.shape == known_score.shape == (0,)
    assert scores.shape == (0, 4)


def test_what_the_file_says_of_itself(blobs):
    X, y, _ = blobs
    model = to_onnx(OpenSetSVC().fit(X, y))
    assert model.producer_name == "openset"
    told = {"estimator": "OpenSetSVC", "classes": [0, 1, 2, 3], "unknown_label": -1}
    assert _told(model) == told
    assert {node.domain for node in model.graph.node} == {""}  # standard operators only


def _told(model):
    return {prop.key: json.loads(prop.value) for prop in model.metadata_props}


def test_names_of_features(blobs):
    X, y, _ = blobs
    names = ["a", "b", "c", "d", "é"]
    model = make_pipeline(MinMaxScaler(), OpenSetSVC()).fit(pd.DataFrame(X, columns=names), y)
    assert _told(to_onnx(model))["features"] == names
    assert _told(to_onnx(model, feature_names=list("vwxyz")))["features"] == list("vwxyz")
    with pytest.raises(ValueError, match="feature_names has 2 names for the 5 features"):
        to_onnx(model, feature_names=["a", "b"])


def test_not_fitted():
    with pytest.raises(NotFittedError):
        to_onnx(OpenSetSVC())


class _Cut(Kernel):
    def value(self, s, out=None):
        return np.exp(np.negative(s, out=out), out=out)

    def inverse(self, t):
        return -np.log(t)


@pytest.mark.parametrize(
    "estimator, message",
    [
        (openset.OSNN(), "OSNN cannot be .* OpenSetSVC"),
        (openset.ThresholdRejector(LogisticRegression()), "ThresholdRejector cannot be exported"),
        (LogisticRegression(), "LogisticRegression cannot be exported"),
        (make_pipeline(PolynomialFeatures(), OpenSetSVC()), "PolynomialFeatures .* MinMaxScaler"),
        (
            make_pipeline(SimpleImputer(add_indicator=True), OpenSetSVC()),
            "SimpleImputer can be .* add_indicator=False",
        ),
        (
            make_pipeline(SimpleImputer(missing_values=-1), OpenSetSVC()),
            "SimpleImputer can be .* missing_values=nan",
        ),
        (OpenSetSVC(kernel=_Cut()), "kernel=.*_Cut.*TStudent"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_exported(estimator, message, blobs):
    X, y, _ = blobs
    with pytest.raises(ValueError, match=message):
        to_onnx(estimator.fit(X, y))


def test_a_subclass_is_not_taken_for_its_parent(blobs):
    class Mine(OpenSetSVC):
        pass

    X, y, _ = blobs
    with pytest.raises(ValueError, match="Mine cannot be exported"):
        to_onnx(Mine().fit(X, y))


def test_labels_that_onnx_has_no_type_for(blobs):
    X, y, _ = blobs
    model = OpenSetSVC().fit(X, y.astype(np.uint64) + np.uint64(2**63))
    with pytest.raises(ValueError, match="int64"):
        to_onnx(model)


def test_without_the_extra_the_error_names_it():
    code = "import sys; sys.modules['onnx'] = None; import openset.export"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "openset[onnx]"' in result.stderr.splitlines()[-1]
