"""The CUDA engine in Numba's simulator, against the CPU engine.

The simulator is chosen when numba is imported, so each test runs in its own process.
"""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)

SETUP = """
    import numpy as np
    from openset.kernels import RBF, Linear, RationalQuadratic
    from openset.solver import decision_values, one_class_problem, svdd_problem
    from openset.solver import Batch, Settings, solve_batches
    from openset.solver import svm_problem, tuned

    rng = np.random.default_rng(0)
    m = 16
    X = rng.normal(size=(m, 3))
    y = rng.integers(0, 3, m)

    def svm(k):
        signs = np.where(y == k, 1.0, -1.0)
        signs[-2:] = 0.0  # held out
        problem = svm_problem(signs, rng_boxes, 0.0)
        return problem, np.array([0.0, 0.2, 0.5]) * problem.upper.sum()

    rng_boxes = rng.uniform(0.5, 2.0, m)

    def one_batch(problem, totals, *more):
        return Batch(problem.p[None], problem.lower[None], problem.upper[None], totals[None], *more)

    def compare(kernel, gammas, problem_of, n_problems):
        batches = [one_batch(*problem_of(k)) for k in range(n_problems)]
        def run(device):
            found = solve_batches(X, kernel, gammas, batches, Settings(1e-3, device=device))
            return {(s.width, s.batch): s for some in found for s in some}
        cpu, gpu = run("cpu"), run("cuda")
        assert cpu.keys() == gpu.keys()
        for key, path in cpu.items():
            assert np.all(gpu[key].kkt_gap <= 1e-3)
            np.testing.assert_allclose(gpu[key].beta.sum(axis=1), path.totals, atol=1e-9)
            np.testing.assert_allclose(gpu[key].objective, path.objective, rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(gpu[key].bias, path.bias, atol=2e-3)
            np.testing.assert_allclose(gpu[key].scores, path.scores, atol=4e-3)
"""


