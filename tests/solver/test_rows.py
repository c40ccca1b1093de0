"""Kernel rows: right numbers by every route, and the same answers whatever the memory."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from openset.kernels import RBF, InverseMultiquadric, Linear, RationalQuadratic, TStudent
from openset.solver import Problem, fixed_bias_problem, kernel_rows, solve, svm_problem, tuned

TINY = 1e-9  # MB: the fewest rows that the solver can work with
KERNELS = [RBF(), TStudent(1.0), RationalQuadratic(0.1), InverseMultiquadric(0.3)]


@pytest.fixture
def stop():
    """Turns a solver that never ends into a failure."""
    event = threading.Event()
    timer = threading.Timer(60, event.set)
    timer.start()
    yield event
    timer.cancel()


def all_rows(rows):
    """The kernel matrix, a few rows at a time."""
    m = len(rows.store.diagonal)
    K = np.empty((m, m), dtype=np.float32)
    for i in range(m):
        with rows.reading(np.array([i])):
            K[i] = rows.store.rows[rows.store.slot[i]]
    return K


def two_classes(m, d, seed=0):
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(m) % 3 == 0, 1.0, -1.0)
    return rng.normal(size=(m, d)) + 0.3 * signs[:, None], signs


def decision_values(problem, rows, **settings):
    solution = solve(problem, rows, tol=1e-8, **settings)
    return problem.p - solution.v + solution.bias


# --- the numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cache_size", [100, TINY], ids=["whole", "on demand"])
@pytest.mark.parametrize("layout", ["narrow", "wide", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: type(k).__name__)
def test_values(kernel, layout, cache_size):
    X, _ = two_classes(150, 100 if layout == "wide" else 6)
    X[50:60] = X[:10]
    gamma = 1 / X.shape[1]
    rows = kernel_rows(sparse.csr_array(X) if layout == "sparse" else X, kernel, gamma, cache_size)
    expected = kernel.value(gamma * cdist(X, X, "sqeuclidean"))
    K = all_rows(rows)
    assert np.abs(K - expected).max() < (5e-6 if layout == "wide" else 1e-6)
    assert np.all(K.diagonal() == 1)
    assert np.all(rows.store.diagonal == 1)


@pytest.mark.parametrize("gamma", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("d", [3, 64, 65, 500])
def test_values_at_every_width_of_the_kernel(d, gamma):
    rng = np.random.default_rng(d)
    X = rng.random((120, d))
    X[60:] = X[:60] + 0.3 * rng.normal(size=(60, d)) / np.sqrt(d * max(gamma, 1.0))
    K = all_rows(kernel_rows(X, RBF(), gamma, 1))
    error = np.abs(K - np.exp(-gamma * cdist(X, X, "sqeuclidean"))).max()
    assert error < (1e-6 if d <= 64 else 5e-6)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_linear_values(layout):
    X, _ = two_classes(80, 5)
    rows = kernel_rows(layout(X), Linear(), 1.0, 1)
    assert np.allclose(all_rows(rows), X @ X.T, rtol=1e-6, atol=1e-6)
    assert np.allclose(rows.store.diagonal, (X * X).sum(axis=1), rtol=1e-6)


def test_other_width():
    X, _ = two_classes(90, 4)
    distances = cdist(X, X, "sqeuclidean")
    gammas = [0.5, 8.0, 0.01]
    for cache_size in (1, TINY):
        rows = kernel_rows(X, RBF(), gammas, cache_size)
        assert np.abs(all_rows(rows) - np.exp(-0.5 * distances)).max() < 1e-6
        for gamma in reversed(gammas):
            rows.use(gamma)
            assert np.abs(all_rows(rows) - np.exp(-gamma * distances)).max() < 1e-6


# --- the same solution by every route -------------------------------------------------------------


def test_sparse_and_dense_agree():
    X, signs = two_classes(120, 30)
    X[np.abs(X) < 0.8] = 0.0
    problem = svm_problem(signs, np.full(120, 2.0), 0.2)
    dense = decision_values(problem, kernel_rows(X, RBF(), 0.05, 1))
    csr = decision_values(problem, kernel_rows(sparse.csr_array(X), RBF(), 0.05, 1))
    assert np.abs(dense - csr).max() < 1e-5


@pytest.mark.parametrize("gamma", [0.002, 0.02, 0.2])
def test_narrow_and_wide_agree(gamma):
    X, signs = two_classes(120, 64)
    problem = svm_problem(signs, np.full(120, 2.0), 0.2)
    narrow = decision_values(problem, kernel_rows(X, RBF(), gamma, 1))
    # A constant column changes no distance.
    wide = np.column_stack([X, np.full(120, 3.0)])
    assert (
        np.abs(decision_values(problem, kernel_rows(wide, RBF(), gamma, 1)) - narrow).max() < 1e-5
    )


@pytest.mark.parametrize("d", [8, 80])
def test_mean_1000_changes_nothing(d):
    X, signs = two_classes(150, d)
    problem = svm_problem(signs, np.full(150, 2.0), 0.2)
    centred = decision_values(problem, kernel_rows(X, RBF(), 1 / d, 1))
    shifted = decision_values(problem, kernel_rows(X + 1000.0, RBF(), 1 / d, 1))
    csr = decision_values(problem, kernel_rows(sparse.csr_array(X + 1000.0), RBF(), 1 / d, 1))
    assert np.abs(shifted - centred).max() < 1e-5
    assert np.abs(csr - centred).max() < 1e-5


# --- little memory --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_slots", [2, 5, 19, 40])
@pytest.mark.parametrize("d", [5, 70], ids=["narrow", "wide"])
@pytest.mark.parametrize("lam", [0.0, 0.5, None])
def test_small_cache_and_whole_matrix_agree(d, n_slots, lam, stop):
    m = 140
    X, signs = two_classes(m, d)
    problem = svm_problem(signs, np.full(m, 2.0), lam or 0.0)
    if lam is None:
        problem = fixed_bias_problem(problem, -0.3)
    whole = kernel_rows(X, RBF(), 1 / d, 100)
    # Besides its slots, a cache has room for a part: a seventh of them, or a fifth of the samples.
    room = n_slots * m + min(n_slots * m // 7, (m // 5) ** 2)
    small = kernel_rows(X, RBF(), 1 / d, room * 4 / 2**20)
    assert len(whole.store.rows) == m
    assert len(small.store.rows) == max(n_slots, 2 if d == 5 else min(m, 128))
    expected = decision_values(problem, whole)
    assert np.abs(decision_values(problem, small, stop=stop) - expected).max() < 1e-5


def test_one_row(stop):
    rows = kernel_rows(np.zeros((1, 2)), RBF(), 1.0, TINY)
    held = Problem(np.array([0.25]), np.zeros(1), np.ones(1), None)
    assert solve(held, rows, tol=1e-6, stop=stop).beta.tolist() == [0.25]


def test_rows_never_filled_do_no_harm():
    X, signs = two_classes(60, 3)
    plain = svm_problem(signs, np.ones(60), 0.0)
    for problem in (plain, fixed_bias_problem(plain, -0.3)):
        expected = solve(problem, kernel_rows(X, RBF(), 0.5, 1), tol=1e-6)
        rows = kernel_rows(X, RBF(), 0.5, TINY)
        rows.store.rows[:] = np.nan  # fresh memory may hold anything
        assert solve(problem, rows, tol=1e-6).objective == pytest.approx(expected.objective)


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_slots", [2, 7, 60])
@pytest.mark.parametrize("layout", ["narrow", "wide", "sparse", "linear"])
def test_threads_do_not_change_a_bit(layout, n_slots, stop):
    m, d = 140, 80 if layout == "wide" else 4
    X, signs = two_classes(m, d)
    X = sparse.csr_array(X) if layout == "sparse" else X
    kernel = Linear() if layout == "linear" else RBF()
    rng = np.random.default_rng(1)
    problems = [svm_problem(rng.permutation(signs), np.ones(m), lam) for lam in (0, 0.3, 0.6)]
    problems.append(fixed_bias_problem(problems[0], -0.5))
    cache_size = n_slots * 4 * m / 2**20

    def train(problem, rows):
        return solve(problem, rows, tol=1e-3, max_iter=250, stop=stop)

    alone = [train(problem, kernel_rows(X, kernel, 1 / d, cache_size)) for problem in problems]
    rows = kernel_rows(X, kernel, 1 / d, cache_size)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda problem: train(problem, rows), problems))
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one.beta, other.beta)
        assert np.array_equal(one.v, other.v)
        assert (one.bias, one.n_iter) == (other.bias, other.n_iter)


def test_cached_rows_do_not_change_a_bit_of_a_sum():
    rng = np.random.default_rng(0)
    X, index, coef = rng.normal(size=(2100, 3)), np.arange(0, 2100, 7), rng.normal(size=300)
    sums = []
    for cached in (0, 1, 2, 5):
        rows = kernel_rows(X, RBF(), 0.5, 10.0)
        if cached:
            with rows.reading(index[::cached]):
                pass
        sums.append(np.zeros(2100))
        rows.subtract(sums[-1], index, coef, keep=False)
    K = RBF().value(0.5 * cdist(X, X[index], "sqeuclidean"))
    np.testing.assert_allclose(sums[0], -K @ coef, atol=1e-4)
    for other in sums[1:]:
        np.testing.assert_array_equal(other, sums[0])


def test_a_thread_that_needs_room_is_served():
    X, _ = two_classes(100, 3)
    rows = kernel_rows(X, RBF(), 0.5, 23 * 4 * 100 / 2**20)
    assert len(rows.store.rows) == 20
    with rows.reading(np.arange(20)):
        pass
    finished = threading.Event()

    def come_and_go():
        while not finished.is_set():
            with rows.reading(np.arange(0)):
                time.sleep(0.005)

    def ask():
        with rows.reading(np.arange(50, 60)):
            return bool(np.all(rows.store.slot[50:60] >= 0))

    with ThreadPoolExecutor(4) as pool:
        busy = [pool.submit(come_and_go) for _ in range(3)]
        try:
            assert pool.submit(ask).result(timeout=10)
        finally:
            finished.set()
        for future in busy:
            future.result(timeout=10)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("cache_size", [1.0, 10.0, 100.0])
def test_rows_and_parts_keep_to_the_budget(cache_size, n_jobs):
    X, _ = two_classes(3000, 4)
    rows = kernel_rows(X, RBF(), 0.5, cache_size, n_jobs=n_jobs)
    part = rows.subset(np.arange(600))
    # One part is in the budget; other threads have parts of their own. So `n_jobs` changes nothing.
    taken = rows.store.rows.nbytes + part.store.rows.nbytes
    assert 0.7 * min(cache_size * 2**20, 4 * 3000**2) <= taken <= cache_size * 2**20
    alone = kernel_rows(X, RBF(), 0.5, cache_size, n_jobs=1)
    assert type(alone) is type(rows)
    assert alone.store.rows.shape == rows.store.rows.shape


# --- a part of the rows ---------------------------------------------------------------------------


class Watched:
    """Kernel rows that record the sizes of their subsets, and of the subsets of those."""

    def __init__(self, rows, sizes):
        self._rows, self._sizes = rows, sizes

    def __getattr__(self, name):
        return getattr(self._rows, name)

    def subset(self, index):
        self._sizes.append(len(index))
        return Watched(self._rows.subset(index), self._sizes)


@pytest.mark.parametrize("cache_size", [100, TINY], ids=["whole", "on demand"])
@pytest.mark.parametrize("layout", ["narrow", "wide", "sparse", "linear"])
def test_subset(layout, cache_size):
    X, _ = two_classes(150, 100 if layout == "wide" else 6)
    kernel = Linear() if layout == "linear" else RBF()
    gammas = [2.0, 0.1] if kernel.decaying else [1.0]
    rows = kernel_rows(sparse.csr_array(X) if layout == "sparse" else X, kernel, gammas, cache_size)
    rows.use(gammas[-1])
    index = np.flatnonzero(np.arange(150) % 3 == 1)
    part = rows.subset(index)
    np.testing.assert_array_equal(part.store.diagonal, rows.store.diagonal[index])
    np.testing.assert_allclose(all_rows(part), all_rows(rows)[np.ix_(index, index)], atol=2e-6)


@pytest.mark.parametrize("cache_size", [100, 1], ids=["whole", "on demand"])
@pytest.mark.parametrize("layout", ["narrow", "wide"])
@pytest.mark.parametrize("kind", ["svm", "open set", "fixed bias"])
def test_shrinking_changes_nothing(kind, layout, cache_size):
    X, signs = two_classes(900, 100 if layout == "wide" else 6)
    X[signs > 0] += 0.5
    gamma = 1 / X.shape[1]
    problem = svm_problem(signs, np.ones(900), 0.2 if kind == "open set" else 0.0)
    if kind == "fixed bias":
        problem = fixed_bias_problem(problem, -0.1)
    sizes = []
    with tuned(small_share=0.9):
        rows = Watched(kernel_rows(X, RBF(), gamma, cache_size), sizes)
        shrunk = solve(problem, rows, tol=1e-4)
    # Parts of a whole matrix are made by compiled code, those of wide rows on demand here.
    assert rows.whole or (sizes and min(sizes) < 700)
    with tuned(small_share=0.0):
        plain = solve(problem, kernel_rows(X, RBF(), gamma, cache_size), tol=1e-4)
    assert shrunk.status == "optimal"
    # v of every row, also of those left out, is that of the multipliers.
    K = RBF().value(gamma * cdist(X, X, "sqeuclidean"))
    np.testing.assert_allclose(shrunk.v, problem.p - K @ shrunk.beta, atol=1e-5)
    assert shrunk.objective == pytest.approx(plain.objective, rel=1e-6)
    np.testing.assert_allclose(shrunk.v, plain.v, atol=1e-3)
    if problem.total is not None:
        assert shrunk.beta.sum() == pytest.approx(problem.total, abs=1e-9)
