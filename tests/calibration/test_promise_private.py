"""The order statistic behind the promise, and thresholds that are exactly that."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset.base import OpenSetClassifier, validate_samples, validate_training_data
from openset.calibration import CalibratedRejector, KnownRejected
from openset.datasets import make_four_gauss
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OSNN
from openset.svm import MulticlassOneClassSVM, OpenSetSVC

pytestmark = pytest.mark.filterwarnings("ignore:At the operating point:UserWarning")

N_SPLITS = 200


def largest_rank(alpha, n):
    """The largest k with k / (n + 1) <= alpha, for the decimal number that was written."""
    return floor(Fraction(str(alpha)) * (n + 1))


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


def _digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y, OpenSetSVC(gamma=0.15, C=8.0)


def _wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y, OSNN()


def _gauss():
    X, y = make_four_gauss(random_state=0)
    return X, y, MulticlassOneClassSVM(nu=0.1)


def _pool(data):
    """Rows that a model was not fitted to: their scores as a frozen model, and their codes."""
    X, y, model = data()
    order = np.random.default_rng(0).permutation(len(X))
    fit, rest = order[: len(X) // 3], order[len(X) // 3 :]
    model.fit(X[fit], y[fit])
    codes = np.searchsorted(model.classes_, y[rest])
    table = Table(model.decision_function(X[rest]))
    return FrozenEstimator(table.fit(np.arange(len(rest))[:, None], codes)), codes


@pytest.mark.parametrize("by", ["own", "highest"])
@pytest.mark.parametrize("data", [_digits, _wine, _gauss])
def test_over_random_splits(data, by):
    # Given the pool, every division of it into calibration and test samples is equally likely: so
    # the expected share is at most alpha, and only the 200 draws have an error.
    frozen, codes = _pool(data)
    rng = np.random.default_rng(1)
    n, alpha = len(codes) // 2, 0.1
    model = CalibratedRejector(frozen, criterion=KnownRejected(alpha, own_class=by == "own"))
    away, below = np.empty((2, N_SPLITS))
    for split in range(N_SPLITS):
        rows = rng.permutation(len(codes))[:, None]
        calibration, test = rows[:n], rows[n:]
        model.fit(calibration, codes[calibration.ravel()])
        away[split] = np.mean(model.predict(test) == -1)
        right = model.predict_set(test)[np.arange(len(test)), codes[test.ravel()]]
        below[split] = np.mean(~right) if by == "own" else away[split]
    error = below.std() / np.sqrt(N_SPLITS)
    assert away.mean() <= alpha + 3 * away.std() / np.sqrt(N_SPLITS)
    # Not for free: the threshold lies between the scores of two ranks, and so does the share.
    k = largest_rank(alpha, n)
    assert (k - 1) / (n + 1) - 3.5 * error <= below.mean() <= k / (n + 1) + 3.5 * error


@pytest.mark.parametrize("data", [_digits, _wine, _gauss])
def test_over_random_splits_for_each_class(data):
    frozen, codes = _pool(data)
    rng = np.random.default_rng(2)
    n_classes, alpha = codes.max() + 1, 0.15
    model = CalibratedRejector(frozen, criterion=KnownRejected(alpha, within="class"))
    away, below, expected, one_less = np.empty((4, N_SPLITS, n_classes))
    members = [np.flatnonzero(codes == c)[:, None] for c in range(n_classes)]
    for split in range(N_SPLITS):
        halves = [np.array_split(rng.permutation(rows), 2) for rows in members]
        calibration = np.concatenate([half[0] for half in halves])
        model.fit(calibration, codes[calibration.ravel()])
        for c, (own, test) in enumerate(halves):
            scores = model.decision_function(test)
            away[split, c] = np.mean((scores < 0).all(axis=1))
            below[split, c] = np.mean(scores[:, c] < 0)
            expected[split, c] = largest_rank(alpha, len(own)) / (len(own) + 1)
            one_less[split, c] = expected[split, c] - 1 / (len(own) + 1)
    error = below.std(axis=0) / np.sqrt(N_SPLITS)
    assert np.all(away.mean(axis=0) <= alpha + 3.5 * error)
    assert np.all(below.mean(axis=0) <= expected.mean(axis=0) + 4 * error)
    assert np.all(below.mean(axis=0) >= one_less.mean(axis=0) - 4 * error)


@pytest.mark.parametrize(
    ("alpha", "n", "k"),
    [(0.05, 19, 1), (0.05, 18, 0), (0.29, 99, 29), (0.07, 99, 7), (0.3, 9, 3), (0.1, 29, 3)],
)
def test_rank(alpha, n, k):
    # All below the k-th are rejected: k - 1 of different scores.
    assert largest_rank(alpha, n) == k
    if k:
        assert _n_rejected(alpha, n) == k - 1
    else:
        with pytest.raises(ValueError, match=f"at least {n + 1} calibration samples"):
            _n_rejected(alpha, n)


def _n_rejected(alpha, n):
    rows, codes = np.arange(n)[:, None], np.zeros(n, dtype=int)
    table = Table(np.linspace(0.0, 1.0, n)[:, None]).fit(rows, codes)
    model = CalibratedRejector(FrozenEstimator(table), criterion=KnownRejected(alpha))
    return np.sum(model.fit(rows, codes).predict(rows) == -1)


@pytest.mark.parametrize(
    ("alpha", "n"),
    [(0.001, 999), (0.01, 99), (0.05, 19), (0.1, 9), (1 / 3, 2), (0.3, 3), (0.5, 1), (0.999, 1)],
)
def test_fewest_samples(alpha, n):
    assert _n_rejected(alpha, n) == 0
    if n > 1:
        with pytest.raises(ValueError, match=f"needs at least {n} .* there are {n - 1}"):
            _n_rejected(alpha, n - 1)
    assert _n_rejected(alpha, 1000) < 1000


@pytest.mark.parametrize("per_class", [False, True])
def test_kernel_machines_in_any_batch(per_class):
    # Single precision sums differ between batches; at the threshold that must not decide.
    X, y = load_digits(return_X_y=True)
    X = X / 16
    svc = OpenSetSVC(gamma=0.1, C=8.0).fit(X[::3], y[::3])
    Z, z = np.repeat(X[1::3], 2, axis=0), np.repeat(y[1::3], 2)
    point = KnownRejected(0.1, within="class" if per_class else None, own_class=True)
    model = CalibratedRejector(FrozenEstimator(svc), criterion=point).fit(Z, z)
    for order in (np.arange(len(Z)), np.arange(len(Z))[::-1]):
        own = model.decision_function(Z[order])[np.arange(len(Z)), z[order]]
        for group in [z[order] == c for c in range(10)] if per_class else [np.full(len(z), True)]:
            k = largest_rank(0.1, group.sum())
            # The k-th is accepted, and with it its copy, before or after it.
            assert np.sum(own[group] < 0) in (k - 1, k - 2)
    own = model.decision_function(Z)[np.arange(len(Z)), z]
    close = np.argsort(np.abs(own))[: 40 if per_class else 4]  # on both sides of each threshold
    for i in close:
        assert (model.decision_function(Z[i : i + 1])[0, z[i]] >= 0) == (own[i] >= 0)


class DependsOnTheBatch(OSNN):
    """Scores that differ with the number of samples, as sums in single precision do."""

    def raw_scores(self, X):
        scores = super().raw_scores(X)
        return scores + 1e-4 / len(scores)


def test_noise_of_single_precision_is_measured():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    osnn = DependsOnTheBatch().fit(X[::3], y[::3])
    Z, z = X[1::3], y[1::3]
    point = KnownRejected(0.2, own_class=True)
    model = CalibratedRejector(FrozenEstimator(osnn), criterion=point).fit(Z, z)
    own = osnn.decision_function(Z)[np.arange(len(Z)), z]
    order = np.argsort(own)
    k = largest_rank(0.2, len(own))
    differences = []
    for i in order[k - 1 : k + 30]:  # all that must be accepted, the k-th included
        alone = model.decision_function(Z[i : i + 1])[0, z[i]]
        assert alone >= 0
        differences.append(abs(alone + model.thresholds_[0] - own[i]))
    assert max(differences) > 1e-6  # or this test shows nothing
    assert model.thresholds_[0] > own[order[k - 1]] - 0.02


def test_threshold_lies_midway_between_order_statistics():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    svc = OpenSetSVC(gamma=0.1, C=8.0).fit(X[::3], y[::3])
    Z, z = X[1::3], y[1::3]
    point = KnownRejected(0.1, own_class=True)
    model = CalibratedRejector(FrozenEstimator(svc), criterion=point).fit(Z, z)
    squares = ((Z[:, None, :] - svc.support_vectors_[None]) ** 2).sum(axis=-1)
    f = np.exp(-0.1 * squares) @ svc.dual_coef_.T + svc.intercept_
    own = np.sort(f[np.arange(len(Z)), z])
    k = largest_rank(0.1, len(own))
    assert np.all(model.thresholds_ == model.thresholds_[0])
    assert own[k - 1] - own[k - 2] > 1e-4
    assert model.thresholds_[0] == pytest.approx((own[k - 2] + own[k - 1]) / 2, abs=1e-6)


def test_search_pipeline_and_own_split():
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 3], y[y < 3]
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.01))
    search = OpenSetSearchCV(pipeline, {"opensetsvc__lam": [0.1, 0.3]}, n_repeats=2, random_state=0)
    model = CalibratedRejector(search, alpha=0.1, calibration_size=0.5, random_state=0)
    model.fit(X[:400], y[:400])
    fitted = model.estimator_.best_estimator_
    assert model.promise_
    away = np.mean(model.predict(X[400:]) == model.unknown_label_)
    assert away <= 0.1 + 4 * np.sqrt(0.1 * 0.9 * (1 / 137 + 1 / 200))
    assert np.allclose(
        model.decision_function(X), fitted.decision_function(X) - model.thresholds_, atol=1e-5
    )
    # The same by hand: the rows that calibrated are those that fit has not seen.
    rows = np.setdiff1d(np.arange(400), model._fit_rows)
    assert len(rows) == 200
    frozen = CalibratedRejector(FrozenEstimator(model.estimator_), alpha=0.1)
    assert_array_equal(frozen.fit(X[rows], y[rows]).thresholds_, model.thresholds_)
