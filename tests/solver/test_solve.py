"""The solver against two others, and the facts its answers have to obey."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from openset.kernels import RBF, InverseMultiquadric, Linear, RationalQuadratic, TStudent
from openset.solver import (
    Problem,
    fixed_bias_problem,
    kernel_rows,
    lower_bias,
    one_class_problem,
    refined_path,
    shift_total,
    solve,
    solve_path,
    svdd_problem,
    svm_problem,
    tuned,
)

from .reference_solver import solve_reference

KERNELS = {
    "rbf": RBF(),
    "t_student": TStudent(1.0),
    "rational_quadratic": RationalQuadratic(0.5),
    "inverse_multiquadric": InverseMultiquadric(0.5),
    "linear": Linear(),
}


def gram(X, kernel, gamma):
    return kernel.value(gamma * cdist(X, X, "sqeuclidean")) if kernel.decaying else X @ X.T


def blobs(rng, m, d=2):
    """Two overlapping classes, coordinates rounded so that some rows repeat, across classes too."""
    signs = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    X = np.round(rng.normal(size=(m, d)) + 0.5 * signs[:, None], 1)
    X[: m // 8] = X[m // 2 : m // 2 + m // 8]
    return X, signs


def random_problem(kind, rng, signs, K):
    boxes = rng.uniform(0.2, 3.0, size=len(signs))
    if kind == "svm":
        return svm_problem(signs, boxes, 0.0)
    if kind == "ossvm":
        return svm_problem(signs, boxes, rng.uniform(0.1, 0.9))
    if kind == "held out":
        return svm_problem(np.where(rng.random(len(signs)) < 0.3, 0.0, signs), boxes, 0.3)
    if kind == "one class":
        return one_class_problem(signs > 0, 0.3)
    if kind == "weighted one class":
        return one_class_problem(signs > 0, 0.6, boxes)
    if kind == "svdd":
        return svdd_problem(signs > 0, 0.2, K.diagonal())
    return fixed_bias_problem(svm_problem(signs, boxes, 0.0), -0.4)


KINDS = ["svm", "ossvm", "held out", "one class", "weighted one class", "svdd", "fixed bias"]


def cvxopt_solution(problem, K):
    """Multipliers and bias by an interior-point method, over the rows whose box is not empty."""
    cvxopt = pytest.importorskip("cvxopt")
    rows = np.flatnonzero(problem.upper > problem.lower)
    n = len(rows)
    equality = [] if problem.total is None else [np.ones((1, n)), np.array([problem.total])]
    parts = [
        K[np.ix_(rows, rows)],
        -problem.p[rows],
        np.vstack([np.eye(n), -np.eye(n)]),
        np.concatenate([problem.upper[rows], -problem.lower[rows]]),
        *equality,
    ]
    options = {"show_progress": False, "abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}
    answer = cvxopt.solvers.qp(*(cvxopt.matrix(a) for a in parts), options=options)
    assert answer["status"] == "optimal"
    beta = np.zeros(len(K))
    beta[rows] = np.array(answer["x"]).ravel()
    # Stationarity: p - K beta = y + (multipliers of the bounds), so y is the bias.
    return beta, 0.0 if problem.total is None else answer["y"][0]


def assert_same_solution(problem, K, solution, beta, bias, atol):
    """`solution` has the objective and the decision values of the multipliers `beta`."""

    def objective(b):
        return 0.5 * b @ K @ b - problem.p @ b

    scale = max(1.0, abs(objective(beta)))
    assert abs(objective(solution.beta) - objective(beta)) <= atol * scale
    assert np.abs(K @ (solution.beta - beta)).max() <= atol * 10
    assert np.abs(problem.p - solution.v - K @ solution.beta).max() <= atol * 10
    low, high = solution.bias_interval
    assert low - atol * 10 <= bias <= high + atol * 10


@pytest.mark.parametrize(
    ("kind", "kernel"),
    # The reference is slow where a linear kernel leaves many solutions.
    [(a, b) for a in KINDS for b in KERNELS if b != "linear" or a in {"svm", "ossvm", "held out"}],
)
def test_agrees_with_reference(kind, kernel):
    kernel = KERNELS[kernel]
    rng = np.random.default_rng(KINDS.index(kind))
    X, signs = blobs(rng, 60)
    K = gram(X, kernel, 0.7)
    problem = random_problem(kind, rng, signs, K)
    solution = solve(problem, kernel_rows(X, kernel, 0.7, 1), tol=1e-8)
    reference = solve_reference(problem, K, tol=1e-8)
    assert solution.status == reference.status == "optimal"
    assert_same_solution(problem, K, solution, reference.beta, reference.bias, 1e-5)


@pytest.mark.parametrize("solver", ["compiled", "reference"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_interior_point(kind, seed, solver):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    X, signs = blobs(rng, 40, d=3)
    gamma = [0.1, 1.0, 10.0][seed]
    K = gram(X, RBF(), gamma)
    problem = random_problem(kind, rng, signs, K)
    if solver == "compiled":
        solution = solve(problem, kernel_rows(X, RBF(), gamma, 1), tol=1e-8)
    else:
        solution = solve_reference(problem, K, tol=1e-8)
    beta, bias = cvxopt_solution(problem, K)
    assert_same_solution(problem, K, solution, beta, bias, 1e-6)


# --- facts about every problem --------------------------------------------------------------------


@st.composite
def training_sets(draw):
    """Rows and signs of a random training set with weights, C from 0.01 to 100."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X, signs = blobs(rng, draw(st.integers(4, 40)), draw(st.integers(1, 5)))
    C = 10.0 ** draw(st.floats(-2, 2))
    weights = rng.uniform(0.05, 3.0, size=len(signs)) if draw(st.booleans()) else np.ones(len(X))
    gamma = 2.0 ** draw(st.integers(-5, 5))
    return kernel_rows(X, RBF(), gamma, 1), signs, C * weights


