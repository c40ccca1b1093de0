"""Expansions are prepared once per fitted model, and never outlive what they were made from."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from openset import CalibratedRejector, OpenSetSVC
from openset.evt import WSVM
from openset.kernels import RBF, Kernel
from openset.solver import DecisionValues


@pytest.fixture
def built(monkeypatch):
    """Counts how often an expansion is prepared."""
    count, init = [], DecisionValues.__init__

    def counting(self, *args):
        count.append(1)
        init(self, *args)

    monkeypatch.setattr(DecisionValues, "__init__", counting)
    return count


def data(d=4):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    return rng.normal(size=(90, d)) + 2 * np.eye(d)[y], y


@pytest.mark.parametrize("d", [4, 80])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", [OpenSetSVC, WSVM])
def test_prepared_once(built, kind, d, layout):
    X, y = data(d)
    model = kind(gamma=0.2).fit(layout(X), y)
    before = pickle.dumps(model)
    built.clear()
    scores = model.decision_function(layout(X))
    first = len(built)
    assert first == (2 if kind is WSVM else 1)
    for _ in range(3):
        assert_array_equal(model.decision_function(layout(X)), scores)
    assert len(built) == first
    # A model is what it was before, and so is its pickle.
    assert pickle.dumps(model) == before
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.decision_function(layout(X)), scores)
    assert_array_equal(deepcopy(model).decision_function(layout(X)), scores)


@pytest.mark.parametrize("d", [4, 80])
def test_moved_thresholds_are_prepared_once(built, d):
    X, y = data(d)
    svc = OpenSetSVC(gamma=0.2).fit(X, y)
    model = CalibratedRejector(FrozenEstimator(svc), alpha=0.2).fit(X, y)
    scores = model.decision_function(X)
    built.clear()
    for _ in range(3):
        assert_array_equal(model.decision_function(X), scores)
    assert not built
    # A moved model stays what it is when the one that it was made from is fitted again.
    moved = svc.with_thresholds(model.thresholds_)
    svc.set_params(gamma=0.7).fit(X[:60] + 1, y[:60])
    svc.decision_function(X)
    assert_array_equal(moved.decision_function(X), scores)


def test_never_stale():
    X, y = data()
    model = OpenSetSVC(gamma=0.2).fit(X, y)
    fresh = clone(model).fit(X, y)
    scores = model.decision_function(X)
    doubled = copy(model)
    doubled.dual_coef_ = 2 * model.dual_coef_
    expected = 2 * (scores - model.intercept_) + model.intercept_
    assert_allclose(doubled.decision_function(X), expected, atol=1e-5)
    assert_array_equal(model.decision_function(X), scores)

    for name in ("support_vectors_", "gamma_", "dual_coef_", "intercept_"):
        changed = pickle.loads(pickle.dumps(model))
        changed.decision_function(X)
        setattr(changed, name, getattr(changed, name) * 1.5)
        setattr(fresh, name, getattr(changed, name))
        assert_array_equal(changed.decision_function(X), copy(fresh).decision_function(X))
        setattr(fresh, name, getattr(model, name))
    model.set_params(kernel="inverse_multiquadric")
    assert np.abs(model.decision_function(X) - scores).max() > 0.01
    model.set_params(kernel="rbf")
    assert_array_equal(model.decision_function(X), scores)
    model.set_params(gamma=2.0).fit(X, y)
    assert np.abs(model.decision_function(X) - scores).max() > 0.01


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_fitted_arrays_stay_writable(layout):
    X, y = data()
    model = OpenSetSVC(gamma=0.2).fit(layout(X), y)
    model.predict(layout(X))
    vectors = model.support_vectors_
    for array in (
        model.dual_coef_,
        model.gamma_,
        vectors.data if layout != np.asarray else vectors,
    ):
        before = model.decision_function(layout(X))
        array *= 1.5  # noticed
        expected = pickle.loads(pickle.dumps(model)).decision_function(layout(X))
        assert_array_equal(model.decision_function(layout(X)), expected)
        assert np.abs(expected - before).max() > 1e-3


class Power(Kernel):
    """A kernel of the user that can be changed."""

    def __init__(self, power):
        self.power = power

    def value(self, s, out=None):
        return np.power(RBF().value(s, out=out), s.dtype.type(self.power), out=out)

    def inverse(self, t):
        return -np.log(t) / self.power


def test_a_kernel_that_changes():
    X, y = data()
    model = OpenSetSVC(gamma=0.2, kernel=Power(1.0)).fit(X, y)
    before = model.decision_function(X)
    model.kernel.power = 3.0
    assert np.abs(model.decision_function(X) - before).max() > 0.01


def test_threads_predict_together():
    X, y = data(80)
    model = OpenSetSVC(gamma=0.02).fit(X, y)
    expected = model.decision_function(X)
    for _ in range(5):
        other = pickle.loads(pickle.dumps(model))
        with ThreadPoolExecutor(8) as pool:
            for scores in pool.map(lambda _, m=other: m.decision_function(X), range(24)):
                assert_array_equal(scores, expected)
