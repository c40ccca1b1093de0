"""Boundedness and the certificate follow the moved threshold."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from openset.base import OpenSetClassifier
from openset.calibration import CalibratedRejector, KnownRejected
from openset.evt import PISVM, WSVM, ExtremeValueMachine
from openset.gaussian import SIMCA, OpenSetCentroids, OpenSetLDA
from openset.neighbors import OSNN, OpenSetKNN
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
from openset.wrappers import CascadeRejector, ThresholdRejector


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def _far_points(X, scale):
    directions = np.random.default_rng(0).normal(size=(400, X.shape[1]))
    return scale * directions / np.linalg.norm(directions, axis=1, keepdims=True)


KNOWN_FAR = [
    OpenSetSVC(lam=0.2),
    OpenSetSVC(kernel="t_student"),
    OneVsRestSVC(gamma={0: 0.1, 1: 1.0, 2: 3.0}),
    MulticlassOneClassSVM(normalize=True),
    MulticlassSVDD(nu=0.1),
    DecisionBoundaryCarving(),
    FixedBiasSVC(),
    ThresholdSVC(threshold=0.2),
    PISVM(gamma=1.0, threshold=0.4),
    WSVM(gamma=1.0),
    WSVM(gamma=1.0, delta_tau=0.0),
    ExtremeValueMachine(threshold=0.3),
    ExtremeValueMachine(weibull="survivor"),
    OSNN(),
    OSNN(rule="agreement"),
    CascadeRejector(OneClassSVM(gamma=0.5), LogisticRegression()),
]


@pytest.mark.parametrize("estimator", KNOWN_FAR, ids=repr)
def test_the_score_far_away_decides(iris, estimator):
    X, y = iris
    model = estimator.fit(X, y)
    far = model.far_scores()
    Z = _far_points(X, 1e9)
    assert_allclose(model.decision_function(Z).max(axis=0), far, atol=1e-6)
    assert_array_equal(model.bounded_, far < 0)
    assert np.all(model.with_thresholds(far + 1e-4).decision_function(Z) < 0)
    assert np.all((model.with_thresholds(far - 1e-4).decision_function(Z) >= 0).any(axis=0))


@pytest.mark.parametrize(
    "estimator",
    [
        OneVsRestSVC(kernel="linear"),
        OneVsSetMachine(),
        ExtremeValueMachine(metric="cosine"),
        OSNN(metric="cosine"),
        OpenSetKNN(normalize=True),
        OpenSetLDA(normalize=True),
        OpenSetLDA(relative=True, normalize=True),
        ThresholdRejector(LogisticRegression()),
    ],
    ids=repr,
)
def test_not_proved_is_not_bounded(iris, estimator):
    X, y = iris
    frozen = FrozenEstimator(estimator.fit(X[::2], y[::2]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # there is nothing to lose, so nothing to warn of
        model = CalibratedRejector(frozen, alpha=0.2).fit(X[1::2], y[1::2])
    assert not model.bounded_.any()
    with pytest.raises(
        ValueError, match="prefer='bounded', but the scores of the estimator far away"
    ):
        CalibratedRejector(frozen, alpha=0.2, prefer="bounded").fit(X[1::2], y[1::2])


@pytest.mark.parametrize(
    "estimator", [OpenSetLDA(), OpenSetCentroids(), SIMCA(), OpenSetKNN(), OpenSetKNN(3)], ids=repr
)
def test_scores_that_fall_without_end_keep_every_threshold_bounded(iris, estimator):
    X, y = iris
    model = CalibratedRejector(
        FrozenEstimator(estimator.fit(X[::2], y[::2])), alpha=0.02, prefer="bounded"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X[1::2], y[1::2])
    assert model.bounded_.all() and model.promise_
    assert (model.far_scores() == -np.inf).all()
    assert not model.predict_set(_far_points(X, 1e9)).any()


class _Scores(OpenSetClassifier):
    """Rows are their own scores; far away every class scores -0.2."""

    def __init__(self, unknown_label="auto"):
        self.unknown_label = unknown_label

    def fit(self, X, y):
        self.classes_, self.unknown_label_ = np.unique(y), -1
        return self

    def decision_function(self, X):
        return np.array(X, dtype=float)

    def far_scores(self):
        return np.full(len(self.classes_), -0.2)


def _line():
    """Two classes on a line, and calibration samples that leave class 0 farther and farther."""
    X = np.array([[-0.5], [0.0], [0.5], [9.5], [10.0], [10.5]])
    y = np.repeat([0, 1], 3)
    return OpenSetSVC(gamma=0.5, tol=1e-8).fit(X, y)


@pytest.mark.parametrize("farthest", [1.0, 2.0, 4.0, 6.0])
def test_certificate_at_the_moved_threshold(farthest):
    svc = _line()
    Z = -np.linspace(0, farthest, 9)[:, None]  # away from both classes
    model = CalibratedRejector(FrozenEstimator(svc), alpha=0.1)
    model.fit(Z, np.zeros(9, dtype=int))
    assert_allclose(model.thresholds_[0], svc.decision_function(Z)[-1, 0], atol=5e-6)
    assert model.bounded_[0] and np.isfinite(model.known_radius_[0])
    # The promise: the farthest calibration sample is accepted. So the certificate reaches it.
    assert model.predict(Z[-1:])[0] == 0
    positive = svc.support_vectors_[svc.dual_coef_[0] > 0].ravel()
    assert model.known_radius_[0] >= np.abs(positive - Z[-1]).min()
    edge = positive.min() - model.known_radius_[0]
    beyond = edge - np.logspace(-9, 3, 200)[:, None]
    assert np.all(model.decision_function(beyond)[:, 0] < 0)
    # By the formula, at the bias less the threshold.
    moved = (svc.intercept_ - model.thresholds_)[0]
    total = svc.dual_coef_[0][svc.dual_coef_[0] > 0].sum()
    expected = np.sqrt(-np.log(-moved * (1 - 1e-5) / total) / 0.5)
    assert_allclose(model.known_radius_[0], expected, rtol=1e-9)


def test_promise_against_boundedness():
    svc = _line()
    Z = np.append(np.linspace(-0.5, 0.5, 8), -1e3)[:, None]  # one of nine is far away
    y = np.zeros(9, dtype=int)
    frozen = FrozenEstimator(svc)
    far = np.array([[-1e6], [-1e9], [1e9]])
    with pytest.warns(UserWarning, match=r"classes \[0, 1\] accept samples however far") as caught:
        model = CalibratedRejector(frozen, alpha=0.1).fit(Z, y)
    assert caught[0].filename == __file__
    assert model.promise_ and not model.lifted_.any()
    assert model.bounded_.tolist() == [False, False]
    assert np.all(np.isinf(model.known_radius_))
    assert np.all(model.predict(Z) == 0)
    assert np.all(model.predict_set(far))
    with pytest.warns(UserWarning, match="lifted") as caught:
        model = CalibratedRejector(frozen, alpha=0.1, prefer="bounded").fit(Z, y)
    assert caught[0].filename == __file__
    assert not model.promise_ and model.lifted_.all()
    assert model.bounded_.all() and np.all(np.isfinite(model.known_radius_))
    assert_allclose(model.thresholds_, svc.intercept_ + 1e-3)
    assert not model.predict_set(far).any()
    assert model.predict(Z).tolist() == [0] * 8 + [-1]
    # Without a conflict nothing is lifted, whatever is preferred.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain, bounded = (
            CalibratedRejector(frozen, alpha=0.2, prefer=prefer).fit(Z, y)
            for prefer in ("promise", "bounded")
        )
    assert plain.promise_ and bounded.promise_ and bounded.bounded_.all()
    assert_array_equal(plain.thresholds_, bounded.thresholds_)


def test_one_class_of_two_is_lifted():
    svc = _line()
    Z = np.array([[-0.1], [0.0], [0.1], [9.9], [10.0], [500.0]])
    y = np.repeat([0, 1], 3)
    point = KnownRejected(0.25, within="class")
    model = CalibratedRejector(FrozenEstimator(svc), criterion=point, prefer="bounded")
    with pytest.warns(UserWarning, match=r"classes \[1\] were lifted"):
        model.fit(Z, y)
    assert model.lifted_.tolist() == [False, True]
    assert model.bounded_.all() and not model.promise_


def test_evm_and_osnn_are_lifted(iris):
    X, y = iris
    for estimator in (ExtremeValueMachine(), OSNN()):
        frozen = FrozenEstimator(estimator.fit(X, y))
        Z = np.vstack([X[:100:2], _far_points(X, 1e15)[:10]])
        z = np.append(y[:100:2], np.zeros(10, dtype=int))
        with pytest.warns(UserWarning, match="accept samples however far"):
            model = CalibratedRejector(frozen, alpha=0.05).fit(Z, z)
        assert not model.bounded_.any()
        with pytest.warns(UserWarning, match="lifted"):
            model = CalibratedRejector(frozen, alpha=0.05, prefer="bounded").fit(Z, z)
        assert model.bounded_.all()
        assert np.all(model.predict(_far_points(X, 1e16)) == -1)


@pytest.mark.parametrize("distance", [1e2, 1e5, 1e8])
def test_a_threshold_just_above_the_score_far_away_is_bounded(iris, distance):
    # Rows that score hardly higher than those farther away: promise and bound are both kept.
    X, y = iris
    osnn = OSNN().fit(X, y)
    Z = np.vstack([X[:100:2], _far_points(X, distance)[:10]])
    with pytest.warns(UserWarning, match="hardly above the score far away"):
        model = CalibratedRejector(FrozenEstimator(osnn), alpha=0.05)
        model.fit(Z, np.append(y[:100:2], np.zeros(10, dtype=int)))
    assert model.promise_ and model.bounded_.all()
    assert np.mean(model.predict(Z) == -1) <= 0.05
    assert np.all(model.predict(_far_points(X, 10 * distance)) == -1)


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("gap", [1e-10, 1e-7, 1e-3])
def test_the_lowest_score_is_the_threshold_and_lies_above_the_score_far_away(per_class, gap):
    # k = 1: no score lies below, so only rounding and the score far away hold the threshold.
    scores = np.repeat(np.linspace(gap, 1, 25), 2)[:, None] + [-0.2, -0.2]
    frozen = FrozenEstimator(_Scores().fit(None, [0, 1]))
    with pytest.warns(UserWarning, match="hardly above the score far away"):
        point = KnownRejected(0.0385, within="class") if per_class else KnownRejected(0.02)
        model = CalibratedRejector(frozen, criterion=point)
        model.fit(scores, np.tile([0, 1], 25))
    assert model.bounded_.all() and model.promise_
    assert (model.predict(scores) != -1).all()


def test_pipeline_and_copies(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.5)).fit(10 * X[::2], y[::2])
    model = CalibratedRejector(FrozenEstimator(pipeline), alpha=0.2).fit(10 * X[1::2], y[1::2])
    svc, intercept = pipeline[-1], pipeline[-1].intercept_.copy()
    moved = svc.with_thresholds(model.thresholds_)
    assert_array_equal(model.known_radius_, moved.known_radius_)
    assert_array_equal(svc.intercept_, intercept)  # the fitted model stays as it is
    assert moved.support_vectors_ is svc.support_vectors_


def test_no_certificate_of_other_thresholds(iris):
    X, y = iris
    svc = OpenSetSVC(gamma=0.5).fit(X[::2], y[::2])
    once = CalibratedRejector(FrozenEstimator(svc), alpha=0.3).fit(X[1::4], y[1::4])
    twice = CalibratedRejector(FrozenEstimator(once), alpha=0.2).fit(X[3::4], y[3::4])
    assert hasattr(once, "known_radius_") and not hasattr(twice, "known_radius_")
    assert twice.explain(X[:2])["region_gap"].isna().all()


def test_inclusion_proba_is_not_calibrated(iris):
    X, y = iris
    pisvm = PISVM().fit(X[::2], y[::2])
    model = CalibratedRejector(FrozenEstimator(pisvm), alpha=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[1::2], y[1::2])
    assert_array_equal(model.inclusion_proba(X), pisvm.inclusion_proba(X))
    accepted = pisvm.inclusion_proba(X) >= 0.1 + model.thresholds_
    assert np.mean(model.predict_set(X) == accepted) > 0.99
