"""The block step of the choice of landmarks."""

import numpy as np
import pytest

from openset.solver.landmarks._choice import _factor


@pytest.mark.parametrize("lowest", [0.0, -2e-4, -5e-3])
def test_factor_of_an_indefinite_matrix(lowest):
    """Rounding of products in float32 may leave a small negative eigenvalue."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    square = turn * np.array([1.0] * 7 + [lowest]) @ turn.T
    factor = _factor(np, square)
    assert np.abs(factor @ factor.T - square).max() <= 0.11
    assert np.isfinite(np.linalg.inv(factor)).all()
