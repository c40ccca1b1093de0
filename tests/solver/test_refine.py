"""Large multipliers: the optimality conditions hold in float64, over all samples."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from openset.kernels import RBF
from openset.solver import kernel_rows, refined_path, solve_path, svm_problem

TOL = 1e-4


@pytest.mark.parametrize("cache_size", [100, 3], ids=["whole", "on demand"])
def test_gap_in_float64(cache_size):
    rng = np.random.default_rng(0)
    m, d = 1500, 80
    signs = np.where(np.arange(m) % 5 == 0, 1.0, -1.0)
    X = rng.normal(size=(m, d)) + 0.35 * (signs > 0)[:, None]
    gamma = 0.2 / d
    K = RBF().value(gamma * cdist(X, X, "sqeuclidean"))
    problem = svm_problem(signs, np.full(m, 300.0), 0.0)
    rows = kernel_rows(X, RBF(), gamma, cache_size)
    path = solve_path(problem, np.zeros(1), rows, tol=TOL)
    # Rounding of the rows alone may exceed the tolerance.
    assert 1e-7 * np.abs(path.beta).sum() > 0.25 * TOL
    refined = refined_path(path, rows, tol=TOL)
    beta = refined.beta[0]
    v = problem.p - K @ beta
    gap = v[beta < problem.upper].max() - v[beta > problem.lower].min()
    assert gap <= 1.001 * TOL
    assert refined.kkt_gap[0] == pytest.approx(gap, abs=1e-7)
    assert refined.objective[0] == pytest.approx(-0.5 * beta @ (problem.p + v), rel=1e-10)
