"""The final fit of ``fit_method`` on Dask, here with its default scheduler."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from openset import OpenSetSVC
from openset.evaluation import fit_method, make_method

pytest.importorskip("dask.array")


@pytest.mark.parametrize("pipeline", [False, True])
def test_the_fit_of_one_machine(pipeline):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 3
    X = 3 * rng.normal(size=(3, 4))[y] + rng.normal(size=(600, 4))
    model = OpenSetSVC(gamma=0.3, landmarks=40, random_state=0, tol=1e-4)
    if pipeline:
        model = make_method("ossvm", landmarks=40, random_state=0).set_params(model__tol=1e-4)
    here, there = (fit_method(model, X, y, distributed=flag).model for flag in (False, True))
    assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-3)
    assert np.mean(there.predict(X) == here.predict(X)) >= 0.999


def test_workers_read_their_parts():
    """Functions that return a part each: the model is that of all rows, the steps of the sample."""
    rng = np.random.default_rng(0)
    y = np.sort(np.arange(600) % 3)
    X = 3 * rng.normal(size=(3, 4))[y] + rng.normal(size=(600, 4))
    sample = np.flatnonzero(np.arange(600) % 5 == 0)
    parts = [slice(0, 250), slice(250, 250), slice(250, 600)]  # class 0 in one only, one empty
    readers = [lambda rows=rows: (X[rows], y[rows]) for rows in parts]
    model = make_method("ossvm", landmarks=40, random_state=0).set_params(model__tol=1e-4)
    there = fit_method(model, X[sample], y[sample], distributed=readers)
    scaler = model[:-1].fit(X[sample])
    here = clone(model[-1]).fit(scaler.transform(X), y)
    scores = here.decision_function(scaler.transform(X))
    assert_allclose(there.model.decision_function(X), scores, atol=1e-3)
    assert there.n_rows == 600
    assert there.class_counts == {0: 200, 1: 200, 2: 200}


def test_methods_without_landmarks():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    with pytest.raises(ValueError, match="with landmarks"):
        fit_method(OpenSetSVC(), X, y, distributed=True)
