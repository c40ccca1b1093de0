"""Conformal p-values, sets of classes, and the false discovery rate."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import false_discovery_control
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import CalibratedRejector, OpenSetSVC
from openset.calibration import Accuracy, KnownRejected, find_unknowns
from openset.neighbors import OSNN

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "operating_points.py"


@pytest.fixture(scope="module")
def simulation():
    if not BENCHMARK.exists():
        pytest.skip("without the benchmarks of the repository")
    return runpy.run_path(str(BENCHMARK))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X, known = X / 16, y < 6
    svc = OpenSetSVC(gamma=0.5).fit(X[known][::3], y[known][::3])
    return svc, X[known][1::3], y[known][1::3], X[known][2::3], y[known][2::3], X[~known]


def _by_definition(svc, X_cal, y_cal, X, per_class):
    """The p-values of methods.md 18.3, sample by sample."""
    calibration, scores = svc.decision_function(X_cal), svc.decision_function(X)
    p = np.empty(scores.shape)
    for c in range(scores.shape[1]):
        rows = np.flatnonzero(y_cal == c) if per_class else np.arange(len(y_cal))
        for i in range(len(X)):
            count = sum(calibration[j, y_cal[j]] <= scores[i, c] for j in rows)
            p[i, c] = (1 + count) / (len(rows) + 1)
    known = [(1 + np.sum(calibration.max(axis=1) <= s.max())) / (len(y_cal) + 1) for s in scores]
    return p, p.max(axis=1) if per_class else np.array(known)


@pytest.mark.parametrize("per_class", [False, True])
def test_definition(digits, per_class):
    svc, X_cal, y_cal, X, *_ = digits
    X = X[::8]
    point = KnownRejected(within="class" if per_class else None)
    model = CalibratedRejector(FrozenEstimator(svc), criterion=point).fit(X_cal, y_cal)
    p, known = _by_definition(svc, X_cal, y_cal, X, per_class)
    # Scores that differ by less than their rounding error count as equal.
    one = 1.01 / (np.bincount(y_cal).min() + 1)
    found = model.p_values(X)
    assert np.mean(found != p) < 0.02
    assert np.all(found >= p)
    assert_allclose(found, p, atol=one, rtol=0)
    assert_allclose(model.known_p_value(X), known, atol=one, rtol=0)
    assert_array_equal(model.predict_set(X, alpha=0.2), found > 0.2)
    assert_array_equal(model.predict_set(X), model.decision_function(X) >= 0)


def test_p_values_do_not_depend_on_the_operating_point(digits):
    svc, X_cal, y_cal, X, _, X_unknown = digits
    first = CalibratedRejector(FrozenEstimator(svc), alpha=0.3).fit(X_cal, y_cal)
    own = KnownRejected(own_class=True)
    for params in ({"alpha": 0.02}, {"criterion": Accuracy()}, {"criterion": own}):
        model = CalibratedRejector(FrozenEstimator(svc), **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # far samples may be accepted
            unknown = X_unknown if params.get("criterion") == Accuracy() else None
            model.fit(X_cal, y_cal, X_unknown=unknown)
        assert_array_equal(model.p_values(X), first.p_values(X))


def test_a_calibration_sample_that_comes_again_counts_as_equal(digits):
    # In a batch of another size its score differs in the last digits.
    svc, X_cal, y_cal, *_ = digits
    model = CalibratedRejector(FrozenEstimator(svc)).fit(X_cal, y_cal)
    together = model.known_p_value(X_cal)
    alone = np.concatenate([model.known_p_value(x[None]) for x in X_cal[:40]])
    assert_array_equal(alone, together[:40])
    n = len(X_cal)
    assert np.all(np.sort(together) >= (np.arange(n) + 2) / (n + 1) - 1e-12)


def test_behind_a_pipeline_and_in_a_model_file(digits, tmp_path):
    pytest.importorskip("skops")
    from openset.persistence import load_model, save_model

    _, X_cal, y_cal, X, y, _ = digits
    model = CalibratedRejector(make_pipeline(MinMaxScaler(), OSNN()), random_state=0)
    model.fit(np.vstack([X_cal, X]), np.append(y_cal, y))
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert_array_equal(loaded.p_values(X), model.p_values(X))
    assert_array_equal(loaded.known_p_value(X), model.known_p_value(X))


def test_warning_and_bad_alpha(digits):
    svc, X_cal, y_cal, X, *_ = digits
    few = np.concatenate([np.flatnonzero(y_cal == c)[:20] for c in range(6)])
    model = CalibratedRejector(FrozenEstimator(svc), criterion=KnownRejected(0.2, within="class"))
    model.fit(X_cal[few], y_cal[few])
    assert_allclose(model.p_values(np.full((1, 64), 50.0)), 1 / 21)
    with pytest.warns(
        UserWarning, match=r"alpha=0.04 is below 0.0476.* 20 calibration samples of a"
    ):
        assert model.predict_set(X, alpha=0.04).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_set(X, alpha=0.05)
    for alpha in (0, 1, -0.1, np.nan):
        with pytest.raises(ValueError, match=r"alpha=.* must be between 0 and 1"):
            model.predict_set(X, alpha=alpha)


def test_a_model_of_an_older_version(digits):
    svc, X_cal, y_cal, X, *_ = digits
    model = CalibratedRejector(FrozenEstimator(svc)).fit(X_cal, y_cal)
    del model._own_scores
    model.predict(X)
    with pytest.raises(ValueError, match="Calibrate it again"):
        model.known_p_value(X)


@pytest.mark.parametrize("q", [0.05, 0.1, 0.3])
def test_discoveries_are_those_of_scipy(digits, q):
    svc, X_cal, y_cal, X, _, X_unknown = digits
    model = CalibratedRejector(FrozenEstimator(svc)).fit(X_cal, y_cal)
    batch = np.vstack([X, X_unknown[:100]])
    expected = false_discovery_control(model.known_p_value(batch)) <= q
    assert expected.any()
    assert_array_equal(find_unknowns(model, batch, q=q), expected)
    assert not find_unknowns(model, X[:1], q=0.01).any()


def test_bad_discoveries(digits):
    svc, X_cal, y_cal, X, *_ = digits
    frozen = FrozenEstimator(svc)
    with pytest.raises(TypeError, match="OpenSetSVC, which has no p-values; calibrate it"):
        find_unknowns(svc, X)
    with pytest.raises(ValueError, match="p-values per class"):
        point = KnownRejected(0.2, within="class")
        find_unknowns(CalibratedRejector(frozen, criterion=point).fit(X_cal, y_cal), X)
    model = CalibratedRejector(frozen).fit(X_cal[:30], y_cal[:30])
    with pytest.raises(
        ValueError, match=r"q=0.01 needs at least 99 calibration samples; there are 30"
    ):
        find_unknowns(model, X, q=0.01)
    for q in (0, 1, 2):
        with pytest.raises(ValueError, match=f"q={q} must be between 0 and 1"):
            find_unknowns(model, X, q=q)


def test_simulated_p_values(simulation):
    shares = simulation["simulate_p_values"](60, sizes=[19, 50], seed=1)
    excess, limit = simulation["worst"](shares)
    assert excess < limit
    # Not conservative either: with continuous scores the share is floor(alpha (n + 1)) / (n + 1).
    exact = [s for s in shares if "continuous, n=19, pooled, alpha=0.2, P" in s.name]
    assert all(abs(s.share - 0.2) < 5 * s.error for s in exact)


@pytest.mark.slow
def test_simulated_p_values_in_full(simulation):
    excess, limit = simulation["worst"](simulation["simulate_p_values"](2000))
    assert excess < limit


def _toy_population(simulation, n=4000, seed=0):
    """Known samples whose answers are the more often right the higher they score."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n)
    known = rng.normal(size=(n, 3))
    known[np.arange(n), codes] += rng.gamma(2.0, 1.5, size=n)
    return simulation["Population"]("toy", known, codes, rng.normal(size=(n, 3)) + 0.5)


