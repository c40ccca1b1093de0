"""Paths over the sum of the multipliers: every member is what the oracle finds on its own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from openset.kernels import RBF
from openset.solver import (
    Interrupted,
    fixed_bias_problem,
    kernel_rows,
    one_class_problem,
    shift_total,
    solve_path,
    svm_problem,
    tuned,
)

from .reference_solver import solve_reference

TINY = 1e-9  # MB: the fewest rows that the solver can work with
memory = pytest.mark.parametrize("cache_size", [100, TINY], ids=["whole", "on demand"])


def two_classes(seed, m=50, d=2):
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    return 0.5 * signs[:, None] * rng.normal(size=d) + rng.normal(size=(m, d)), signs


def gram(X, gamma):
    return np.exp(-gamma * cdist(X, X, "sqeuclidean"))


def assert_is_a_path(path, K, tol):
    """Feasible, optimal to the tolerance by the exact kernel, and consistent with itself."""
    problem = path.problem
    assert np.all(path.beta >= problem.lower) and np.all(path.beta <= problem.upper)
    size = np.abs(problem.lower).sum() + np.abs(problem.upper).sum()
    assert_allclose(path.beta.sum(axis=1), path.totals, rtol=0, atol=1e-12 * size)
    assert np.all(path.kkt_gap <= tol)
    v = problem.p - path.beta @ K
    error = 2e-7 * size  # of float32 kernel values
    assert_allclose(path.v, v, rtol=0, atol=error)
    assert_allclose(path.scores, path.beta @ K + path.bias[:, None], rtol=0, atol=error)
    for t in range(len(path.totals)):
        top = v[t][path.beta[t] < problem.upper].max(initial=-np.inf)
        bottom = v[t][path.beta[t] > problem.lower].min(initial=np.inf)
        assert top - bottom <= tol + 2 * error
    objective = [0.5 * beta @ K @ beta - problem.p @ beta for beta in path.beta]
    # Independent errors e_ij of about 4e-8 make one of 3e-8 |beta|^2 in the quadratic term; ten
    # times that is allowed.
    square = (path.beta**2).sum(axis=1).max()
    assert_allclose(path.objective, objective, rtol=1e-6, atol=3e-7 * square)


@memory
@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("gamma", [0.05, 1.0, 30.0])
def test_against_the_reference(gamma, C, cache_size):
    X, signs = two_classes(0)
    K = gram(X, gamma)
    problem = svm_problem(signs, np.full(len(X), C), 0.0)
    totals = np.arange(10) * 0.1 * problem.upper.sum()
    path = solve_path(problem, totals, kernel_rows(X, RBF(), gamma, cache_size), tol=1e-8)
    assert_is_a_path(path, K, 1e-8)
    for t, total in enumerate(totals):
        alone = solve_reference(replace(problem, total=total), K, tol=1e-8)
        # In double precision: the path's own figure carries the error of its float32 kernel.
        objective = 0.5 * path.beta[t] @ K @ path.beta[t] - problem.p @ path.beta[t]
        assert_allclose(objective, alone.objective, rtol=1e-6)
        low, high = alone.bias_interval
        slack = 1e-5 * max(1, C)
        assert low - slack <= path.bias[t] <= high + slack
        bias = np.clip(path.bias[t], low, high)
        assert_allclose(path.scores[t], K @ alone.beta + bias, atol=slack)


@memory
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    fractions=st.sets(st.floats(0, 0.99), min_size=1, max_size=8),
    descending=st.booleans(),
    log_C=st.floats(-2, 2),
)
def test_any_totals(cache_size, seed, fractions, descending, log_C):
    rng = np.random.default_rng(seed)
    X, signs = two_classes(seed, m=int(rng.integers(4, 30)))
    signs[rng.random(len(signs)) < 0.2] = 0  # held out
    signs[:2] = 1, -1
    boxes = 10.0**log_C * rng.uniform(0.2, 2, size=len(X))
    problem = svm_problem(signs, boxes, 0.0)
    totals = np.array(sorted(fractions, reverse=descending)) * problem.upper.sum()
    totals = totals[np.r_[True, np.diff(totals) != 0]]
    gamma = 2.0 ** rng.integers(-4, 4)
    path = solve_path(problem, totals, kernel_rows(X, RBF(), gamma, cache_size), tol=1e-7)
    assert_is_a_path(path, gram(X, gamma), 1e-7)
    assert not path.beta[:, signs == 0].any()
    # The bias never rises with the total: see the intervals, taken in the order of the totals.
    order = np.argsort(totals)
    low, high = path.bias_interval[order].T
    assert np.all(high[1:] <= low[:-1] + 1e-5 * max(1.0, boxes.sum()))


@memory
def test_one_class(cache_size):
    X, _ = two_classes(1)
    K = gram(X, 0.5)
    problem = one_class_problem(np.arange(len(X)) < 40, 0.0)
    totals = np.array([0.05, 0.2, 0.21, 0.5, 0.9]) * 40
    path = solve_path(problem, totals, kernel_rows(X, RBF(), 0.5, cache_size), tol=1e-8)
    assert_is_a_path(path, K, 1e-8)
    for t, total in enumerate(totals):
        alone = solve_reference(replace(problem, total=total), K, tol=1e-9)
        assert_allclose(path.scores[t], K @ alone.beta + alone.bias, atol=1e-5)


@pytest.mark.parametrize("last", [3, 20, 200])
def test_errors_do_not_grow_along_the_path(last):
    X, signs = two_classes(2)
    problem = svm_problem(signs, np.ones(len(X)), 0.0)
    totals = np.linspace(0, 0.95, last) * problem.upper.sum()
    path = solve_path(problem, totals, kernel_rows(X, RBF(), 0.5, 10), tol=1e-7)
    K = kernel_rows(X, RBF(), 0.5, 10).store.rows.astype(np.float64)
    assert np.abs(problem.p - path.beta @ K - path.v).max() <= 1e-10


def test_members_are_solutions():
    X, signs = two_classes(3)
    rows = kernel_rows(X, RBF(), 1.0, 10)
    problem = svm_problem(signs, np.ones(len(X)), 0.0)
    path = solve_path(problem, [0.0, 1.0, 2.0, 3.0], rows, tol=1e-6)
    assert path.tol == 1e-6
    solution = path[2]
    assert solution.status == "optimal"
    assert_array_equal(solution.beta, path.beta[2])
    assert_array_equal(np.abs(solution.beta), np.abs(path.beta[2]))
    assert solution.bias == path.bias[2]
    assert solution.bias_interval == tuple(path.bias_interval[2])
    assert solution.objective == path.objective[2]
    assert solution.n_iter == path.n_iter[2]


@memory
def test_starts(cache_size):
    X, signs = two_classes(4)
    rows = kernel_rows(X, RBF(), 1.0, cache_size)
    problem = svm_problem(signs, np.ones(len(X)), 0.0)
    totals = np.array([1.0, 2.0, 4.0, 5.0])
    cold = solve_path(problem, totals, rows, tol=1e-7)
    # Its own beginning starts it at the end of the work.
    starts = [cold.beta[0], cold.beta[1]]
    warm = solve_path(problem, totals, rows, starts=starts, tol=2e-7)
    assert warm.n_iter[:2].tolist() == [0, 0]
    assert_array_equal(warm.beta[:2], cold.beta[:2])
    # Any other beginning leads to the same place, and is left as it was.
    rng = np.random.default_rng(4)
    anywhere = shift_total(
        replace(problem, total=1.0), rng.uniform(problem.lower, problem.upper), rng.normal(size=50)
    )
    kept = anywhere.copy()
    other = solve_path(problem, totals, rows, starts=[anywhere], tol=1e-7)
    assert_array_equal(anywhere, kept)
    assert_allclose(other.scores, cold.scores, atol=1e-5)


@memory
@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_max_iter_warns(cache_size, max_iter):
    X, signs = two_classes(5)
    problem = svm_problem(signs, np.full(len(X), 10.0), 0.0)
    totals = np.arange(5) * 0.1 * problem.upper.sum()
    rows = kernel_rows(X, RBF(), 0.5, cache_size)
    with pytest.warns(ConvergenceWarning, match=r"max_iter .* or tol") as record:
        path = solve_path(problem, totals, rows, tol=1e-6, max_iter=max_iter)
    assert len(record) == 5
    assert np.all(path.n_iter == max_iter)
    assert np.all(path.kkt_gap > 1e-6)
    assert path[4].status == "max_iter"
    assert_allclose(path.beta.sum(axis=1), totals, atol=1e-9)
    assert np.all(path.beta >= problem.lower) and np.all(path.beta <= problem.upper)


class _StopAfter:
    """An event that is set when it has been looked at `n` times."""

    def __init__(self, n):
        self.left = n

    def is_set(self):
        self.left -= 1
        return self.left < 0


@memory
@pytest.mark.parametrize("looks", [0, 1, 5])
def test_stop(cache_size, looks):
    X, signs = two_classes(6)
    problem = svm_problem(signs, np.full(len(X), 10.0), 0.0)
    totals = np.arange(5) * 0.1 * problem.upper.sum()
    # So that the compiled loops return often.
    with tuned(speed=1e4), pytest.raises(Interrupted):
        solve_path(
            problem,
            totals,
            kernel_rows(X, RBF(), 0.5, cache_size),
            tol=1e-9,
            stop=_StopAfter(looks),
        )


def test_without_equality_there_is_one_solution():
    X, signs = two_classes(7)
    rows = kernel_rows(X, RBF(), 1.0, 10)
    held = fixed_bias_problem(svm_problem(signs, np.ones(len(X)), 0.0), -0.3)
    path = solve_path(held, [0.0], rows, tol=1e-8)
    alone = solve_reference(held, gram(X, 1.0), tol=1e-8)
    assert_allclose(path.scores[0], held.p - alone.v, atol=1e-5)
    with pytest.raises(ValueError, match="one solution; got 2 totals"):
        solve_path(held, [0.0, 1.0], rows, tol=1e-8)


@pytest.mark.parametrize("total", [-100.0, 100.0, np.nan])
@pytest.mark.parametrize("position", [0, 1])
def test_bad_total(total, position):
    X, signs = two_classes(8)
    problem = svm_problem(signs, np.ones(len(X)), 0.0)
    totals = [0.0, 1.0]
    totals[position] = total
    with pytest.raises(ValueError):
        solve_path(problem, totals, kernel_rows(X, RBF(), 1.0, 10), tol=1e-3)
