"""Wide data whose kernel matrix does not fit: working sets find the same solutions."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from openset.kernels import RBF, TStudent
from openset.solver import Interrupted, kernel_rows, solve_grid, svm_problem, tuned
from openset.solver import _working_sets as working_sets

GAMMA, C, TOL = 0.02, 4.0, 1e-4
RBF_KERNEL = RBF()


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 6
    return 0.6 * rng.normal(size=(6, 80))[y] + rng.normal(size=(300, 80)), y


def run(X, y, kernel=RBF_KERNEL, cache_size=0.05, lam=0.1, stop=None, **settings):
    def problem_of(k):
        problem = svm_problem(np.where(y == k, 1.0, -1.0), np.full(len(y), C), 0.0)
        return problem, np.array([lam * problem.upper.sum()])

    assert kernel_rows(X, kernel, GAMMA, cache_size, 6).whole == (cache_size > 1)
    with tuned(working_problems=6):
        found = solve_grid(
            X,
            kernel,
            [GAMMA],
            6,
            problem_of,
            lambda k, path, rows: path,
            tol=TOL,
            cache_size=cache_size,
            stop=stop,
            **settings,
        )
        return {k: path for _, k, path in found}


@pytest.fixture
def small_sets(monkeypatch):
    """Small first sets, so that samples have to join and to leave."""
    monkeypatch.setattr(working_sets, "_NEAR", 1)
    monkeypatch.setattr(working_sets, "_JOIN", 10)


@pytest.mark.parametrize("kernel", [RBF(), TStudent(1.0)], ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("lam", [0.0, 0.2])
def test_same_solutions(data, kernel, layout, lam, small_sets):
    X, y = data
    found = run(layout(X), y, kernel, lam=lam)
    whole = run(layout(X), y, kernel, cache_size=100, lam=lam)
    K = kernel.value(GAMMA * cdist(X, X, "sqeuclidean"))
    assert sorted(found) == list(range(6))
    for k, path in found.items():
        assert path.kkt_gap[0] <= TOL
        assert_allclose(path.objective, whole[k].objective, rtol=1e-5)
        assert_allclose(path.scores, whole[k].scores, atol=20 * TOL)
        assert_allclose(path.problem.p - path.v[0], K @ path.beta[0], atol=1e-4)
        assert_allclose(path.beta.sum(), path.totals[0], atol=1e-9)


def test_threads_and_groups_do_not_change_a_bit(data, small_sets):
    X, y = data
    one = run(X, y)
    three = run(X, y, n_jobs=3)
    with tuned(working_numbers=4 * len(y)):  # four problems at a time
        grouped = run(X, y)
    for k, path in one.items():
        assert_array_equal(three[k].beta, path.beta)
        assert_array_equal(grouped[k].beta, path.beta)


def test_max_iter_and_stop(data):
    X, y = data
    with pytest.warns(UserWarning, match="max_iter"):
        found = run(X, y, max_iter=5)
    assert all(path.n_iter[0] <= 5 for path in found.values())
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        run(X, y, stop=stop)
