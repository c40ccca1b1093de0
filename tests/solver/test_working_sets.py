"""Wide data whose kernel matrix does not fit: working sets change neither answer nor bits."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from openset.kernels import RBF
from openset.solver import fixed_bias_problem, kernel_rows, solve, svm_problem, tuned

M, D, GAMMA = 2400, 80, 1 / 80
SMALL = 8.0  # MB, of 22 for all rows


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    classes = np.arange(M) % 8
    X = rng.normal(size=(M, D)) + 0.6 * rng.normal(size=(8, D))[classes]
    return X, classes, RBF().value(GAMMA * cdist(X, X, "sqeuclidean"))


def problem_of(kind, classes, c=0):
    signs = np.where(classes == c, 1.0, -1.0)
    lam = 0.3 if kind == "open set" else 0.0
    problem = svm_problem(signs, np.full(M, 4.0), lam)
    return fixed_bias_problem(problem, -0.5) if kind == "fixed bias" else problem


class Watched:
    """Kernel rows that record the sizes of their subsets."""

    def __init__(self, rows):
        self.rows, self.sizes = rows, []

    def __getattr__(self, name):
        return getattr(self.rows, name)

    def subset(self, index):
        self.sizes.append(len(index))
        return self.rows.subset(index)


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ["svm", "open set", "fixed bias"])
def test_same_answer_as_the_whole_matrix(kind, layout, tol, data):
    X, classes, K = data
    problem = problem_of(kind, classes)
    points = sparse.csr_array(X) if layout == "sparse" else X
    rows = Watched(kernel_rows(points, RBF(), GAMMA, SMALL))
    assert not rows.whole
    with tuned(working=100):
        found = solve(problem, rows, tol=tol)
    assert found.status == "optimal"
    assert rows.sizes and max(rows.sizes) < M / 4
    whole = kernel_rows(X, RBF(), GAMMA, 100, n_solutions=1000)
    assert whole.whole
    expected = solve(problem, whole, tol=tol)
    assert found.objective == pytest.approx(expected.objective, abs=tol * np.abs(found.beta).sum())
    # The conditions hold in float64 over all rows, not only over those that were ever looked at.
    v = problem.p - K @ found.beta
    np.testing.assert_allclose(found.v, v, atol=1e-5)
    top, bottom = v[found.beta < problem.upper].max(), v[found.beta > problem.lower].min()
    gap = top - bottom if problem.total is not None else 2 * max(top, -bottom)
    assert gap < tol + 2e-5
    if problem.total is not None:
        assert found.beta.sum() == pytest.approx(problem.total, abs=1e-9)


@pytest.mark.parametrize("kind", ["svm", "open set"])
def test_rows_in_memory_and_threads_do_not_change_a_bit(kind, data):
    X, classes, _ = data
    problems = [problem_of(kind, classes, c) for c in range(4)]
    alone = [solve(p, kernel_rows(X, RBF(), GAMMA, SMALL), tol=1e-3) for p in problems]
    rows = kernel_rows(X, RBF(), GAMMA, SMALL)
    with rows.reading(np.arange(0, M, 20)):
        pass
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda p: solve(p, rows, tol=1e-3), problems))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.beta, other.beta)
        np.testing.assert_array_equal(one.v, other.v)
        assert one.n_iter == other.n_iter


def test_limits_are_kept(data):
    X, classes, _ = data
    problem = problem_of("svm", classes)
    with pytest.warns(UserWarning, match="stopped after 150 iterations"):
        found = solve(problem, kernel_rows(X, RBF(), GAMMA, SMALL), tol=1e-3, max_iter=150)
    assert (found.n_iter, found.status) == (150, "max_iter")


@pytest.mark.parametrize("rounds", [0, 1])
def test_pairs_take_over(rounds, data):
    X, classes, K = data
    problem = problem_of("svm", classes)
    with tuned(working_rounds=rounds):
        found = solve(problem, kernel_rows(X, RBF(), GAMMA, SMALL), tol=1e-3)
    v = problem.p - K @ found.beta
    gap = v[found.beta < problem.upper].max() - v[found.beta > problem.lower].min()
    assert found.status == "optimal"
    assert gap < 1.1e-3


@pytest.mark.parametrize("cache_size", [100, SMALL], ids=["whole", "on demand"])
def test_close_points_far_from_the_centre(cache_size):
    # Groups of close points whose norms are so large that float32 products say nothing about
    # their distances.
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(M // 6, D)) * rng.choice([1, 30], size=(M // 6, 1))
    X = np.repeat(centres, 6, axis=0) + 0.05 * rng.normal(size=(M, D))
    rows = kernel_rows(X, RBF(), 1.0, cache_size, n_solutions=1000)
    index = np.arange(0, M, 7)
    exact = RBF().value(cdist(X[index], X, "sqeuclidean"))
    with rows.reading(index[:100]):
        made = rows.store.rows[rows.store.slot[index[:100]]]
    np.testing.assert_allclose(made, exact[:100], atol=5e-6)
    np.testing.assert_allclose(rows.values(index, np.arange(M)), exact, atol=5e-6)
    assert rows._values.dtype is np.float32
