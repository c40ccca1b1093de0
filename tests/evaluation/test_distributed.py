"""The final fit of ``fit_method`` on Dask, here with its default scheduler."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

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


def test_methods_without_landmarks():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    with pytest.raises(ValueError, match="with landmarks"):
        fit_method(OpenSetSVC(), X, y, distributed=True)
