"""Thresholds for unlabelled traffic: near those that labels would choose; intervals; bad input."""

import warnings

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetLDA, OpenSetSVC
from openset.calibration import (
    Accuracy,
    Cost,
    KnownRejected,
    Precision,
    StrangersAccepted,
    UnknownRejected,
    calibrate,
)
from openset.persistence import load_model, save_model

CENTRES = np.array([[0.0, 0], [6, 0], [0, 6], [2.4, 2.4]])  # the last is unknown, and overlaps


def known(rng, n):
    y = rng.integers(3, size=n)
    return CENTRES[y] + rng.normal(size=(n, 2)), y


def mixed(rng, n, share):
    X, y = known(rng, n)
    is_unknown = rng.random(n) < share
    X[is_unknown] = CENTRES[3] + rng.normal(size=(is_unknown.sum(), 2))
    return X, np.where(is_unknown, -1, y)


@pytest.fixture(scope="module")
def lda():
    return FrozenEstimator(OpenSetLDA().fit(*known(np.random.default_rng(0), 600)))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    return known(rng, 3000), mixed(rng, 3000, 0.3), mixed(rng, 20_000, 0.3)


def test_the_threshold_of_the_best_accuracy(lda, data):
    """It is within a point of the best that labels of the traffic to come would choose."""
    calibration, (X_traffic, _), (X, y) = data
    model = CalibratedRejector(lda, criterion=Accuracy(balanced=False))
    model.fit(*calibration, X_traffic=X_traffic)
    scores = lda.decision_function(X)
    best = scores.max(axis=1)
    accuracies = [
        np.mean(np.where(best >= t, scores.argmax(axis=1), -1) == y)
        for t in np.quantile(best, np.linspace(0, 1, 200))
    ]
    assert np.mean(model.predict(X) == y) > max(accuracies) - 0.01
    assert model.traffic_["unknown_share"] == pytest.approx(0.3, abs=0.08)
    low, high = model.traffic_["threshold_interval"]
    assert low < model.thresholds_[0] < high
    assert not model.promise_


def test_the_price_is_that_of_the_traffic(lda, data):
    calibration, (X_traffic, _), (X, y) = data
    model = CalibratedRejector(lda, alpha=0.1).fit(*calibration, X_traffic=X_traffic)
    assert model.promise_ and model.traffic_["threshold_interval"] is None
    price = model.price_["unknown"]
    true = np.mean(model.predict(X[y == -1]) == -1)
    assert price["after"] == pytest.approx(true, abs=0.08)
    assert price["interval"][0] <= price["after"] <= price["interval"][1]
    assert price["source"] == "estimated from 3000 rows of traffic"
    thresholds = CalibratedRejector(lda, alpha=0.1).fit(*calibration).thresholds_
    np.testing.assert_array_equal(model.thresholds_, thresholds)


def test_costs_and_precision_estimate_the_share(lda, data):
    calibration, (X_traffic, _), (X, y) = data
    cheap = CalibratedRejector(lda, criterion=Cost(1, 1, 1)).fit(*calibration, X_traffic=X_traffic)
    plain = CalibratedRejector(lda, criterion=Accuracy(balanced=False))
    plain.fit(*calibration, X_traffic=X_traffic)
    assert cheap.criterion_.unknown_share == pytest.approx(0.3, abs=0.08)
    assert np.mean(cheap.predict(X) != y) < np.mean(plain.predict(X) != y) + 0.003
    point = Precision(0.8)
    precise = CalibratedRejector(lda, criterion=point).fit(*calibration, X_traffic=X_traffic)
    answers = precise.predict(X)
    named = answers != -1
    assert np.mean(answers[named] == y[named]) >= 0.8
    assert not precise.promise_ and "% are unknown" in precise.criterion_.sentence
    half = CalibratedRejector(lda, criterion=UnknownRejected(0.7))
    half.fit(*calibration, X_traffic=X_traffic)
    assert np.mean(half.predict(X[y == -1]) == -1) == pytest.approx(0.7, abs=0.15)


