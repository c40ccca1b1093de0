"""Explanations in blocks, and of a calibrated model that was fitted to a part of the samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import openset.base._explain as module
from openset.base import explain
from openset.calibration import CalibratedRejector
from openset.svm import (
    OpenSetSVC,
)

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    names = np.array(["setosa", "versicolor", "virginica"])
    return X[order], names[y[order]]


def _probes(X, n=60, seed=1):
    rng = np.random.default_rng(seed)
    low, high = X.min(axis=0), X.max(axis=0)
    return rng.uniform(low - (high - low), high + (high - low), size=(n, X.shape[1]))


@pytest.mark.parametrize("frozen", [True, False])
def test_calibrated(iris, frozen):
    X, y = iris
    inner = make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.5))
    if frozen:
        inner = FrozenEstimator(inner.fit(X[:100], y[:100]))
    model = CalibratedRejector(inner, alpha=0.2, random_state=0, unknown_label="?")
    model.fit(*((X[100:], y[100:]) if frozen else (X, y)))
    Z = np.vstack([X, _probes(X)])
    table = model.explain(Z)
    assert_array_equal(table.answer, model.predict(Z))
    assert "?" in set(table.answer)
    # Rows are those of the X that somebody passed to fit.
    pipeline = model.estimator_.estimator if frozen else model.estimator_
    scale = pipeline[0].transform
    used = np.arange(100) if frozen else model._fit_rows
    similar = table.similar.to_numpy(dtype=int)
    assert set(similar) == set(similar) & set(used[pipeline[-1].support_])
    assert_allclose(np.linalg.norm(scale(Z) - scale(X[similar]), axis=1), table.distance, atol=1e-9)
    # The gap follows the moved threshold.
    accepted = scale(Z[model.predict(Z) != "?"])
    assert np.all(table.region_gap <= cdist(scale(Z), accepted).min(axis=1) + 1e-9)
    assert not np.allclose(table.region_gap, explain(pipeline, Z).region_gap)


def test_blocks_make_no_difference(iris, monkeypatch):
    X, y = iris
    model = OpenSetSVC().fit(X, y)
    whole = model.explain(X)
    monkeypatch.setattr(module, "_ROWS", 7)
    in_blocks = model.explain(X)
    pd.testing.assert_frame_equal(in_blocks, whole, atol=1e-5)


def test_memory_is_that_of_a_block(iris, monkeypatch):
    X, y = iris
    model = OpenSetSVC().fit(X, y)
    sizes = []
    original = OpenSetSVC.decision_function

    def watch(self, Z):
        sizes.append(len(Z))
        return original(self, Z)

    monkeypatch.setattr(OpenSetSVC, "decision_function", watch)
    model.explain(np.tile(X, (100, 1)))
    assert max(sizes) <= module._ROWS and sum(sizes) == 100 * len(X)