def run(code, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-c", textwrap.dedent(SETUP) + textwrap.dedent(code)]
    subprocess.run(command, check=True, env={**environment, **variables}, timeout=300)


def in_simulator(code):
    run(code, NUMBA_ENABLE_CUDASIM="1")


def test_auto_takes_the_simulator_and_a_wrong_name_is_an_error():
    in_simulator("""
        from openset.solver.cuda import on_gpu
        assert on_gpu("auto") and not on_gpu("cpu")
        try:
            decision_values(X, X[:1], np.ones((1, 1)), np.zeros(1), RBF(), np.ones(1), device="tpu")
        except ValueError as error:
            assert "device='tpu'" in str(error)
        else:
            raise AssertionError
    """)


def test_without_a_gpu_the_error_says_what_to_do():
    run("""
        from openset.solver.cuda import array_module
        try:
            array_module()
        except (ImportError, RuntimeError) as error:
            assert "openset[cuda]" in str(error) or 'device="cpu"' in str(error)
    """)


def test_registers_of_a_block():
    """A multiprocessor has 65,536; see the limits in ``smo_kernel``."""
    run("""
        from openset.solver.cuda.smo import block_of
        for m in (1, 512, 513, 4096, 4097, 8192, 8193, 100_000):
            threads, in_registers = block_of(m, 8)
            assert threads * (128 if in_registers else 64) <= 65_536
            assert not in_registers or m <= 8 * threads
    """)


@pytest.mark.parametrize("in_registers", [True, False])
def test_grid(in_registers):
    in_simulator(f"""
        # 8 threads of one row each cannot hold 16 rows in registers.
        with tuned(cuda_rows_per_thread={8 if in_registers else 1}):
            compare(RBF(), [4.0, 0.5], svm, 2)
    """)


def test_matrix_beyond_the_memory():
    in_simulator("""
        with tuned(cuda_matrix=0.0, cuda_working=6):
            compare(RBF(), [4.0, 0.5], svm, 2)
    """)


def test_prediction():
    in_simulator("""
        questions = np.vstack([X, rng.normal(size=(30, 3)), np.full((1, 3), 1e200)])
        coef = rng.normal(size=(3, m))
        coef[2] = 0.0
        for kernel in (RBF(), RationalQuadratic(2.0), Linear()):
            arguments = questions, X, coef, rng.normal(size=3), kernel, np.array([1.0, 2.0, 2.0])
            cpu = decision_values(*arguments)
            with tuned(cuda_chunk=11, cuda_points=4, cuda_support=5):
                gpu = decision_values(*arguments, device="cuda")
            np.testing.assert_allclose(gpu, cpu, atol=1e-5, rtol=1e-6)
    """)


def test_estimators_and_search():
    in_simulator("""
        from openset import MulticlassSVDD, OpenSetSearchCV, OpenSetSVC, FixedBiasSVC
        for model in (OpenSetSVC(gamma=0.5), MulticlassSVDD(gamma=0.5), FixedBiasSVC(gamma=0.5)):
            cpu = model.fit(X, y).decision_function(X)
            gpu = model.set_params(device="cuda").fit(X, y).decision_function(X)
            np.testing.assert_allclose(gpu, cpu, atol=4e-3)
        def search(device):
            grid = {"gamma": [0.1, 1.0], "lam": [0.0, 0.3]}
            return OpenSetSearchCV(
                OpenSetSVC(), grid, n_repeats=1, device=device, random_state=0
            ).fit(X, y)
        gpu = search("cuda")
        assert gpu.best_estimator_.device == "cuda"
        np.testing.assert_allclose(
            gpu.cv_results_["mean_test_score"], search("cpu").cv_results_["mean_test_score"]
        )
    """)


def test_search_with_a_device_its_estimator_lacks():
    from openset import ExtremeValueMachine, OpenSetSearchCV

    search = OpenSetSearchCV(ExtremeValueMachine(), device="auto")
    X, y = [[0.0], [0.1], [1.0], [1.1], [2.0], [2.1]], [0, 0, 1, 1, 2, 2]
    with pytest.raises(ValueError, match="ExtremeValueMachine has no such parameter"):
        search.fit(X, y)


@pytest.mark.slow
def test_other_problems_and_kernels():
    in_simulator("""
        def one_class(k):
            problem = one_class_problem(y == k, 0.5)
            return problem, np.array([0.2, 0.5]) * problem.upper.sum()

        def svdd(k):
            return svdd_problem(y == k, 0.3, np.ones(m)), np.array([1.0])

        compare(RBF(), [0.5], one_class, 3)
        compare(RBF(), [0.5], svdd, 3)
        compare(RationalQuadratic(2.0), [1.0], svm, 1)
        compare(Linear(), [1.0], svm, 1)
    """)


@pytest.mark.parametrize("memory", [0.7, 1e-12], ids=["whole", "piece by piece"])
def test_parts_and_the_scores_outside(memory):
    in_simulator(
        f"""
        parts = [np.arange(0, m, 3), np.sort(rng.permutation(m)[:7])]
        y[parts[0]] = np.arange(len(parts[0])) % 2
        y[parts[1]] = np.arange(7) % 2

        apart, whole = [], []
        for k in range(4):
            part = parts[k // 2]
            outside = np.setdiff1d(np.arange(m), part)
            signs = np.where(y[part] == k % 2, 1.0, -1.0)
            problem = svm_problem(signs, rng_boxes[part], 0.0)
            totals = np.array([0.0, 0.3]) * problem.upper.sum()
            apart.append(one_batch(problem, totals, part, outside))
            signs = np.zeros(m)
            signs[part] = np.where(y[part] == k % 2, 1.0, -1.0)
            whole.append(one_batch(svm_problem(signs, rng_boxes, 0.0), totals, None, outside))

        def run(batches, device):
            found = solve_batches(X, RBF(), [2.0, 0.3], batches, Settings(1e-5, device=device))
            return {{(s.width, s.batch): s.scored for some in found for s in some}}

        expected = run(whole, "cpu")
        with tuned(cuda_matrix={memory}):
            found = run(apart, "cuda")
        assert found.keys() == expected.keys()
        for key, scores in expected.items():
            np.testing.assert_allclose(found[key], scores, atol=1e-4)
        """
    )


@pytest.mark.slow
def test_batches_and_iteration_limit():
    in_simulator("""
        import warnings
        with tuned(cuda_state=32 * m * 3 * 2 / 1e9):  # two paths at a time
            compare(RBF(), [1.0, 0.5], svm, 3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            settings = Settings(max_iter=2, device="cuda")
            list(solve_batches(X, RBF(), [1.0], [one_batch(*svm(0))], settings))
        assert any("Raise max_iter" in str(w.message) for w in caught)
    """)


def test_landmark_machines():
    in_simulator(
        """
        from openset.solver.landmarks import (
            LandmarkFeatures, LandmarkTask, TrainingRows, solve_landmarks
        )

        X = rng.normal(size=(300, 3)) + 2 * rng.normal(size=(4, 3))[np.arange(300) % 4]
        codes = np.arange(300) % 4
        features = LandmarkFeatures(X[:40], RBF(), 0.5)
        tasks = [LandmarkTask(c, 2.0, 0.0, -1e-3) for c in range(4)]
        cpu, gpu = (
            TrainingRows(X, codes, np.ones(300), features, 100, device=device)
            for device in ("cpu", "cuda")
        )
        assert gpu.on_gpu and not cpu.on_gpu
        index = rng.permutation(300)[:50]
        np.testing.assert_allclose(gpu.features(index), cpu.features(index), atol=1e-5)
        for a, b in zip(*(
            map(dict(solve_landmarks(rows, tasks, Settings(1e-5))).get, range(4))
            for rows in (cpu, gpu)
        )):
            np.testing.assert_allclose(b.objective, a.objective, rtol=1e-5)
            np.testing.assert_allclose(b.weights, a.weights, atol=1e-3)
            assert b.kkt_gap <= 1.1e-5
        """
    )


def test_chosen_landmarks():
    in_simulator(
        """
        from openset.solver.landmarks import choose_rows

        X = rng.normal(size=(200, 3))
        coef = rng.normal(size=(4, 200)) * (rng.random((4, 200)) < 0.3)
        first = np.array([3, 17])
        cpu, gpu = (
            choose_rows(X, coef, RBF(), 0.5, 90, first, device=device)
            for device in ("cpu", "cuda")
        )
        np.testing.assert_array_equal(gpu[:60], cpu[:60])
        """
    )