def test_never_at_or_below_the_score_far_away():
    """No unknown row of this traffic scores low, so that the lowest threshold looks best."""
    rng = np.random.default_rng(2)
    svc = OpenSetSVC(gamma=0.5).fit(*known(rng, 200))
    traffic = np.vstack([known(rng, 500)[0], CENTRES[3] + 0.3 * rng.normal(size=(60, 2))])
    model = CalibratedRejector(FrozenEstimator(svc), criterion=Cost(20, 1, 1))
    model.fit(*known(rng, 500), X_traffic=traffic)
    assert (model.thresholds_ > svc.far_scores()).all()
    assert model.bounded_.all()


def test_a_model_file_and_calibrate(lda, data, tmp_path):
    (X, y), (X_traffic, _), _ = data
    model = calibrate(lda.estimator, X, y, X_traffic=X_traffic, criterion=Accuracy())
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert loaded.traffic_ == model.traffic_ and loaded.price_ == model.price_


def test_without_unknown_rows(lda, data):
    (X, y), _, _ = data
    inner = X[lda.decision_function(X).max(axis=1) > 0]
    model = CalibratedRejector(lda, alpha=0.1).fit(X, y, X_traffic=np.vstack([X, inner]))
    assert model.price_["unknown"]["after"] is None
    with pytest.raises(ValueError, match="No row of X_traffic seems to be unknown"):
        CalibratedRejector(lda, criterion=Accuracy()).fit(X, y, X_traffic=np.vstack([X, inner]))


def test_bad_input(lda, data):
    (X, y), (X_traffic, _), _ = data

    def fails(criterion, message, **given):
        with pytest.raises(ValueError, match=message):
            CalibratedRejector(lda, criterion=criterion).fit(X, y, **given)

    fails(Accuracy(balanced=False), r"needs X_traffic in fit: the plain accuracy")
    fails(Accuracy(), "Pass one of them", X_traffic=X_traffic, X_unknown=X[:5])
    fails(Cost(1, 1, 1, 0.1), "states unknown_share", X_traffic=X_traffic)
    fails(StrangersAccepted(0.1), "cannot be used with X_traffic", X_traffic=X_traffic)
    fails(
        *(KnownRejected(within="category"), "cannot be used with X_traffic"),
        X_traffic=X_traffic,
        categories=np.zeros(len(y)),
    )
    fails(Accuracy(), "traffic has 5 rows", X_traffic=X_traffic[:5])
    fails(Accuracy(), "NaN", X_traffic=np.full((20, 2), np.nan))
    fails(Accuracy(), "3 features", X_traffic=np.ones((20, 3)))


@pytest.mark.parametrize("point", [Precision(0.8), Cost(1, 1, 1)])
def test_a_share_that_may_be_zero_is_warned_of(lda, data, point):
    (X, y), (X_traffic, _), _ = data
    model = CalibratedRejector(lda, criterion=point)
    with pytest.warns(UserWarning, match="may have no unknown rows: .* an interval from 0 to"):
        model.fit(X, y, X_traffic=known(np.random.default_rng(3), 300)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, X_traffic=X_traffic)
        CalibratedRejector(lda, alpha=0.1).fit(X, y, X_traffic=X[:300])


def test_a_small_traffic_costs_little(lda, data):
    """400 rows choose a threshold that is within half a point of the best, on average."""
    calibration, _, (X, y) = data
    scores = lda.decision_function(X)
    best, codes = scores.max(axis=1), scores.argmax(axis=1)

    def accuracy(t):
        return np.mean(np.where(best >= t, codes, -1) == y)

    highest = max(accuracy(t) for t in np.quantile(best, np.linspace(0, 1, 200)))
    losses = []
    for seed in range(3):
        rows = mixed(np.random.default_rng(seed), 400, 0.3)[0]
        model = CalibratedRejector(lda, criterion=Accuracy(balanced=False))
        losses.append(highest - accuracy(model.fit(*calibration, X_traffic=rows).thresholds_[0]))
    assert np.mean(losses) < 0.005
