"""Sparse formats without rows to take, such as COO, go wherever CSR goes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from openset import OpenSetSVC, group_unknowns
from openset.calibration import calibrate
from openset.evaluation import draw_split, evaluate_method

FORMATS = [sparse.coo_matrix, sparse.bsr_matrix, sparse.coo_array]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 6
    X = sparse.csr_array(rng.normal(size=(120, 4)) + 6 * rng.normal(size=(6, 4))[y])
    return X, y, OpenSetSVC(gamma=0.1).fit(X[y < 4], y[y < 4])


@pytest.mark.parametrize("form", FORMATS)
def test_answers_and_explanations(data, form):
    X, _, model = data
    many = sparse.vstack([X] * 300)  # scored in several blocks
    assert_array_equal(model.predict(form(many)), model.predict(many))
    assert_array_equal(model.known_score(form(many)), model.known_score(many))
    pytest.importorskip("pandas")
    assert model.explain(form(X)).equals(model.explain(X))


@pytest.mark.parametrize("form", FORMATS)
def test_parts_of_the_rows(data, form):
    X, y, model = data
    thresholds = [calibrate(model, Z, y, alpha=0.2).thresholds_ for Z in (X, form(X))]
    assert_array_equal(*thresholds)
    assert_array_equal(*[group_unknowns(model, Z).labels for Z in (X, form(X))])
    split = draw_split(y, n_known=4, random_state=0)
    results = [evaluate_method(OpenSetSVC(gamma=0.1), Z, y, split) for Z in (X, form(X))]
    assert_array_equal(*[result.evaluation.scores for result in results])
