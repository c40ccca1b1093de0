"""The grid engine: every cell is what the oracle finds on its own, and nothing is kept."""

import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from openset.kernels import RBF, InverseMultiquadric, Linear, RationalQuadratic, TStudent
from openset.solver import (
    Batch,
    BatchSolver,
    Settings,
    decision_values,
    fixed_bias_problem,
    kernel_rows,
    one_class_problem,
    solve,
    solve_batches,
    svm_problem,
    tuned,
)
from openset.utils import thread_map

from .reference_solver import solve_reference

GAMMAS = [0.1, 20.0, 2.0]  # in no order; at the largest the kernel matrix is nearly the identity
LAMS = np.array([0.0, 0.1, 0.2, 0.5, 0.9])

# Room for 8, for 60 and for 120 rows of 60: on demand, a matrix, a matrix and its distances.
CACHE_SIZES = {"on demand": 0.002, "matrix": 0.02, "matrix and distances": 100}
memory = pytest.mark.parametrize("cache_size", CACHE_SIZES.values(), ids=CACHE_SIZES.keys())


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    return 0.8 * rng.normal(size=(3, 2))[y] + rng.normal(size=(60, 2)), y


def problems_of(y):
    """Problems of every kind with their totals: classes, boxes, held-out rows, one class."""
    rng = np.random.default_rng(1)
    problems = []
    for c in range(3):
        for C in (0.5, 10.0):
            signs = np.where(y == c, 1.0, -1.0)
            signs[c::5] = 0  # held out
            boxes = C * rng.uniform(0.5, 2, size=len(y))
            problems.append((svm_problem(signs, boxes, 0.0), LAMS))
    problems.append((svm_problem(np.where(y == 0, 1.0, -1.0), np.ones(60), 0.0), [0.3]))
    problems.append((one_class_problem(y == 1, 0.0), [0.05, 0.3, 0.7]))
    return [(problem, np.array(lams) * problem.upper.sum()) for problem, lams in problems]


def as_batches(problems, **more):
    """Each problem as a batch of one."""
    return [
        Batch(p.p[None], p.lower[None], p.upper[None], np.array(totals)[None], **more)
        for p, totals in problems
    ]


def run(X, kernel, gammas, problems, **settings):
    """All solutions of a grid, by index of gamma and problem."""
    batches = problems if problems and isinstance(problems[0], Batch) else as_batches(problems)
    found = solve_batches(X, kernel, gammas, batches, Settings(**settings))
    return {(solved.width, solved.batch): solved for some in found for solved in some}


@memory
@pytest.mark.parametrize("kernel", [RBF(), InverseMultiquadric(0.5)], ids=repr)
def test_every_cell_alone(data, kernel, cache_size):
    X, y = data
    problems = problems_of(y)
    paths = run(X, kernel, GAMMAS, problems, tol=1e-8, cache_size=cache_size)
    assert paths.keys() == {(g, k) for g in range(3) for k in range(len(problems))}
    for (g, k), path in paths.items():
        K = kernel.value(GAMMAS[g] * cdist(X, X, "sqeuclidean"))
        problem, totals = problems[k]
        assert np.all(path.kkt_gap <= 1e-8)
        assert_allclose(path.beta.sum(axis=1), totals, atol=1e-10)
        assert np.all(path.beta >= problem.lower) and np.all(path.beta <= problem.upper)
        size = problem.upper.max()
        for t, total in enumerate(totals):
            alone = solve_reference(replace(problem, total=total), K, tol=1e-8)
            beta = path.beta[t]
            objective = 0.5 * beta @ K @ beta - problem.p @ beta
            assert_allclose(objective, alone.objective, rtol=1e-6, atol=1e-8 * size)
            assert_allclose(path.objective[t], objective, rtol=1e-5, atol=1e-5 * size)
            low, high = alone.bias_interval
            slack = 1e-5 * max(1.0, size)
            assert low - slack <= path.bias[t] <= high + slack
            # Scores of all rows, those held out among them.
            f = K @ alone.beta + np.clip(path.bias[t], low, high)
            assert_allclose(path.scores[t], f, atol=slack)


