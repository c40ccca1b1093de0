"""Calibrations of random scores: ties, repeats, tiny and huge scales; what each criterion says."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import binom
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector
from openset.base import OpenSetClassifier
from openset.calibration import Accuracy, Cost, KnownRejected, Precision, UnknownRejected

CRITERIA = ["fu", "fu", "fu", "precision", "cost", "aus", "hna"]
COSTS = {"reject": 1.0, "wrong": 5.0, "accept_unknown": 3.0}
# What a criterion says where no threshold satisfies it.
REFUSALS = ("cannot be promised", "Only a threshold", "cheapest to reject", "needs at least")


class Scores(OpenSetClassifier):
    """Rows are their own scores."""

    def __init__(self, far=None, unknown_label="auto"):
        self.far = far
        self.unknown_label = unknown_label

    def fit(self, X, y):
        self.classes_, self.unknown_label_ = np.unique(y), -1
        return self

    def decision_function(self, X):
        return np.array(X, dtype=float)

    def far_scores(self):
        return np.full(len(self.classes_), np.inf if self.far is None else self.far)


def _draw(rng, n, K, own):
    """Scores (n, K) and classes: continuous, tied, of few rows, or with one heavy row."""
    codes = rng.integers(K, size=n)
    scores = rng.normal(-0.5, 0.7, size=(n, K))
    scores[np.arange(n), codes] += own
    kind = rng.integers(5)
    if kind == 1:
        scores = scores.round(int(rng.integers(3)))
    elif kind == 2:
        rows = rng.integers(max(1, n // 10), size=n)
        scores, codes = scores[rows], codes[rows]
    elif kind == 3:
        heavy = rng.random(n) < rng.random()
        scores[heavy], codes[heavy] = scores[0], codes[0]
    elif kind == 4:  # a heavy row whose copies differ by rounding
        heavy = rng.random(n) < rng.random()
        scores[heavy] = scores[0] * (1 + 1e-14 * rng.normal(size=(heavy.sum(), 1)))
        codes[heavy] = codes[0]
    if rng.random() < 0.2:
        scores[rng.integers(n)] *= 10.0 ** rng.integers(6)
    return scores, codes


def attack(rng: np.random.Generator) -> dict:
    """One random calibration."""
    K, n = int(rng.integers(1, 6)), int(np.exp(rng.uniform(0, 7)))
    X, y = _draw(rng, n, K, own=rng.uniform(0, 3))
    unknown, _ = _draw(rng, int(rng.integers(1, 300)), K, own=rng.uniform(0, 1.5))
    scale = 10.0 ** rng.integers(-12, 13) if rng.random() < 0.5 else 1.0
    X, unknown = X * scale, unknown * scale
    far = scale * rng.normal() if rng.random() < 0.3 else None
    criterion = CRITERIA[rng.integers(len(CRITERIA))]
    point = _criterion(rng, criterion)
    given = unknown if criterion == "fu" or point.needs_unknown else None
    frozen = FrozenEstimator(Scores(far).fit(None, np.arange(K)))
    measured = {"group": criterion, "refused": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = CalibratedRejector(frozen, criterion=point).fit(X, y, X_unknown=given)
        except ValueError as error:
            assert any(part in str(error) for part in REFUSALS), error
            return measured | {"refused": 1}
        order = rng.permutation(n)
        again = CalibratedRejector(frozen, criterion=point).fit(X[order], y[order], X_unknown=given)
    t = model.thresholds_
    assert np.isfinite(t).all()
    assert again.thresholds_.tolist() == t.tolist(), "the order of the rows matters"
    _check_price(model, X, given)
    if criterion == "fu":
        _check_ranks(model, X, y, far)
    else:
        assert np.all(t == t[0])
        every = np.concatenate([X, unknown] if given is not None else [X]).max(axis=1)
        _check_gap(every, t[0])
        _check_far(every, t[0], far)
        _CHECKS[criterion](X, y, unknown, t[0], point)
    return measured | {"points": n}


def _criterion(rng, name):
    """A random criterion of a kind."""
    alpha = float(rng.uniform(0.01, 0.6))
    share = float(rng.uniform(0, 0.5)) if rng.random() < 0.5 else 0.0
    if name == "fu":
        if rng.random() < 0.3:
            return KnownRejected(alpha, within="class")
        return KnownRejected(alpha, own_class=bool(rng.random() < 0.4))
    if name == "precision":
        return Precision(float(rng.uniform(0.3, 0.95)), unknown_share=share)
    if name == "cost":
        return Cost(**COSTS, unknown_share=share)
    return UnknownRejected(1 - alpha) if name == "aus" else Accuracy()


def _check_price(model, X, unknown):
    for rows, kind in ((X, "known"), (unknown, "unknown")):
        entry = model.price_[kind]
        if rows is None:
            assert entry == {"before": None, "after": None, "source": "not known"}
            continue
        assert entry["before"] == np.mean(rows.max(axis=1) < 0)
        assert entry["after"] == np.mean((rows - model.thresholds_).max(axis=1) < 0)


def _check_far(scores, t, far):
    """A threshold is at or below the score far away only if a sample that it accepts is."""
    if far is not None:
        assert t > far or scores[scores >= t].min() <= far + 2e-12 * abs(far)


def _check_gap(scores, t):
    """Copies of a row whose scores differ by rounding lie on one side of the threshold."""
    size = max(abs(t), np.abs(scores).min())
    nearest = np.abs(scores - t).min()
    assert nearest > 1e-13 * size, f"a score is {nearest:.3g} from the threshold {t:.17g}"


def _check_ranks(model, X, y, far):
    """At most k - 1 are below the threshold, and no more than rounding leaves out."""
    point = model.criterion_
    within = point.within == "class"
    counted = X[np.arange(len(y)), y] if point.counts_own_class else X.max(axis=1)
    for c, t in enumerate(model.thresholds_):
        group = np.sort(counted[y == c] if within else counted)
        k = int(point.alpha * (len(group) + 1) * (1 + 1e-12))
        assert np.sum(group < t) <= k - 1
        size = np.median(np.abs(X).max(axis=1))
        band = 3e-6 * min(1.0, 10 * size) + 1e-11 * np.abs(X).max()
        assert np.sum(group < group[k - 1] - band) <= np.sum(group < t)
        _check_gap(group, t)
        _check_far(group, t, far)


def _check_precision(X, y, unknown, t, point):
    accepted = X.max(axis=1) >= t
    right = np.sum(accepted & (X.argmax(axis=1) == y))
    if not point.unknown_share:
        assert binom.sf(right - 1, accepted.sum(), point.target) <= 0.05
        return
    share = point.unknown_share
    good = (1 - share) * right / len(y)
    bad = (1 - share) * (accepted.sum() - right) / len(y)
    bad += share * np.mean(unknown.max(axis=1) >= t)
    assert good >= point.target * (good + bad)


def _check_aus(X, y, unknown, t, point):
    assert np.mean(unknown.max(axis=1) >= t) <= 1 - point.share + 1e-12
    assert np.any(X.max(axis=1) >= t) or np.any(unknown.max(axis=1) >= t)


def _separated(X, unknown):
    """Thresholds in gaps that rounding cannot close."""
    every = np.unique(np.concatenate([X.max(axis=1), unknown.max(axis=1)]))
    size = np.abs(np.concatenate([X, unknown])).max()
    wide = np.diff(every) > 1e-4 * max(size, min(1.0, size))
    return np.append((every[:-1] + every[1:])[wide] / 2, every[0] - size)


def _check_hna(X, y, unknown, t, point):
    def hna(at):
        aks = np.mean((X.max(axis=1) >= at) & (X.argmax(axis=1) == y))
        aus = np.mean(unknown.max(axis=1) < at)
        return 2 * aks * aus / (aks + aus) if aks + aus else 0.0

    assert hna(t) >= max(map(hna, _separated(X, unknown))) - 1e-12


def _check_cost(X, y, unknown, t, point):
    share = point.unknown_share

    def cost(at):
        accepted = X.max(axis=1) >= at
        wrong = accepted & (X.argmax(axis=1) != y)
        known = COSTS["reject"] * np.mean(~accepted) + COSTS["wrong"] * np.mean(wrong)
        stranger = COSTS["accept_unknown"] * np.mean(unknown.max(axis=1) >= at)
        return (1 - share) * known + share * stranger

    others = unknown if share else X[:0]
    separated = _separated(X, others) if len(others) else _separated(X, X)
    assert cost(t) <= min(map(cost, separated)) + 1e-12


_CHECKS = {
    "precision": _check_precision,
    "aus": _check_aus,
    "hna": _check_hna,
    "cost": _check_cost,
}
