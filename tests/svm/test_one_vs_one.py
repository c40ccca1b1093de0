"""Biases between pairs of classes, against scikit-learn's one-vs-one machines."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

from openset.svm import one_vs_one_bias


@pytest.fixture(scope="module", params=[load_iris, load_wine])
def data(request):
    X, y = request.param(return_X_y=True)
    return minmax_scale(X), np.array(["b", "c", "a"])[y]


@pytest.mark.parametrize("gamma", [0.5, 8.0, "scale", "auto"])
@pytest.mark.parametrize("C", [0.5, 1.0, 10.0])
def test_each_pair_alone(data, C, gamma):
    X, y = data
    biases = one_vs_one_bias(X, y, C=C, gamma=gamma, tol=1e-8)
    if isinstance(gamma, str):
        gamma = SVC(gamma=gamma).fit(X, y)._gamma
    for (a, b), bias in zip(combinations("abc", 2), biases, strict=True):
        pair = (y == a) | (y == b)
        theirs = SVC(C=C, gamma=gamma, tol=1e-10).fit(X[pair], np.where(y[pair] == a, 1, -1))
        assert_allclose(bias, theirs.intercept_[0], atol=1e-5)


def test_orientation_is_that_of_scikit_learn():
    # Three classes in one SVC: LIBSVM trains the pairs (0, 1), (0, 2), (1, 2), first positive.
    X, y = load_iris(return_X_y=True)
    theirs = SVC(gamma=0.5, tol=1e-10, decision_function_shape="ovo").fit(X, y)
    assert_allclose(one_vs_one_bias(X, y, gamma=0.5, tol=1e-8), theirs.intercept_, atol=1e-5)
    # Other names, other order: the signs of the swapped pairs flip.
    flipped = one_vs_one_bias(X, 2 - y, gamma=0.5, tol=1e-8)
    assert_allclose(flipped, -theirs.intercept_[[2, 1, 0]], atol=1e-5)


def test_kernels_layouts_threads_memory(data):
    X, y = data
    for kernel in ("rbf", "inverse_multiquadric", "linear"):
        settings = {"kernel": kernel, "tol": 1e-7}
        biases = one_vs_one_bias(X, y, **settings)
        assert_allclose(one_vs_one_bias(sparse.csr_array(X), y, **settings), biases, atol=1e-4)
        assert_allclose(one_vs_one_bias(X, y, cache_size=0.003, **settings), biases, atol=1e-4)
        assert_array_equal(one_vs_one_bias(X, y, n_jobs=2, **settings), biases)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("C", -1.0),
        ("C", {"a": 1.0, "b": 1.0, "c": 1.0}),
        ("gamma", 0.0),
        ("gamma", "wide"),
        ("gamma", {"a": 1.0, "b": 1.0, "c": 1.0}),
        ("kernel", "precomputed"),
        ("tol", -1e-3),
        ("cache_size", 0),
    ],
)
def test_bad_parameter(parameter, value):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=parameter):
        one_vs_one_bias(X, y, **{parameter: value})


def test_bad_data():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="at least 2 classes"):
        one_vs_one_bias(X[:50], y[:50])
    with pytest.raises(ValueError, match="NaN"):
        one_vs_one_bias(np.where(X > 1, X, np.nan), y)
    with pytest.raises(ValueError, match=r"types \['int', 'str'\]"):
        one_vs_one_bias(X[:4], [1, "a", 1, "a"])
    with pytest.raises(ValueError, match="y"):
        one_vs_one_bias(X, None)