fractions = st.floats(0, 0.98)
quick = settings(deadline=None, max_examples=100)


@quick
@given(training_sets(), fractions)
def test_constraints_hold(training_set, lam):
    rows, signs, boxes = training_set
    problem = svm_problem(signs, boxes, lam)
    solution = solve(problem, rows, tol=1e-6)
    assert solution.beta.sum() == pytest.approx(problem.total, abs=1e-10 * boxes.sum())
    assert np.all(solution.beta >= problem.lower) and np.all(solution.beta <= problem.upper)
    assert solution.kkt_gap <= 1e-6
    low, high = solution.bias_interval
    assert low - 1e-6 <= solution.bias <= high + 1e-6
    assert (
        np.abs(problem.p - solution.v - rows.store.rows @ solution.beta).max() <= 1e-9 * boxes.sum()
    )


@quick
@given(training_sets(), st.sets(st.integers(0, 98), min_size=2, max_size=6))
def test_bias_never_rises_with_lam(training_set, percent):
    rows, signs, boxes = training_set
    problems = [svm_problem(signs, boxes, lam / 100) for lam in sorted(percent)]
    intervals = [solve(problem, rows, tol=1e-9).bias_interval for problem in problems]
    slack = 1e-6 * max(1.0, max(abs(b) for interval in intervals for b in interval))
    for (low, _), (_, high) in pairwise(intervals):
        assert high <= low + slack


@quick
@given(training_sets())
def test_closed_form_lam_bounds_the_class(training_set):
    rows, signs, boxes = training_set
    positive, negative = boxes[signs > 0].sum(), boxes[signs < 0].sum()
    lam = max(0.0, 1 - 0.5 * min(1.0, negative) / positive)
    solution = solve(svm_problem(signs, boxes, lam), rows, tol=1e-6)
    assert solution.bias_interval[1] <= -0.5 + 1e-6
    assert solution.bias <= -0.5 + 1e-6


@quick
@given(training_sets(), st.floats(-3, 1))
def test_held_bias_comes_back(training_set, bias):
    rows, signs, boxes = training_set
    problem = svm_problem(signs, boxes, 0.0)
    held = solve(fixed_bias_problem(problem, bias), rows, tol=1e-9)
    assert held.bias == 0.0
    # Of 2,000 sets a few with nearly equal rows stop early, with a ConvergenceWarning.
    assume(held.status == "optimal")
    total = held.beta.sum()
    low, high = problem.lower.sum(), problem.upper.sum()
    if not low < total < high:  # at an end of the range the bias is bounded from one side only
        return
    solution = solve(Problem(problem.p, problem.lower, problem.upper, total), rows, tol=1e-9)
    # Rounding of the total may leave a multiplier next to its bound, which seems to fix the bias.
    margin = 1e-9 * boxes
    low = solution.v[solution.beta < problem.upper - margin].max(initial=-np.inf)
    high = solution.v[solution.beta > problem.lower + margin].min(initial=np.inf)
    slack = 1e-6 * max(1.0, boxes.sum())
    assert low - slack <= bias <= high + slack


@quick
@given(training_sets(), fractions, st.integers(0, 2**32 - 1))
def test_any_start_gives_the_same_objective(training_set, lam, seed):
    rows, signs, boxes = training_set
    problem = svm_problem(signs, boxes, lam)
    cold = solve(problem, rows, tol=1e-8)
    rng = np.random.default_rng(seed)
    anywhere = rng.uniform(problem.lower, problem.upper)
    start = shift_total(problem, anywhere, rng.normal(size=len(signs)))
    given_start = start.copy()
    warm = solve(problem, rows, tol=1e-8, start=start)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-7, abs=1e-7)
    assert np.array_equal(start, given_start)
    # The optimum itself is recognised at once, its v given or not.
    for v in (None, cold.v):
        again = solve(problem, rows, tol=1e-7, start=cold.beta, v=v)
        assert again.n_iter == 0
        assert np.array_equal(again.beta, cold.beta)


