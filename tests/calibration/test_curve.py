"""Thresholds by samples of unknowns, and the curve of all thresholds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset.calibration import (
    Accuracy,
    CalibratedRejector,
    UnknownRejected,
    operating_curve,
)
from openset.metrics import (
    accuracy_known,
    accuracy_unknown,
    false_unknown_rate,
    harmonic_normalized_accuracy,
)
from openset.svm import OpenSetSVC

pytestmark = pytest.mark.filterwarnings("ignore:At the operating point:UserWarning")


@pytest.fixture(scope="module")
def digits():
    """A fitted model, and samples it has not seen: known (X, y) and unknown."""
    X, y = load_digits(return_X_y=True)
    X, known = X / 16, y < 5
    svc = OpenSetSVC(gamma=0.1, C=8.0).fit(X[known][::2], y[known][::2])
    return svc, X[known][1::2], y[known][1::2], X[~known]


def _measures(scores, y, threshold, classes):
    """By the measures themselves, from answers at a threshold."""
    answers = np.where(scores.max(axis=1) >= threshold, classes[scores.argmax(axis=1)], -1)
    labels = {"known": classes, "unknown_label": -1}
    return [
        measure(y, answers, **labels)
        for measure in (
            accuracy_known,
            false_unknown_rate,
            accuracy_unknown,
            harmonic_normalized_accuracy,
        )
    ]


def test_curve_is_the_measures_at_every_threshold(digits):
    svc, X, y, unknown = digits
    Z, z = np.vstack([X[:150], unknown[:150]]), np.append(y[:150], np.full(150, 9))
    curve = operating_curve(svc, Z, z)
    scores = svc.decision_function(Z)
    assert curve.thresholds[0] == np.inf
    assert np.all(np.diff(curve.thresholds) < 0)
    for i in range(0, len(curve.thresholds), 7):
        expected = _measures(scores, z, curve.thresholds[i], svc.classes_)
        found = [curve.aks[i], curve.fu[i], curve.aus[i], curve.hna[i]]
        assert_allclose(found, expected, atol=1e-12)


def test_curve_through_a_pipeline(digits):
    _, X, y, unknown = digits
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC()).fit(X, y)
    curve = operating_curve(pipeline, np.vstack([X, unknown]), [*y, *["?"] * len(unknown)])
    assert curve.aks[-1] == 1.0 and curve.fu[-1] == 0.0 and curve.aus[0] == 1.0


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.5])
def test_target_aus(digits, alpha):
    svc, X, y, unknown = digits
    model = CalibratedRejector(FrozenEstimator(svc), criterion=UnknownRejected(1 - alpha))
    model.fit(X, y, X_unknown=unknown)
    away = np.mean(model.predict(unknown) == -1)
    assert 1 - alpha <= away <= 1 - alpha + 1 / len(unknown) + 1e-12
    assert not model.promise_ and len(set(model.thresholds_)) == 1
    # One more known sample cannot be had: a lower threshold lets in too many unknown ones.
    best = np.sort(svc.known_score(X))
    next_lower = best[best < model.thresholds_[0]][-1]
    assert np.mean(svc.known_score(unknown) >= next_lower) > alpha or np.isclose(
        away, np.mean(svc.known_score(unknown) < next_lower)
    )


def test_best_hna(digits):
    svc, X, y, unknown = digits
    X, y, unknown = X[:100], y[:100], unknown[:100]
    Z, z = np.vstack([X, unknown]), np.append(y, np.full(len(unknown), 9))
    model = CalibratedRejector(FrozenEstimator(svc), criterion=Accuracy()).fit(
        X, y, X_unknown=unknown
    )
    found = harmonic_normalized_accuracy(z, model.predict(Z), known=svc.classes_, unknown_label=-1)
    scores = svc.decision_function(Z)
    best = max(_measures(scores, z, t, svc.classes_)[-1] for t in scores.max(axis=1))
    assert_allclose(found, best, atol=1e-12)
    assert found > harmonic_normalized_accuracy(
        z, svc.predict(Z), known=svc.classes_, unknown_label=-1
    )


def test_unknowns_with_an_estimator_fitted_here(digits):
    _, X, y, unknown = digits
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.01))
    model = CalibratedRejector(pipeline, criterion=UnknownRejected(0.9), random_state=0)
    model.fit(X, y, X_unknown=unknown[::2])
    away = np.mean(model.predict(unknown[1::2]) == model.unknown_label_)
    assert 0.8 < away < 0.98
    assert_array_equal(model.classes_, np.arange(5))


def test_no_threshold_but_the_last(digits):
    svc, X, y, _ = digits
    order = svc.known_score(X).argsort()
    model = CalibratedRejector(FrozenEstimator(svc), criterion=UnknownRejected(0.99))
    with pytest.raises(ValueError, match="rejects all known samples"):
        model.fit(X[order[:20]], y[order[:20]], X_unknown=X[order[-20:]])


def test_curve_needs_both(digits):
    svc, X, y, unknown = digits
    with pytest.raises(ValueError, match="y has no unknown sample"):
        operating_curve(svc, X, y)
    with pytest.raises(ValueError, match="y has no known sample"):
        operating_curve(svc, unknown, np.full(len(unknown), 9))
    with pytest.raises(ValueError, match="expected"):
        operating_curve(svc, X, y[:-1])
