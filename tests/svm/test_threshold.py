"""The SVM with a searched threshold: the plain SVM, shifted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from openset.svm import OneVsRestSVC, ThresholdSVC


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(n_class=6, return_X_y=True)
    return X[:300] / 16, y[:300]


def test_it_is_the_plain_svm_shifted(data):
    X, y = data
    plain = OneVsRestSVC(C=4.0, gamma=0.3).fit(X, y)
    model = ThresholdSVC(C=4.0, gamma=0.3, threshold=0.4).fit(X, y)
    assert_allclose(model.decision_function(X), plain.decision_function(X) - 0.4, atol=1e-9)
    assert_allclose(model.intercept_, plain.intercept_ - 0.4, atol=1e-12)
    low = ThresholdSVC(C=4.0, gamma=0.3, threshold=float(plain.intercept_[0]) - 0.01).fit(X, y)
    assert_array_equal(low.bounded_, plain.intercept_ < low.threshold)
    assert not low.bounded_[0]
    own = ThresholdSVC(threshold={c: c / 10 for c in range(6)}).fit(X, y)
    scores = OneVsRestSVC().fit(X, y).decision_function(X)
    assert_allclose(own.decision_function(X), scores - np.arange(6) / 10, atol=1e-9)


def test_bad_input(data):
    with pytest.raises(ValueError, match="'threshold' parameter"):
        ThresholdSVC(threshold=np.inf).fit(*data)
