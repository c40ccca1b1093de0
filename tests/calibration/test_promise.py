"""The promise: at most a share alpha of known samples is turned away."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.stats import beta, kstest
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from openset.base import OpenSetClassifier, validate_samples, validate_training_data
from openset.calibration import CalibratedRejector, KnownRejected
from openset.neighbors import OSNN
from openset.svm import OpenSetSVC
from openset.wrappers import ThresholdRejector

pytestmark = pytest.mark.filterwarnings("ignore:At the operating point:UserWarning")

N_SPLITS = 200


class Table(OpenSetClassifier):
    """Scores looked up in a table: X holds row numbers."""

    def __init__(self, scores, unknown_label="auto"):
        self.scores = scores
        self.unknown_label = unknown_label

    def fit(self, X, y):
        validate_training_data(self, X, y)
        return self

    def decision_function(self, X):
        return self.scores[validate_samples(self, X).astype(int).ravel()]


def test_share_of_one_calibration_is_beta():
    # Of continuous scores the share below the k-th is Beta(k, n + 1 - k). The threshold lies
    # between the k-th and the one before it, so both distributions bound it.
    rng = np.random.default_rng(3)
    n, alpha = 99, 0.1
    thresholds = []
    for _ in range(N_SPLITS):
        scores = rng.uniform(size=(n, 1))
        table = Table(scores).fit(np.arange(n)[:, None], np.zeros(n, dtype=int))
        model = CalibratedRejector(FrozenEstimator(table), alpha=alpha)
        thresholds.append(model.fit(np.arange(n)[:, None], np.zeros(n, int)).thresholds_[0])
    assert kstest(thresholds, beta(10, 90).cdf, alternative="less").pvalue > 1e-3
    assert kstest(thresholds, beta(9, 91).cdf, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize("per_class", [False, True])
def test_ties_are_accepted(per_class):
    # Half of the samples share the lowest score: none of them may be turned away.
    scores = np.array([[0.3, -9.0]] * 50 + [[0.7, -9.0]] * 50 + [[-9.0, 0.3]] * 50)
    codes = np.repeat([0, 0, 1], 50)
    rows = np.arange(150)[:, None]
    frozen = FrozenEstimator(Table(scores).fit(rows, codes))
    model = CalibratedRejector(
        frozen, criterion=KnownRejected(0.3, within="class" if per_class else None)
    ).fit(rows, codes)
    assert_array_equal(model.predict(rows), codes)
    assert np.all(model.thresholds_ <= 0.3)
    assert np.all(model.thresholds_ > 0.3 - 1e-5)


def test_unknown_label_is_that_of_the_estimator():
    X, y = load_wine(return_X_y=True)
    inner = OSNN(unknown_label=99).fit(X[::2], y[::2])
    model = CalibratedRejector(FrozenEstimator(inner), alpha=0.2).fit(X[1::2], y[1::2])
    assert model.unknown_label_ == 99
    model = CalibratedRejector(FrozenEstimator(inner), alpha=0.8, unknown_label=-5)
    assert -5 in model.fit(X[1::2], y[1::2]).predict(X[1::2])


def test_calibrated_twice_is_calibrated_once():
    X, y = load_wine(return_X_y=True)
    svc = OpenSetSVC(gamma=0.01).fit(X[::2], y[::2])
    once = CalibratedRejector(FrozenEstimator(svc), alpha=0.2).fit(X[1::2], y[1::2])
    strict = CalibratedRejector(FrozenEstimator(svc), alpha=0.6).fit(X[1::2], y[1::2])
    twice = CalibratedRejector(FrozenEstimator(strict), alpha=0.2).fit(X[1::2], y[1::2])
    assert np.allclose(twice.decision_function(X), once.decision_function(X), atol=1e-4)
    assert_array_equal(twice.bounded_, once.bounded_)


def test_closed_set_classifiers_through_a_threshold():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    inner = ThresholdRejector(LogisticRegression())
    model = CalibratedRejector(inner, alpha=0.2, random_state=0).fit(X, y)
    assert not model.bounded_.any()
    assert not hasattr(model, "known_radius_")
    assert not hasattr(model, "inclusion_proba")


@pytest.mark.parametrize("module", ["pandas", "polars"])
def test_data_frames(module):
    frame = pytest.importorskip(module).DataFrame
    X, y = load_wine(return_X_y=True)
    names = [f"x{j}" for j in range(X.shape[1])]
    table = frame(dict(zip(names, StandardScaler().fit_transform(X).T, strict=True)))
    model = CalibratedRejector(OpenSetSVC(), alpha=0.1, random_state=0).fit(table, y)
    expected = CalibratedRejector(OpenSetSVC(), alpha=0.1, random_state=0).fit(np.asarray(table), y)
    assert_array_equal(model.thresholds_, expected.thresholds_)
    assert_array_equal(model.predict(table), expected.predict(np.asarray(table)))