@quick
@given(training_sets(), st.floats(0.01, 2))
def test_lower_bias(training_set, drop):
    rows, signs, boxes = training_set
    problem = svm_problem(signs, boxes, 0.0)
    plain = solve(problem, rows, tol=1e-9)
    target = plain.bias_interval[0] - drop
    lowered = lower_bias(problem, plain, rows, target, tol=1e-9)
    total = lowered.beta.sum()
    assert total >= -1e-9 * boxes.sum()
    assert lowered.bias == target
    assert (
        np.abs(problem.p - lowered.v - rows.store.rows @ lowered.beta).max() <= 1e-9 * boxes.sum()
    )
    if total < problem.upper.sum():
        there = Problem(problem.p, problem.lower, problem.upper, total)
        solution = solve(there, rows, tol=1e-9)
        scale = max(1.0, abs(solution.objective))
        assert lowered.objective == pytest.approx(solution.objective, abs=1e-6 * scale)


# --- stopping early, and questions without an answer ----------------------------------------------


def _hard_problem():
    rng = np.random.default_rng(0)
    X, signs = blobs(rng, 100)
    return svm_problem(signs, np.full(100, 10.0), 0.1), kernel_rows(X, RBF(), 0.5, 1)


@pytest.mark.parametrize("max_iter", [0, 1, 7])
@pytest.mark.parametrize("held", [False, True])
def test_max_iter_warns(max_iter, held):
    problem, rows = _hard_problem()
    if held:
        problem = fixed_bias_problem(problem, -0.5)
    with pytest.warns(ConvergenceWarning, match=r"Raise max_iter .* or tol") as record:
        solution = solve(problem, rows, tol=1e-6, max_iter=max_iter)
    assert solution.status == "max_iter"
    assert solution.n_iter == max_iter
    assert solution.kkt_gap > 1e-6
    assert re.search(rf"{max_iter} iterations", str(record[0].message))
    # What is returned is still feasible and consistent.
    assert np.all(solution.beta >= problem.lower) and np.all(solution.beta <= problem.upper)
    assert np.abs(problem.p - solution.v - rows.store.rows @ solution.beta).max() <= 1e-9


def test_iterations_of_two_runs_add_up():
    problem, rows = _hard_problem()
    with tuned(few=10**9):  # shrinking counts the iterations of its own run
        whole = solve(problem, rows, tol=1e-6)
        with pytest.warns(ConvergenceWarning):
            half = solve(problem, rows, tol=1e-6, max_iter=whole.n_iter // 2)
        rest = solve(problem, rows, tol=1e-6, start=half.beta, v=half.v)
    assert half.n_iter + rest.n_iter == whole.n_iter
    assert np.array_equal(rest.beta, whole.beta)


@pytest.mark.parametrize("total", [1000.1, -2000.1, np.nan])
def test_bad_total(total):
    problem, rows = _hard_problem()
    with pytest.raises(ValueError, match="total="):
        solve(Problem(problem.p, problem.lower, problem.upper, total), rows, tol=1e-3)


def test_total_at_the_end_of_its_range():
    problem, rows = _hard_problem()
    full = Problem(problem.p, problem.lower, problem.upper, problem.upper.sum())
    with pytest.raises(ValueError, match="one side only"):
        solve(full, rows, tol=1e-3)


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 3e-5])
@pytest.mark.parametrize("C", [8.0, 1e3])
def test_rows_that_are_equal_but_for_rounding(distance, C):
    """SMO does not move multipliers between near copies forever."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=(40, 200))
    base /= np.linalg.norm(base, axis=1)[:, None]
    X = np.repeat(base, 20, axis=0) + distance * rng.normal(size=(800, 200)) / 14
    signs = np.where(rng.random(800) < 0.3, 1.0, -1.0)
    rows = kernel_rows(X, Linear(), 1.0, 100)
    found = solve(svm_problem(signs, np.full(800, C), 0.0), rows, tol=1e-3, max_iter=100_000)
    assert found.status == "optimal"
    assert found.n_iter < 20_000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of the first path
@pytest.mark.parametrize("seed", [0, 2])
def test_pairs_of_rows_that_are_equal_but_for_rounding(seed):
    """Neither does the solver without bias, whose rows are all alike under a wide kernel."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(800, 3))
    signs = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 + 0.5 * rng.normal(size=800) > 0.7, 1.0, -1.0)
    problem = svm_problem(signs, np.full(800, 1e4), 0.0)
    rows = kernel_rows(X, RBF(), 1e-6, 100)
    path = refined_path(solve_path(problem, [0.0], rows, tol=1e-5), rows, tol=1e-5)
    found = lower_bias(problem, path[0], rows, -1e-5, tol=1e-5, max_iter=100_000)
    assert found.status == "optimal"
    assert found.n_iter - path[0].n_iter < 20_000
