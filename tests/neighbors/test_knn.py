"""Distances to the k-th neighbour of each class, against sorted distance matrices."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsClassifier

from openset import neighbors as engine
from openset.neighbors import OpenSetKNN


def _draw(d, seed=0):
    """Four classes of different sizes; the smallest has 3 samples."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1, 2, 3], [60, 40, 20, 3]))
    X = rng.normal(size=(len(y), d)) + 7 + np.eye(4, d)[y]
    return X, y, rng.normal(size=(50, d)) + 7


def _expected(X, y, Z, k, quantile=0.95):
    D = cdist(Z, X)
    kth = [np.sort(D[:, y == c])[:, min(k, np.sum(y == c)) - 1] for c in np.unique(y)]
    own = []
    for c in np.unique(y):
        W = cdist(X[y == c], X[y == c])
        np.fill_diagonal(W, np.inf)
        own += np.sort(W)[:, min(k, len(W) - 1) - 1].tolist()
    return np.quantile(own, quantile) - np.column_stack(kth)


@pytest.mark.parametrize("d", [3, 100])  # direct distances, and the matrix product
@pytest.mark.parametrize("k", [1, 2, 5, 30, 100])
def test_written_out(d, k):
    X, y, Z = _draw(d)
    model = OpenSetKNN(k).fit(X, y)
    assert_allclose(model.decision_function(Z), _expected(X, y, Z, k), rtol=1e-8, atol=1e-8)
    X, Z = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Z))
    unit = OpenSetKNN(k, normalize=True).fit(8 * X, y)
    assert_allclose(unit.decision_function(5 * Z), _expected(X, y, Z, k), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("k", [1, 5, 400])
def test_exact_where_few_directions_are_multiplied(k):
    """Samples near a subspace, with a rest that decides between neighbours."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 1000)
    few = rng.normal(size=(1200, 6)) @ rng.normal(size=(6, 100))
    X = few + 0.3 * rng.normal(size=few.shape) + 5
    X, Z = X[:1000], np.vstack([X[1000:], 1e3 * X[:3], 1e18 * X[:2], 1e200 * X[:1]])
    model = OpenSetKNN(k).fit(X, y)
    assert model._engine()._basis.shape == (100, 6)
    expected = _expected(X, y, Z[:-1], k)
    scores = model.decision_function(Z)
    assert_allclose(scores[:-1], expected, rtol=1e-8, atol=1e-8)
    assert (scores[-1] < -1e200).all()
    constant = OpenSetKNN(1).fit(np.ones((1000, 100)), y)
    assert_array_equal(constant.predict_known(np.ones((2, 100))), [0, 0])


@pytest.mark.parametrize("offset", [1e4, 1e7])
def test_exact_where_single_precision_is_not(offset):
    """Tight classes far apart: all samples of a class agree to the digits of a float32."""
    X, y, Z = _draw(100)
    X, Z = 1e-2 * X + offset * np.eye(4, 100)[y], 1e-2 * Z + offset * np.eye(4, 100)[0]
    model = OpenSetKNN(3).fit(X, y)
    assert_allclose(model.decision_function(Z), _expected(X, y, Z, 3), rtol=1e-8, atol=1e-8)


def test_nearest_class_is_that_of_one_neighbour():
    X, y, Z = _draw(100)
    nearest = KNeighborsClassifier(1).fit(X, y)
    assert_array_equal(OpenSetKNN(1).fit(X, y).predict_known(Z), nearest.predict(Z))


@pytest.mark.parametrize("d", [3, 100])
def test_blocks_and_threads_change_nothing(d, monkeypatch):
    X, y, Z = _draw(d)
    expected = OpenSetKNN().fit(X, y).decision_function(Z)
    monkeypatch.setattr(engine, "_BLOCK", 1)
    monkeypatch.setattr(engine, "_COLUMNS", 30)
    blocks = OpenSetKNN(n_jobs=2).fit(X, y).decision_function(Z)
    assert_allclose(blocks, expected, rtol=1e-12)


@pytest.mark.parametrize("d", [3, 100])
def test_bounded_and_huge_samples(d):
    X, y, _ = _draw(d)
    model = OpenSetKNN().fit(X, y)
    u = np.random.default_rng(0).normal(size=(50, d))
    for scale in (1e3, 1e9, 1e20, 1e200):
        scores = model.decision_function(scale * u)
        assert np.isfinite(scores).all() and (scores < 0).all()
    assert model.bounded_.all()
    cones = OpenSetKNN(normalize=True).fit(X, y)
    assert not cones.bounded_.any()
    assert (cones.predict(1e12 * X) == y).mean() > 0.5


def test_classes_with_one_sample_and_duplicates():
    X, y, _ = _draw(3)
    X, y = np.vstack([X, [[50.0, 0, 0]]]), np.append(y, 4)
    assert OpenSetKNN().fit(X, y).predict([[50.0, 0, 0]]) == [4]
    with pytest.raises(ValueError, match="no class has two samples"):
        OpenSetKNN().fit(X[:1], y[:1])
    twice = OpenSetKNN(1).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    assert_array_equal(twice.radius_, 0.0)  # the nearest other sample is the copy


def test_bad_input():
    X, y, Z = _draw(100)
    for bad in ({"n_neighbors": 0}, {"quantile": 2}, {"device": "tpu"}, {"normalize": "l2"}):
        with pytest.raises(ValueError, match=f"'{next(iter(bad))}' parameter"):
            OpenSetKNN(**bad).fit(X, y)
    with pytest.raises(ValueError, match="rows of zeros"):
        OpenSetKNN(normalize=True).fit(X, y).predict(0 * Z)


def test_gpu_code_agrees():
    """The array code of the GPU, on NumPy under the simulator."""
    code = (
        "import numpy as np\n"
        "from openset.neighbors import OpenSetKNN\n"
        "rng = np.random.default_rng(0)\n"
        "X, y = rng.normal(size=(90, 70)), rng.integers(0, 3, 90)\n"
        "Z = np.vstack([rng.normal(size=(40, 70)), 1e200 * X[:2]])\n"
        "cpu, gpu = (OpenSetKNN(3, device=device).fit(X, y) for device in ('cpu', 'cuda'))\n"
        "np.testing.assert_allclose(gpu.radius_, cpu.radius_, rtol=1e-10)\n"
        "np.testing.assert_allclose(gpu.raw_scores(Z[:40]), cpu.raw_scores(Z[:40]), rtol=1e-10)\n"
        "assert (gpu.decision_function(Z[40:]) < 0).all()\n"
    )
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_prepared_engine_follows_the_model():
    X, y, Z = _draw(100)
    model = OpenSetKNN().fit(X, y)
    expected = OpenSetKNN().fit(X + 1, y).decision_function(Z)
    assert_array_equal(model.fit(X + 1, y).decision_function(Z), expected)
    assert_array_equal(model.set_params(n_jobs=2).decision_function(Z), expected)
