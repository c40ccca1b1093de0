"""Cross-fitting does not leak, weights are probabilities, thresholds are the best of all pairs."""

import numpy as np
import pytest
from scipy.stats import norm

from openset import OpenSetSVC
from openset.traffic._crossed import CrossedData, Gates
from openset.utils import Progress


@pytest.fixture
def crossed():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.repeat([0, 1, 2], 30)
    X += np.array([[0, 0], [3, 0], [0, 3]])[y]
    traffic = np.concatenate([X[::2], rng.normal(size=(30, 2)) + 2])
    svc = OpenSetSVC(gamma=0.5).fit(X, y)
    rng = np.random.RandomState(0)
    return CrossedData.of(svc, X, y, traffic, rng, Progress(1, "", False))


def second_scores(crossed, X, traffic):
    """The scores with other features, and the same folds and draws."""
    crossed.X, crossed.X_traffic = X, traffic
    crossed.rng = np.random.RandomState(1)
    return crossed.second_scores(crossed.first_scores(), 0.4)


def test_a_row_of_traffic_does_not_change_what_scores_its_fold(crossed):
    X, traffic = crossed.X, crossed.X_traffic
    before = second_scores(crossed, X, traffic)
    moved, row = traffic.copy(), 40
    moved[row] = (1.0, 1.5)
    at = crossed.n + row
    after = second_scores(crossed, X, moved)
    same = crossed.folds == crossed.folds[at]
    same[at] = False
    np.testing.assert_array_equal(after[same], before[same])
    assert (after[~same] != before[~same]).any()


def test_weights_are_the_probabilities_of_being_unknown(crossed):
    rng = np.random.default_rng(0)
    n_traffic, share = 20_000, 0.4
    crossed.y, crossed.folds = np.zeros(n_traffic), np.zeros(2 * n_traffic, dtype=int)
    known = rng.normal(2, 1, n_traffic)
    unknown = rng.random(n_traffic) < share
    traffic = np.where(unknown, rng.normal(-1, 1, n_traffic), rng.normal(2, 1, n_traffic))
    usable = np.full(2 * n_traffic, True)
    weight = crossed.weights(np.append(known, traffic), traffic, share, usable)
    assert (weight[:n_traffic] == 1).all()
    densities = share * norm.pdf(traffic, -1), (1 - share) * norm.pdf(traffic, 2)
    expected = densities[0] / np.sum(densities, axis=0)
    assert np.abs(weight[n_traffic:] - expected).mean() < 0.02


def test_thresholds_are_the_best_of_all_pairs():
    rng = np.random.default_rng(0)
    known, right = rng.normal(1, 1, (2, 150)), rng.random(150) < 0.9
    traffic = np.concatenate([rng.normal(1, 1, (2, 100)), rng.normal(-1, 1, (2, 100))], axis=1)
    gates = Gates(known, traffic, right, 0.5)
    t = gates.best(None, 0.0, -np.inf)

    def shares(a, b):
        return (np.mean((s[0] >= a) & (s[1] >= b)) for s in (known, traffic))

    def gain(a, b):
        value, changed = [], []
        for x, y in ((a, b), (0.0, -np.inf)):
            k, u = shares(x, y)
            unknown = 1 - np.clip((u - 0.5 * k) / 0.5, 0, 1)
            value.append(np.mean((known[0] >= x) & (known[1] >= y) & right) + unknown)
        for s in (known, traffic):
            accepted = (s[0] >= a) & (s[1] >= b)
            changed.append(np.mean(accepted != (s[0] >= 0)))
        variance = changed[0] * (1 + 2 * 0.5) ** 2 / 150 + changed[1] * 2**2 / 200
        return value[0] - value[1] - 0.5 * np.sqrt(variance)

    first = np.append(
        np.quantile(known[0], np.linspace(0, 0.3, 30)),
        np.quantile(traffic[0], np.linspace(0, 0.9, 20)),
    )
    second = np.append(np.quantile(known[1], np.linspace(0, 0.4, 40)), -np.inf)
    best = max(gain(a, b) for a in np.append(first, 0.0) for b in second)
    assert best > 0 and gain(*t) == pytest.approx(best, abs=1e-12)


def test_thresholds_are_medians_over_bootstrap_samples_and_have_a_price():
    rng = np.random.default_rng(0)
    known, right = rng.normal(1, 1, (2, 150)), np.full(150, True)
    traffic = np.concatenate([rng.normal(1, 1, (2, 100)), rng.normal(-1, 1, (2, 100))], axis=1)
    gates = Gates(known, traffic, right, 0.5)
    found = [gates.choose(None, 0.0, -np.inf, np.random.RandomState(s)) for s in range(12)]
    t, price = found[0]
    single = []
    for s in range(12):
        rows = np.random.default_rng(s).integers(150, size=150)
        single.append(Gates(known[:, rows], traffic, right, 0.5).best(None, 0.0, -np.inf))
    assert np.std([t for t, _ in found], axis=0)[0] < np.std(single, axis=0)[0]
    k, u = (np.mean((s >= t[:, None]).all(axis=0)) for s in (known, traffic))
    assert price["known"]["after"] == pytest.approx(1 - k)
    assert price["unknown"]["after"] == pytest.approx(1 - np.clip((u - 0.5 * k) / 0.5, 0, 1))
    assert price["known"]["before"] == pytest.approx(np.mean(known[0] < 0))
    # The same rows in traffic and calibration: nothing is better than none.
    same = Gates(known, known, right, 0.01)
    t, price = same.choose(None, 0.0, -np.inf, np.random.RandomState(0))
    assert t.tolist() == [0.0, -np.inf] and not price


def test_new_kinds_hold_the_first_threshold_back():
    rng = np.random.default_rng(0)
    known = np.stack([rng.normal(0.5, 1, 300), np.zeros(300)])
    unknown = rng.normal(-4, 0.5, 300)
    traffic = np.stack([np.append(known[0], unknown), np.zeros(600)])
    gates = Gates(known, traffic, np.full(300, True), 0.5)
    recur = gates.best(None, 0.0, -np.inf)
    half = gates.best(np.sort(unknown), 0.5, -np.inf)  # new kinds score like those shown
    tried = [np.quantile(known[0], np.linspace(0, 0.3, 30))]
    tried = np.append(tried, np.quantile(traffic[0], np.linspace(0, 0.9, 20)))
    assert recur[0] < -1 and np.isclose(tried, recur[0]).any()
    assert half[0] < -1 and np.isclose(tried, half[0] / 0.7).any()
    still = gates.best(None, 0.5, -np.inf)  # nothing is known about new kinds
    assert still[0] == 0
    bound = gates.best(None, 0.0, -0.3)
    assert -0.3 < bound[0] < 0
    # A lower threshold may accept a tenth of the withheld rows more, before it is held back.
    near = np.sort(np.append(np.full(880, -9.0), rng.uniform(-4, 0, 120)))
    less = gates.best(near, 0.5, -np.inf)
    assert near[20 - 1 + 880] <= less[0] / 0.7 < 0 and less[0] > half[0]
