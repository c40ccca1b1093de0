"""The grid engine: every cell is what the oracle finds on its own, and nothing is kept."""

import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from openset.kernels import RBF, InverseMultiquadric, Linear, RationalQuadratic, TStudent
from openset.solver import (
    Group,
    Interrupted,
    Problem,
    decision_values,
    kernel_rows,
    lower_bias,
    one_class_problem,
    solve,
    solve_grid,
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


def together(problems, groups):
    """The problems of each group as one."""

    def problems_of(j):
        own = [problems[k] for k in groups[j].problems]
        arrays = (
            [getattr(problem, name) for problem, _ in own] for name in ("p", "lower", "upper")
        )
        return Problem(*map(np.stack, arrays), 0.0), np.stack([totals for _, totals in own])

    return problems_of


def run(X, kernel, gammas, problems, reduce=lambda k, path, rows: path, **settings):
    """All results of a grid, by index of gamma and problem."""
    return {
        (g, k): result
        for g, k, result in solve_grid(
            X, kernel, gammas, len(problems), problems.__getitem__, reduce, **settings
        )
    }


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


@pytest.mark.parametrize("kernel", [RBF(), TStudent(1.0), Linear()], ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("size", [100, 0.05])  # all parts together, and one part and width each
def test_parts_have_matrices_of_their_own(kernel, layout, size):
    rng = np.random.default_rng(3)
    y = np.arange(120) % 4
    X = 2 * rng.normal(size=(4, 70))[y] + rng.normal(size=(120, 70))
    parts = [np.sort(rng.permutation(120)[:n]) for n in (40, 60)]
    problems, part_of = [], []
    for s, part in enumerate(parts):
        for c in range(4):
            signs = np.zeros(120)
            signs[part] = np.where(y[part] == c, 1.0, -1.0)
            problem = svm_problem(signs, np.full(120, 0.1), 0.0)
            problems.append((problem, np.array(LAMS) * problem.upper.sum()))
            part_of.append(s)
    gammas = [0.002, 0.01, 0.05] if kernel.decaying else [1.0]
    settings = {"tol": 1e-8, "cache_size": size}

    def scores(k, path, rows):
        outside = np.setdiff1d(np.arange(120), parts[part_of[k]])
        ones = np.ones(len(path.totals))
        return path.scores_at(outside, ones, 0 * ones), len(path.problem.p)

    with tuned(part_solutions=4):
        found = run(
            layout(X), kernel, gammas, problems, scores, parts=parts, part_of=part_of, **settings
        )
    whole = run(layout(X), kernel, gammas, problems, scores, **settings)
    assert found.keys() == whole.keys()
    for (g, k), (values, n) in found.items():
        assert n == len(parts[part_of[k]])
        assert_allclose(values, whole[g, k][0], atol=2e-5)


@pytest.mark.parametrize("n_jobs", [1, 4])
@pytest.mark.parametrize("slice_seconds", [0.2, 0.0])  # no pause, and one after every few steps
@pytest.mark.parametrize("memory", ["whole", "parts", "one width", "read by widths"])
def test_groups_have_the_scores_of_their_paths(n_jobs, slice_seconds, memory):
    rng = np.random.default_rng(4)
    y = np.arange(120) % 4
    X = rng.normal(size=(4, 5))[y] + rng.normal(size=(120, 5))
    parts = [np.sort(rng.permutation(120)[:n]) for n in (50, 60)]
    scored = [np.setdiff1d(np.arange(120), part)[::2] for part in parts]
    problems, part_of, groups = [], [], []
    for s, part in enumerate(parts):
        for C in (1.0, 8.0):
            groups.append(Group(list(range(len(problems), len(problems) + 4)), scored[s]))
            for c in range(4):
                signs = np.zeros(120)
                signs[part] = np.where(y[part] == c, 1.0, -1.0)
                problem = svm_problem(signs, np.full(120, C), 0.0)
                problems.append((problem, LAMS * problem.upper.sum()))
                part_of.append(s)
    groups.append(Group([len(problems)], scored[0]))  # a group of one
    problems.append(problems[0])
    part_of.append(0)
    gammas = [0.1, 50.0, 1.0]
    arguments = X, RBF(), gammas, len(problems), problems.__getitem__
    settings: dict = {"tol": 1e-4, "n_jobs": n_jobs}
    if memory == "parts":
        settings |= {"parts": parts, "part_of": part_of}
    tuning = {"one width": {"widths_numbers": 1}, "read by widths": {"read_at_once": 1}}

    def reduce(k, path, rows):
        ones = np.ones(len(LAMS))
        return path.scores_at(scored[part_of[k]], ones, 0 * ones), path.bias.copy()

    def reduce_group(j, which, scores, biases):
        return j, which, scores.copy(), biases.copy()

    with tuned(part_solutions=4, slice_seconds=slice_seconds, **tuning.get(memory, {})):
        paths = {(g, k): found for g, k, found in solve_grid(*arguments, reduce, **settings)}
        settings |= {"groups": groups, "reduce_group": reduce_group}
        settings["problems_of"] = together(problems, groups)
        found = [result for _, _, result in solve_grid(*arguments, reduce, **settings)]
    seen = [(g, k) for j, which, *_ in found for g in which for k in groups[j].problems]
    assert sorted(seen) == sorted(paths)
    for j, which, scores, biases in found:
        for w, g in enumerate(which):
            for n, k in enumerate(groups[j].problems):
                assert_array_equal(scores[n, w], paths[g, k][0])
                assert_array_equal(biases[w, n], paths[g, k][1])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_groups_stop_and_warn_as_paths_do(data, n_jobs):
    X, y = data
    problems = problems_of(y)[:6]
    groups = [Group([k], np.arange(60)) for k in range(6)]

    def run_groups(problems=problems, gammas=GAMMAS, **settings):
        arguments = X, RBF(), gammas, 6, problems.__getitem__, None
        results = {"groups": groups, "reduce_group": lambda *found: None}
        results["problems_of"] = together(problems, groups)
        list(solve_grid(*arguments, n_jobs=n_jobs, **results, **settings))

    with pytest.warns(ConvergenceWarning, match=r"max_iter .* or tol"):
        run_groups(tol=1e-9, max_iter=2)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        run_groups(stop=stop)
    too_large = [(problem, totals + 1e3) for problem, totals in problems]
    with pytest.raises(ValueError, match="total="):
        run_groups(too_large, [0.1])


def test_widths_from_the_largest_problems_in_order(data):
    X, y = data
    problems = problems_of(y)[:3]
    for n_jobs in (1, 2):
        cells = list(run(X, RBF(), GAMMAS, problems, n_jobs=n_jobs))
        assert cells == [(g, k) for g in (1, 2, 0) for k in range(3)]


def test_results_are_streamed(data):
    # Nothing is computed before it is asked for, and no path outlives its reduction.
    X, y = data
    problems = problems_of(y)
    paths = []

    def reduce(k, path, rows):
        paths.append(weakref.ref(path))
        return k, path.totals.tolist()

    for n, (_, k, result) in enumerate(
        solve_grid(X, RBF(), GAMMAS, len(problems), problems.__getitem__, reduce), start=1
    ):
        assert len(paths) == n
        assert result == (k, problems[k][1].tolist())
        assert all(path() is None for path in paths)


def test_reduce_may_solve_on(data):
    X, y = data
    problems = problems_of(y)[:2]

    def reduce(k, path, rows):
        return lower_bias(path.problem, path[0], rows, path.bias[0] - 0.2, tol=1e-8)

    for (g, k), found in run(X, RBF(), GAMMAS, problems, reduce, tol=1e-8, n_jobs=2).items():
        rows = kernel_rows(X, RBF(), GAMMAS[g], 10)
        problem = replace(problems[k][0], total=float(found.beta.sum()))
        assert_allclose(solve(problem, rows, tol=1e-8).objective, found.objective, rtol=1e-6)


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


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_stop_from_outside(data, n_jobs):
    X, y = data
    problems = problems_of(y)
    stop = threading.Event()
    grid = solve_grid(
        X,
        RBF(),
        GAMMAS,
        len(problems),
        problems.__getitem__,
        lambda k, path, rows: path,
        tol=1e-9,
        n_jobs=n_jobs,
        cache_size=1e-9,
        stop=stop,
    )
    next(grid)
    stop.set()
    with pytest.raises(Interrupted):
        list(grid)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("where", ["problem", "reduce"])
def test_errors_of_the_caller_come_through(data, where, n_jobs):
    X, y = data
    problems = problems_of(y)

    def problem_of(k):
        if where == "problem" and k == 1:
            raise KeyError("mine")
        return problems[k]

    def reduce(k, path, rows):
        if where == "reduce" and k == 1:
            raise KeyError("mine")

    grid = solve_grid(X, RBF(), GAMMAS, len(problems), problem_of, reduce, n_jobs=n_jobs)
    assert next(grid)[:2] == (1, 0)
    with pytest.raises(KeyError, match="mine"):
        next(grid)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_grid_may_be_left_early(data, n_jobs):
    X, y = data
    problems = problems_of(y)
    list(thread_map(abs, range(n_jobs), n_jobs))  # idle threads are kept for the next run
    before = threading.active_count()
    grid = solve_grid(
        X, RBF(), GAMMAS, 8, problems.__getitem__, lambda k, path, rows: k, n_jobs=n_jobs
    )
    next(grid)
    grid.close()
    assert threading.active_count() == before


def test_unknown_device(data):
    with pytest.raises(ValueError, match="device='tpu'"):
        run(data[0], RBF(), GAMMAS, [], device="tpu")


def test_total_out_of_range(data):
    X, y = data
    problem = svm_problem(np.where(y == 0, 1.0, -1.0), np.ones(60), 0.0)
    with pytest.raises(ValueError, match=r"total=.*20\.5"):
        run(X, RBF(), [1.0], [(problem, np.array([20.5]))])