def test_simulated_false_discoveries(simulation):
    data = _toy_population(simulation)
    result = simulation["simulate_discoveries"](data, 100, q=0.2)
    assert result.proportion <= 0.2 + 2 * result.error


@pytest.mark.slow
@pytest.mark.parametrize("q", [0.05, 0.1, 0.2])
def test_simulated_false_discoveries_in_full(simulation, q):
    data = _toy_population(simulation)
    result = simulation["simulate_discoveries"](data, 1000, q=q)
    assert result.proportion <= q + 2 * result.error


@pytest.mark.parametrize("unknown_share", [0.0, 0.1])
def test_simulated_precision(simulation, unknown_share):
    data = _toy_population(simulation)
    _check_precision(simulation, data, 60, unknown_share)


@pytest.mark.slow
@pytest.mark.parametrize("unknown_share", [0.0, 0.1])
def test_simulated_precision_in_full(simulation, unknown_share):
    data = _toy_population(simulation)
    _check_precision(simulation, data, 1000, unknown_share)


def _check_precision(simulation, data, n_runs, unknown_share):
    for margin in (0.02, 0.0):
        result = simulation["simulate_precision"](
            data, n_runs, margin=margin, unknown_share=unknown_share, size=2000
        )
        # Three standard errors of a share of 5 %.
        assert result.broken <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n_runs)
        if margin and not unknown_share:
            assert result.given >= 0.9


def test_where_is_predict_proba(digits):
    svc, X_cal, y_cal, *_ = digits
    for model in (svc, CalibratedRejector(FrozenEstimator(svc)).fit(X_cal, y_cal)):
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError, match=r"has no predict_proba: .*p_values"):
            model.predict_proba(X_cal)
