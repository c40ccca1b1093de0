"""Where rows repeat: promises are kept, and a row gets the same answer whenever it is scored."""

import importlib.util
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSVC
from openset.base import OpenSetClassifier
from openset.calibration import Accuracy, Cost, KnownRejected, Precision, UnknownRejected

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "calibration.py"
COSTS = {"reject": 1, "wrong": 5, "accept_unknown": 5}
POINTS = {
    "fu": KnownRejected(),
    "own": KnownRejected(own_class=True),
    "per class": KnownRejected(within="class"),
    "precision": Precision(0.6),
    "precision of a mixture": Precision(0.5, unknown_share=0.3),
    "cost": Cost(**COSTS, unknown_share=0.2),
    "aus": UnknownRejected(0.9),
    "hna": Accuracy(),
}


class Scores(OpenSetClassifier):
    """Rows are their own scores."""

    def __init__(self, unknown_label="auto"):
        self.unknown_label = unknown_label

    def fit(self, X, y):
        self.classes_, self.unknown_label_ = np.unique(y), -1
        self._rng = np.random.default_rng(0)
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)


class Rescored(Scores):
    """Rows are their own scores, but for 1e-6 that changes with every call."""

    def decision_function(self, X):
        X = np.asarray(X, dtype=float)
        return X + 1e-6 * (self._rng.random((len(X), 1)) - 0.5)


def _draw(rng, n_known=300, n_unknown=200, pool=12):
    """Rows of a small pool; one wrong row and one row of the unknown are drawn very often."""
    codes = np.arange(pool) % 2
    known = rng.normal(-0.5, 0.5, size=(pool, 2))
    known[np.arange(pool), codes] += 1.5
    wrong, kind = [-0.4, 0.55], [0.5, -1.0]
    rows = rng.integers(pool, size=n_known)
    X, y = known[rows], codes[rows]
    X[: n_known // 6], y[: n_known // 6] = wrong, 0
    unknown = rng.normal(-0.7, 0.4, size=(n_unknown, 2))
    unknown[: n_unknown // 2] = kind
    return X, y, unknown


@pytest.mark.parametrize("name", POINTS)
def test_a_row_gets_the_same_answer_whenever_it_is_scored(name):
    point = POINTS[name]
    frozen = FrozenEstimator(Rescored().fit(None, [0, 1]))
    given = 0
    for seed in range(12):
        X, y, unknown = _draw(np.random.default_rng(seed))
        needed = point.needs_unknown
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = CalibratedRejector(frozen, criterion=point)
                model.fit(X, y, X_unknown=unknown if needed else None)
        except ValueError:
            continue  # no threshold satisfies the criterion
        given += 1
        for rows in (X, unknown) if needed else (X,):
            first = model.predict_set(rows)
            for _ in range(5):
                assert (model.predict_set(rows).any(axis=1) == first.any(axis=1)).all()
            if needed or name in ("fu", "precision"):
                nearest = np.abs(rows.max(axis=1) - model.thresholds_[0]).min()
                assert nearest > 1e-6
    assert given >= 6


@pytest.mark.parametrize("name", POINTS)
def test_neither_the_order_of_rows_nor_a_score_of_zero_decides(name):
    point = POINTS[name]
    frozen = FrozenEstimator(Scores().fit(None, [0, 1]))
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, y, unknown = _draw(rng)
        X[rng.random(len(X)) < 0.55] = 0.0  # the typical score is 0
        X[0] *= 1e5  # and ties in the highest score have other scores of very different size
        needed = point.needs_unknown
        order = rng.permutation(len(X))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                first, again = (
                    CalibratedRejector(frozen, criterion=point)
                    .fit(X[rows], y[rows], X_unknown=unknown if needed else None)
                    .thresholds_
                    for rows in (np.arange(len(X)), order)
                )
            except ValueError:
                continue  # no threshold satisfies the criterion
        assert first.tolist() == again.tolist()
        assert not np.isin(first, X).any()


def test_precision_with_a_heavy_wrong_row():
    # The answer to the heavy row is wrong. Below its score the precision is 0.75, above it 1.
    rng = np.random.default_rng(0)
    model = CalibratedRejector(
        FrozenEstimator(Rescored().fit(None, [0, 1])), criterion=Precision(0.9)
    )
    for _ in range(30):
        right = rng.choice([0.8, 0.9, 1.0, 1.1], size=300)
        X = np.vstack([np.column_stack([right, right - 1]), np.tile([-0.5, 0.5], (100, 1))])
        y = np.zeros(400, dtype=int)
        model.fit(X, y)
        accepted = model.predict(X) != -1
        assert accepted[:300].mean() > 0.7
        assert not accepted[300:].any()


def test_precision_of_a_kernel_machine_with_repeated_rows():
    # Near a moved threshold scores are formed in float64, elsewhere in float32.
    X, y = load_digits(return_X_y=True)
    X = X / 16
    known = np.flatnonzero(y < 6)
    svc = OpenSetSVC(gamma=0.3, C=100).fit(X[known][:300], y[known][:300])
    rng = np.random.default_rng(0)
    pool, others = known[300:340], np.flatnonzero(y >= 6)[:8]
    for _ in range(10):
        rows, strange = rng.choice(pool, size=500), rng.choice(others, size=400)
        model = CalibratedRejector(
            FrozenEstimator(svc), criterion=Precision(0.8, unknown_share=0.3)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[rows], y[rows], X_unknown=X[strange])
        whole = model.predict(X[np.append(rows, strange)])
        for i, row in enumerate(np.append(rows, strange)[::37]):
            assert (model.predict(X[[row]])[0] == -1) == (whole[::37][i] == -1)
        each = np.append(rows, strange)
        for row in np.unique(each):  # all copies get the same answer
            assert len(set(whole[each == row].tolist())) == 1


@pytest.fixture(scope="module")
def benchmark():
    if not BENCHMARK.exists():
        pytest.skip("without the benchmarks of the repository")
    spec = importlib.util.spec_from_file_location("calibration_benchmark", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _check_design(benchmark, design, n_runs):
    for name, found in benchmark.simulate_design(design, n_runs).items():
        assert benchmark.kept(*found), (design, name, found)


@pytest.mark.parametrize("design", [1, 6, 13])
def test_promises_with_one_heavy_bad_kind(benchmark, design):
    _check_design(benchmark, benchmark.DESIGNS[design], 40)


@pytest.mark.slow
def test_every_promise_in_every_design(benchmark):
    for design in benchmark.DESIGNS:
        _check_design(benchmark, design, 300)


def _check_overlapping(benchmark, name, home=None):
    for result in benchmark.calibrate_overlapping(name, home):
        low, high = result.single
        if result.by == "highest":
            assert abs(result.known - result.alpha) <= result.error, result
            assert low - 0.01 <= result.unknown <= high + 0.01, result
        assert result.warned or result.unknown > result.before / 2, result


def test_overlapping_classes(benchmark):
    _check_overlapping(benchmark, "gaussians")


@pytest.mark.slow
def test_ten_sets_with_overlapping_classes(benchmark):
    if "OPENSET_DATA" not in os.environ:
        pytest.skip("OPENSET_DATA does not name the datasets")
    assert len(benchmark.SETS) == 10
    for name in benchmark.SETS:
        _check_overlapping(benchmark, name, os.environ["OPENSET_DATA"])
