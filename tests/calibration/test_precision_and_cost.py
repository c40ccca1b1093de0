"""Thresholds for a target precision, and for the least cost."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSVC
from openset.base import OpenSetClassifier
from openset.calibration import Cost, Precision, cost_curve

COSTS = {"reject": 1, "wrong": 10, "accept_unknown": 20}


class Scores(OpenSetClassifier):
    """Samples are their own scores."""

    def __init__(self, unknown_label="auto"):
        self.unknown_label = unknown_label

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.unknown_label_ = -1
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)


FROZEN = FrozenEstimator(Scores().fit(None, [0, 1]))


def _scores(best, right):
    """Scores of samples of class 0: the highest score, and whether it is that of class 0."""
    best = np.asarray(best, dtype=float)
    columns = np.where(right, [best, best - 1], [best - 1, best])
    return columns.T, np.zeros(len(best), dtype=int)


def _precision(**params):
    return CalibratedRejector(FROZEN, criterion=Precision(**params))


def test_a_faultless_model_accepts_everything_but_the_sample_that_sets_the_threshold():
    X, y = _scores(np.arange(1000), np.ones(1000))
    model = _precision(target=0.99).fit(X, y)
    assert model.promise_
    assert np.sum(model.predict(X) == 0) == 999


def test_the_accepted_samples_pass_the_binomial_test_and_more_do_not_help():
    rng = np.random.default_rng(0)
    best = np.sort(rng.uniform(size=3000))[::-1]
    right = rng.uniform(size=3000) < 0.9 + 0.1 * best
    X, y = _scores(best, right)
    model = _precision(target=0.95).fit(X, y)
    accepted = model.predict(X) != -1
    n, k = accepted.sum(), (model.predict(X)[accepted] == 0).sum()
    assert 300 < n < 3000
    assert binomtest(int(k), int(n), 0.95, alternative="greater").pvalue <= 0.05 / 2
    # Fixed sequence: the next threshold fails at the error of the sequence that got this far.
    one_more = right[: n + 1].sum()
    errors = [0.05 / 4, 0.05 / 2]
    p = binomtest(int(one_more), int(n) + 1, 0.95, alternative="greater").pvalue
    assert p > min(errors)


def test_unknown_samples_lower_the_coverage():
    rng = np.random.default_rng(1)
    X, y = _scores(rng.uniform(size=4000), np.ones(4000))
    unknown = _scores(rng.uniform(high=0.7, size=1000), np.ones(1000))[0]
    without = _precision(target=0.95).fit(X, y)
    shares = [0.01, 0.1, 0.3]
    models = [_precision(target=0.95, unknown_share=s).fit(X, y, X_unknown=unknown) for s in shares]
    thresholds = [without.thresholds_[0], *(model.thresholds_[0] for model in models)]
    assert np.all(np.diff(thresholds) >= -1e-3)  # each lies anywhere between two scores
    assert thresholds[-1] > thresholds[0] + 0.3
    accepted = np.mean(X.max(axis=1) >= thresholds[-1])
    caught = np.mean(unknown.max(axis=1) >= thresholds[-1])
    assert 0.7 * accepted / (0.7 * accepted + 0.3 * caught) >= 0.95


def test_the_error_names_the_highest_target():
    X, y = _scores(np.arange(300), np.ones(300))
    with pytest.raises(ValueError, match=r"target=0.999 cannot be promised") as caught:
        _precision(target=0.999).fit(X, y)
    message = str(caught.value)
    highest = float(message.split("promise is ")[1].split(". Lower")[0])
    # 299 right answers in a row, with half of the error.
    assert highest == np.floor(1000 * 0.025 ** (1 / 299)) / 1000
    _precision(target=highest).fit(X, y)
    with pytest.raises(ValueError, match="cannot be promised"):
        _precision(target=highest + 0.001).fit(X, y)


def test_nothing_can_be_promised():
    X, y = _scores(np.arange(200), np.zeros(200))
    with pytest.raises(ValueError, match="no precision can be promised"):
        _precision(target=0.9).fit(X, y)


def test_ties_stay_together():
    X, y = _scores(np.repeat([3, 2, 1], 400), np.repeat([1, 1, 0], 400))
    model = _precision(target=0.9).fit(X, y)
    assert np.sum(model.predict(X) != -1) == 800  # all of the lowest score are wrong


def test_cost_by_brute_force():
    X, y = load_digits(return_X_y=True)
    X, known = X / 16, y < 5
    svc = OpenSetSVC(gamma=0.1).fit(X[known][:60], y[known][:60])
    rows, labels = np.vstack([X[known][60:], X[~known][:400]]), np.append(y[known][60:], [9] * 400)
    curve = cost_curve(svc, rows, labels, costs=COSTS, unknown_share=0.2)
    scores = svc.decision_function(rows)
    for t, cost in zip(curve.thresholds[::40], curve.cost[::40], strict=True):
        answer = np.where(scores.max(axis=1) >= t, svc.classes_[scores.argmax(axis=1)], -1)
        is_known = labels != 9
        expected = 0.8 * np.mean(answer[is_known] == -1)
        expected += 0.8 * 10 * np.mean((answer != labels)[is_known] & (answer != -1)[is_known])
        expected += 0.2 * 20 * np.mean(answer[~is_known] != -1)
        assert cost == pytest.approx(expected)
    model = CalibratedRejector(
        FrozenEstimator(svc), criterion=Cost(**COSTS, unknown_share=0.2), prefer="promise"
    )
    model.fit(X[known][60:], y[known][60:], X_unknown=X[~known][:400])
    assert_allclose(model.cost_curve_.cost, curve.cost)
    t = model.thresholds_[0]
    best = curve.cost.argmin()
    assert curve.thresholds[best] >= t > curve.thresholds[best + 1]
    assert not model.promise_


def test_costs_without_unknowns():
    X, y = _scores([4, 3, 2, 1], [1, 1, 0, 0])
    model = CalibratedRejector(FROZEN, criterion=Cost(**COSTS)).fit(X, y)
    assert 2 < model.thresholds_[0] <= 3
    with pytest.raises(ValueError, match="cheapest to reject every sample"):
        CalibratedRejector(FROZEN, criterion=Cost(**COSTS)).fit(X[2:], y[2:])


@pytest.mark.parametrize(
    ("criterion", "unknown", "message"),
    [
        ((Precision, {"target": 1.0}), False, "target must be"),
        ((Precision, {"confidence": 0.0}), False, "confidence must be"),
        ((Precision, {"unknown_share": 1.0}), True, "unknown_share must be"),
        ((Precision, {"unknown_share": 0.1}), False, "needs X_unknown in fit"),
        ((Precision, {}), True, "says that no unknown"),
        ((Precision, {"unknown_share": 0}), True, "says that no unknown"),
        ((Cost, COSTS | {"wrong": -1}), False, r"costs\['wrong'\]=-1 must"),
        ((Cost, COSTS | {"wrong": "much"}), False, r"costs\['wrong'\]='much' must"),
        ((Cost, COSTS | {"unknown_share": 0.1}), False, "needs X_unknown"),
    ],
)
def test_bad_input(criterion, unknown, message):
    X, y = _scores(np.arange(500), np.ones(500))
    with pytest.raises(ValueError, match=message):
        kind, params = criterion
        rejector = CalibratedRejector(FROZEN, criterion=kind(**params))
        rejector.fit(X, y, X_unknown=X if unknown else None)


def test_bad_cost_curves():
    X, y = _scores(np.arange(5), np.ones(5))
    with pytest.raises(ValueError, match="no sample of a known class"):
        cost_curve(FROZEN, X, y + 7, costs=COSTS, unknown_share=0.1)
    with pytest.raises(ValueError, match=r"unknown_share=0.1 needs samples of unknown"):
        cost_curve(FROZEN, X, y, costs=COSTS, unknown_share=0.1)
    with pytest.raises(ValueError, match=r"unknown_share=1.5 must be"):
        cost_curve(FROZEN, X, y, costs=COSTS, unknown_share=1.5)
