"""The problems as data: their numbers, and multipliers that keep their constraints."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openset.solver import (
    Problem,
    feasible_start,
    fixed_bias_problem,
    one_class_problem,
    shift_total,
    solve_path,
    svdd_problem,
    svm_problem,
)


def assert_feasible(problem, beta):
    assert np.all(beta >= problem.lower) and np.all(beta <= problem.upper)
    size = np.abs(problem.lower).sum() + np.abs(problem.upper).sum()
    assert abs(beta.sum() - problem.total) <= 1e-12 * size


@st.composite
def boxed(draw):
    """A problem of either kind of sign, some boxes empty, its total anywhere it may be."""
    m = draw(st.integers(1, 12))
    sizes = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
    boxes = np.array(draw(st.lists(sizes, min_size=m, max_size=m)))
    signs = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=m, max_size=m)))
    lower, upper = np.where(signs < 0, -boxes, 0.0), np.where(signs > 0, boxes, 0.0)
    share = draw(st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)))
    total = (1 - share) * lower.sum() + share * upper.sum()
    return Problem(signs, lower, upper, total)


def test_svm_problem():
    problem = svm_problem([1, -1, 0, 1], np.array([2.0, 3.0, 4.0, 5.0]), 0.25)
    assert problem.p.tolist() == [1, -1, 0, 1]
    assert problem.lower.tolist() == [0, -3, 0, 0]
    assert problem.upper.tolist() == [2, 0, 0, 5]
    assert problem.total == 0.25 * 7


def test_one_class_problem():
    problem = one_class_problem(np.array([True, False, True]), 0.25)
    assert problem.p.tolist() == problem.lower.tolist() == [0, 0, 0]
    assert problem.upper.tolist() == [1, 0, 1]
    assert problem.total == 0.5
    weighted = one_class_problem(np.array([True, False, True]), 0.25, np.array([3.0, 1.0, 1.0]))
    assert weighted.upper.tolist() == [3, 0, 1]
    assert weighted.total == 1.0


def test_svdd_problem():
    problem = svdd_problem(np.array([True, False, True]), 0.75, np.array([1.0, 2.0, 4.0]))
    assert problem.p.tolist() == [0.5, 1.0, 2.0]
    assert problem.lower.tolist() == [0, 0, 0]
    assert problem.upper.tolist() == [0.75, 0, 0.75]
    assert problem.total == 1.0


def test_fixed_bias_problem():
    problem = svm_problem([1, -1], np.ones(2), 0.5)
    held = fixed_bias_problem(problem, -0.25)
    assert held.p.tolist() == [1.25, -0.75]
    assert held.total is None
    assert (held.lower, held.upper) == (problem.lower, problem.upper)


@settings(deadline=None, max_examples=200)
@given(boxed())
def test_start_is_feasible(problem):
    assert_feasible(problem, feasible_start(problem))


def test_start_without_equality_is_zero():
    held = fixed_bias_problem(svm_problem([1, -1], np.ones(2), 0.5), 0.0)
    assert feasible_start(held).tolist() == [0, 0]


@settings(deadline=None, max_examples=200)
@given(boxed(), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_shifted_multipliers_are_feasible(problem, seed, share):
    rng = np.random.default_rng(seed)
    m = len(problem.p)
    beta = rng.uniform(problem.lower, problem.upper)
    # Some on a bound, and some outside of a box that has become smaller.
    beta = np.where(rng.random(m) < share, 2.0 * np.sign(problem.p) * np.abs(beta), beta)
    given_beta, v = beta.copy(), rng.normal(size=m)
    assert_feasible(problem, shift_total(problem, beta, v))
    assert np.array_equal(beta, given_beta)


def test_shift_moves_the_rows_that_gain_most():
    problem = Problem(np.zeros(4), np.zeros(4), np.ones(4), 2.5)
    beta, v = np.array([0.5, 0.5, 0.5, 0.0]), np.array([0.0, 2.0, 1.0, -1.0])
    assert shift_total(problem, beta, v).tolist() == [0.5, 1.0, 1.0, 0.0]
    smaller = Problem(np.zeros(4), np.zeros(4), np.ones(4), 0.75)
    assert shift_total(smaller, beta, v).tolist() == [0.0, 0.5, 0.25, 0.0]


def test_shift_leaves_the_right_sum_alone():
    problem = Problem(np.zeros(3), np.zeros(3), np.ones(3), 1.5)
    beta = np.array([0.25, 0.25, 1.0])
    assert shift_total(problem, beta, np.arange(3.0)).tolist() == beta.tolist()


@pytest.mark.parametrize("total", [2.1, -1.1, np.inf, -np.inf, np.nan])
def test_bad_total(total):
    problem = Problem(np.zeros(3), np.array([0.0, 0, -1]), np.array([1.0, 1, 0]), total)
    with pytest.raises(ValueError, match=r"total=.*boxes allow \[.*-1.*2"):
        feasible_start(problem)


def test_a_problem_without_equality_is_a_path_of_one():
    problem = Problem(np.ones(2), np.zeros(2), np.ones(2), None)
    with pytest.raises(ValueError, match="one solution; got 2 totals"):
        solve_path(problem, np.array([0.0, 1.0]), None, tol=1e-3)


def test_svdd_without_radius():
    # Boxes that add up to less than 1 leave no choice: the multipliers are those of the mean.
    problem = svdd_problem(np.array([True, False, True]), np.array([0.1, 0.1, 0.3]), np.ones(3))
    np.testing.assert_array_equal(problem.lower, problem.upper)
    np.testing.assert_allclose(feasible_start(problem), [0.25, 0.0, 0.75])