@pytest.mark.parametrize("kernel", [RBF(), TStudent(1.0), RationalQuadratic(), Linear()], ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_held_out_scores_are_predictions(data, kernel, layout):
    X, y = data
    gammas = GAMMAS if kernel.decaying else [1.0]
    # Linear problems with large boxes converge slowly, and nothing here depends on it.
    problems = problems_of(y)[:6] if kernel.decaying else problems_of(y)[:6:2]
    paths = run(layout(X), kernel, gammas, problems, tol=1e-4)
    for (g, k), path in paths.items():
        held = np.flatnonzero(problems[k][0].p == 0)
        assert len(held) == 12
        for t in range(len(path.totals)):
            support = np.flatnonzero(path.beta[t])
            assert not np.isin(held, support).any()
            f = decision_values(
                layout(X)[held],
                layout(X)[support],
                path.beta[t][None, support],
                path.bias[t : t + 1],
                kernel,
                np.array([gammas[g]]),
            )
            assert_allclose(path.scores[t, held], f[:, 0], atol=2e-5 * np.abs(path.beta[t]).max())


def test_cells_are_the_same_with_any_memory(data):
    X, y = data
    whole = [kernel_rows(X, RBF(), GAMMAS, size).whole for size in CACHE_SIZES.values()]
    assert whole == [False, True, True]
    problems = problems_of(y)
    results = [
        run(X, RBF(), GAMMAS, problems, tol=1e-7, cache_size=size) for size in CACHE_SIZES.values()
    ]
    for cell, path in results[0].items():
        for other in results[1:]:
            size = max(1.0, path.problem.upper.max())
            assert_allclose(other[cell].scores, path.scores, atol=1e-5 * size)
            assert_allclose(other[cell].objective, path.objective, atol=1e-5 * size, rtol=1e-6)


@memory
@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
def test_threads_do_not_change_a_bit(data, cache_size, wide):
    X, y = data
    if wide:
        X = np.hstack([X, 0.1 * np.random.default_rng(2).normal(size=(60, 80))])
    problems = problems_of(y)
    first, *others = (
        run(X, RBF(), GAMMAS, problems, cache_size=cache_size, n_jobs=n_jobs)
        for n_jobs in (1, 2, 3)
    )
    for other in others:
        for cell, path in first.items():
            assert_array_equal(other[cell].beta, path.beta)
            assert_array_equal(other[cell].bias, path.bias)
            assert_array_equal(other[cell].n_iter, path.n_iter)


@memory
@pytest.mark.parametrize("equality", [True, False])
def test_a_batch_follows_another(data, cache_size, equality):
    """Boxes that grow by different factors, rows held out, other totals, another p."""
    X, y = data
    batches = as_batches([problem for problem in problems_of(y)[:6] for _ in range(2)])
    for k, batch in enumerate(batches):
        if not equality:
            batches[k] = batch._replace(p=batch.p + 0.1 * k, totals=None)
        elif k % 2:  # shares of other boxes
            batches[k] = batch._replace(totals=0.7 * batch.totals + 0.01)
    chained = [batch._replace(follows=k % 4 > 0) for k, batch in enumerate(batches)]
    settings = {"tol": 1e-8, "cache_size": cache_size}
    apart = run(X, RBF(), GAMMAS, batches, **settings)
    first, *others = (run(X, RBF(), GAMMAS, chained, n_jobs=n, **settings) for n in (1, 2, 3))
    for cell, path in first.items():
        assert np.all(path.kkt_gap <= 1e-8)
        size = max(1.0, path.problem.upper.max())
        assert_allclose(path.objective, apart[cell].objective, rtol=1e-6, atol=1e-6 * size)
        assert_allclose(path.scores, apart[cell].scores, atol=1e-5 * size)
        for other in others:
            assert_array_equal(other[cell].beta, path.beta)
            assert_array_equal(other[cell].scores, path.scores)


@pytest.mark.parametrize("kernel", [RBF(), TStudent(1.0), Linear()], ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("size", [100, 0.05])  # all parts together, and one part and width each
def test_parts_have_matrices_of_their_own(kernel, layout, size):
    rng = np.random.default_rng(3)
    y = np.arange(120) % 4
    X = 2 * rng.normal(size=(4, 70))[y] + rng.normal(size=(120, 70))
    parts = [np.sort(rng.permutation(120)[:n]) for n in (40, 60)]
    apart, whole = [], []
    for part in parts:
        outside = np.setdiff1d(np.arange(120), part)
        for c in range(4):
            problem = svm_problem(np.where(y[part] == c, 1.0, -1.0), np.full(len(part), 0.1), 0.0)
            problems = [(problem, np.array(LAMS) * problem.upper.sum())]
            apart += as_batches(problems, rows=part, scored=outside)
            signs = np.zeros(120)
            signs[part] = np.where(y[part] == c, 1.0, -1.0)
            problem = svm_problem(signs, np.full(120, 0.1), 0.0)
            whole += as_batches([(problem, problems[0][1])], scored=outside)
    gammas = [0.002, 0.01, 0.05] if kernel.decaying else [1.0]
    with tuned(part_solutions=4):
        found = run(layout(X), kernel, gammas, apart, tol=1e-8, cache_size=size)
    expected = run(layout(X), kernel, gammas, whole, tol=1e-8, cache_size=size)
    assert found.keys() == expected.keys()
    for (g, k), path in found.items():
        assert len(path.problem.p) == len(apart[k].rows)
        assert_allclose(path.scored, expected[g, k].scored, atol=2e-5)


@pytest.mark.parametrize("n_jobs", [1, 4])
@pytest.mark.parametrize("slice_seconds", [0.2, 0.0])  # no pause, and one after every few steps
@pytest.mark.parametrize(
    "memory", ["whole", "parts", "one width", "read by widths", "batch by batch"]
)
def test_scores_are_those_of_the_machines(n_jobs, slice_seconds, memory):
    rng = np.random.default_rng(4)
    y = np.arange(120) % 4
    X = rng.normal(size=(4, 5))[y] + rng.normal(size=(120, 5))
    parts = [np.sort(rng.permutation(120)[:n]) for n in (50, 60)]
    scored = [np.setdiff1d(np.arange(120), part)[::2] for part in parts]
    batches = []
    for part, outside in zip(parts, scored, strict=True):
        for C in (1.0, 8.0):
            signs = np.where(y[part] == np.arange(4)[:, None], 1.0, -1.0)
            problem = svm_problem(signs, np.full(len(part), C), 0.0)
            totals = LAMS * problem.upper.sum(axis=1, keepdims=True)
            batches.append(Batch(*three(problem), totals, part, outside))
    one = (values[:1] for values in batches[0][:4])
    batches.append(Batch(*one, parts[0], scored[0]))  # a batch of one
    gammas, settings = [0.1, 50.0, 1.0], Settings(tol=1e-4, n_jobs=n_jobs)
    tuning = {
        "whole": {"part_solutions": 10**9},
        "one width": {"widths_numbers": 1},
        "read by widths": {"read_at_once": 1},
        "batch by batch": {"swept_numbers": 1, "kept_solutions": 1},
    }
    with tuned(**{"part_solutions": 4, "slice_seconds": slice_seconds, **tuning.get(memory, {})}):
        machines = [s for some in solve_batches(X, RBF(), gammas, batches, settings) for s in some]
        lists = solve_batches(X, RBF(), gammas, batches, settings, keep="scores")
        found = [scores for some in lists for scores in some]
    expected = {(s.width, s.batch, s.index): s for s in machines}
    seen = [(g, s.batch, i) for s in found for g in s.widths for i in range(len(s.scores))]
    assert sorted(seen) == sorted(expected)
    for part in found:
        for w, g in enumerate(part.widths):
            for i in range(len(part.scores)):
                path = expected[g, part.batch, i]
                assert_array_equal(part.scores[i, w], path.scored)
                assert_array_equal(part.bias[w, i], path.bias)


def three(problem):
    return problem.p, problem.lower, problem.upper


@pytest.mark.parametrize("keep", ["scores", "machines"])
@pytest.mark.parametrize(
    "how", [{}, {"part_solutions": 10**9}, {"widths_numbers": 1}, {"swept_numbers": 1}, "on demand"]
)
def test_results_that_are_wanted_do_not_depend_on_others(how, keep):
    # Chains over C of two parts, as paths and with one total, in two calls of one solver.
    rng = np.random.default_rng(1)
    y = np.arange(120) % 4
    X = rng.normal(size=(4, 5))[y] + rng.normal(size=(120, 5))
    batches = []
    for part in (np.sort(rng.permutation(120)[:n]) for n in (50, 60)):
        outside = np.setdiff1d(np.arange(120), part)[::2]
        for C in (0.5, 4.0, 32.0):
            problem = svm_problem(np.where(y[part] == np.arange(4)[:, None], 1.0, -1.0), C, 0.0)
            totals = (LAMS if len(part) == 50 else LAMS[:1]) * problem.upper.sum(1, keepdims=True)
            batches.append(Batch(*three(problem), totals, part, outside, follows=C > 1))
    gammas = [0.1, 50.0, 1.0, 7.0]
    settings = Settings(1e-4, cache_size=0.001 if how == "on demand" else 1000)
    with tuned(**{"part_solutions": 4} | (how if isinstance(how, dict) else {"small": 0})):
        solver = BatchSolver(X, RBF(), gammas, batches, settings, keep=keep)
        whole = cells_of(solver.solve())
        for seed in range(8):
            wanted = np.random.default_rng(seed).random((6, 4)) < 0.3
            found = cells_of(solver.solve(wanted))
            assert found.keys() == {key for key in whole if wanted[key[:2]]}
            for key, arrays in found.items():
                for own, expected in zip(arrays, whole[key], strict=True):
                    assert_array_equal(own, expected)
    assert list(solver.solve(np.zeros((6, 4), dtype=bool))) == []


def cells_of(lists):
    """Scores and biases by batch, width and problem."""
    cells = {}
    for part in (part for some in lists for part in some):
        if not hasattr(part, "widths"):
            cells[part.batch, part.width, part.index] = part.scored, part.bias
        else:
            for w, g in enumerate(part.widths):
                for i in range(len(part.scores)):
                    cells[part.batch, g, i] = part.scores[i, w], part.bias[w, i]
    return cells


@memory
def test_scores_with_any_memory(data, cache_size):
    X, y = data
    scored = np.arange(0, 60, 7)
    batches = as_batches(problems_of(y), scored=scored)
    settings = Settings(1e-7, cache_size=cache_size)
    for some in solve_batches(X, RBF(), GAMMAS, batches, settings, keep="scores"):
        for part in some:
            for w, g in enumerate(part.widths):
                (path,) = run(X, RBF(), [GAMMAS[g]], [batches[part.batch]], tol=1e-7).values()
                size = 1e-5 * max(1.0, path.problem.upper.max())
                assert_allclose(part.scores[0, w], path.scores[:, scored], atol=size)


def test_samples_of_their_own(data):
    # Where nothing is scored outside of them, the other samples do not matter.
    X, y = data
    own = [np.flatnonzero(y == c) for c in range(3)]
    batches = []
    for rows in own:
        problem = one_class_problem(np.ones((1, len(rows)), dtype=bool), 0.3)
        batches.append(Batch(*three(problem), np.array([[5.0, 8.0]]), rows))
    found = run(X, RBF(), GAMMAS, batches, tol=1e-8, n_jobs=2)
    assert found.keys() == {(g, k) for g in range(3) for k in range(3)}
    for (g, k), path in found.items():
        alone = batches[k]._replace(rows=None)
        (expected,) = run(X[own[k]], RBF(), [GAMMAS[g]], [alone], tol=1e-8).values()
        assert_allclose(path.scores, expected.scores, atol=1e-6)


@memory
def test_problems_without_equality(data, cache_size):
    X, y = data
    held = fixed_bias_problem(svm_problem(np.where(y == 0, 1.0, -1.0), np.ones(60), 0.0), -0.3)
    batch = Batch(held.p[None], held.lower[None], held.upper[None], None)
    for (g, _), path in run(X, RBF(), GAMMAS, [batch], tol=1e-8, cache_size=cache_size).items():
        alone = solve_reference(held, np.exp(-GAMMAS[g] * cdist(X, X, "sqeuclidean")), tol=1e-8)
        assert path.bias.tolist() == [0.0]
        assert_allclose(path.scores[0], held.p - alone.v, atol=1e-5)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_scores_warn_as_machines_do(data, n_jobs):
    X, y = data
    batches, settings = as_batches(problems_of(y)[:6], scored=np.arange(60)), {"n_jobs": n_jobs}
    with pytest.warns(ConvergenceWarning, match=r"max_iter .* or tol"):
        hasty = Settings(tol=1e-9, max_iter=2, **settings)
        list(solve_batches(X, RBF(), GAMMAS, batches, hasty, keep="scores"))
    large = [batch._replace(totals=batch.totals + 1e3) for batch in batches]
    with pytest.raises(ValueError, match="total="):
        list(solve_batches(X, RBF(), [0.1], large, Settings(**settings), keep="scores"))


def test_widths_from_the_largest_problems_in_order(data):
    X, y = data
    problems = problems_of(y)[:3]
    for n_jobs in (1, 2):
        cells = list(run(X, RBF(), GAMMAS, problems, n_jobs=n_jobs))
        assert cells == [(g, k) for g in (1, 2, 0) for k in range(3)]


class Watched(Sequence):
    """Batches that say when they are asked for."""

    def __init__(self, batches):
        self.batches, self.asked = batches, []

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, j):
        self.asked.append(j)
        return self.batches[j]


@memory
def test_results_are_streamed(data, cache_size):
    # Batches are described again when it is their turn, and no solution stays in memory.
    X, y = data
    batches, alive = Watched(as_batches(problems_of(y)[:4])), []
    with tuned(kept_solutions=1):
        found = solve_batches(X, RBF(), [2.0], batches, Settings(cache_size=cache_size))
        for n, some in enumerate(found):
            if n == 0:
                assert len(batches.asked) <= 2 * len(batches) + 1  # seen once, and the first again
            assert all(solved() is None for solved in alive)
            (solved,) = some
            alive.append(weakref.ref(solved))
            assert solved.batch == n
            del solved, some


@memory
def test_a_bias_is_held(data, cache_size):
    X, y = data
    problems, settings = problems_of(y)[:2], Settings(1e-8, cache_size=cache_size, n_jobs=2)
    for some in solve_batches(X, RBF(), GAMMAS, as_batches(problems), settings, largest_bias=-0.9):
        for solved in some:
            above = np.flatnonzero(solved.bias > -0.9)
            assert (solved.held is not None) == (len(above) > 0)
            if not len(above):
                continue
            held = solved.held
            assert held.bias == -0.9
            rows = kernel_rows(X, RBF(), GAMMAS[solved.width], 10)
            problem = replace(problems[solved.batch][0], total=float(held.beta.sum()))
            assert_allclose(solve(problem, rows, tol=1e-8).objective, held.objective, rtol=1e-6)


def test_same_width_twice(data):
    X, y = data
    problems = problems_of(y)[:2]
    paths = run(X, RBF(), [1.0, 1.0], problems, tol=1e-7)
    for k in range(2):
        assert_allclose(paths[0, k].scores, paths[1, k].scores, atol=1e-4)


def test_no_problems(data):
    assert run(data[0], RBF(), GAMMAS, []) == {}


# --- stopping, and errors -------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_max_iter_warns(data, n_jobs):
    X, y = data
    problems = problems_of(y)[:3]
    with pytest.warns(ConvergenceWarning, match=r"max_iter .* or tol"):
        paths = run(X, RBF(), [0.1, 1.0], problems, tol=1e-9, max_iter=2, n_jobs=n_jobs)
    for path in paths.values():
        assert np.all(path.n_iter <= 2)
        assert_allclose(path.beta.sum(axis=1), path.totals, atol=1e-10)


class Broken(Watched):
    def __getitem__(self, j):
        if len(self.asked) > len(self):
            raise KeyError("mine")
        return super().__getitem__(j)


@memory
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_errors_of_the_caller_come_through(data, n_jobs, cache_size):
    X, y = data
    batches, settings = Broken(as_batches(problems_of(y))), Settings(1e-3, -1, cache_size, n_jobs)
    with pytest.raises(KeyError, match="mine"):
        list(solve_batches(X, RBF(), GAMMAS, batches, settings))


@memory
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_grid_may_be_left_early(data, n_jobs, cache_size):
    X, y = data
    list(thread_map(abs, range(n_jobs), n_jobs))  # idle threads are kept for the next run
    before = threading.active_count()
    settings = Settings(n_jobs=n_jobs, cache_size=cache_size)
    grid = solve_batches(X, RBF(), GAMMAS, as_batches(problems_of(y)), settings)
    next(grid)
    grid.close()
    assert threading.active_count() == before


def test_a_batch_that_cannot_follow(data):
    X, y = data
    first, second = as_batches(problems_of(y)[:2])
    fewer = second._replace(totals=second.totals[:, :2])
    for batches in ([first._replace(follows=True)], [first, fewer._replace(follows=True)]):
        with pytest.raises(ValueError, match="follows=False"):
            list(solve_batches(X, RBF(), GAMMAS, batches))


def test_unknown_device(data):
    with pytest.raises(ValueError, match="device='tpu'"):
        run(data[0], RBF(), GAMMAS, [], device="tpu")


def test_total_out_of_range(data):
    X, y = data
    problem = svm_problem(np.where(y == 0, 1.0, -1.0), np.ones(60), 0.0)
    with pytest.raises(ValueError, match=r"total=.*20\.5"):
        run(X, RBF(), [1.0], [(problem, np.array([20.5]))])
