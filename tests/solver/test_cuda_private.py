"""Which device is chosen, and the error without one; each in its own process, see test_cuda."""

import importlib.util
import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"
)


def run(code, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    subprocess.run(command, check=True, env={**environment, **variables}, timeout=300)


def test_auto_takes_the_simulator_and_a_wrong_name_is_an_error():
    run(
        """
        from openset.solver.cuda import on_gpu
        assert on_gpu("auto") and not on_gpu("cpu")
        try:
            on_gpu("tpu")
        except ValueError as error:
            assert "device='tpu'" in str(error)
        else:
            raise AssertionError
        """,
        NUMBA_ENABLE_CUDASIM="1",
    )


def test_without_a_gpu_the_error_says_what_to_do():
    run("""
        from openset.solver.cuda import array_module
        try:
            array_module()
        except (ImportError, RuntimeError) as error:
            assert "openset[cuda]" in str(error) or 'device="cpu"' in str(error)
    """)


def test_many_violators_are_cut_to_the_worst():
    """Every list, cut or not, holds the worst violators of each class."""
    run(
        """
        import numpy as np
        import openset.solver.landmarks._features as landmarks
        from openset.kernels import RBF
        from openset.solver.landmarks import LandmarkFeatures, Query, training_rows

        rng = np.random.default_rng(0)
        X, codes = rng.normal(size=(400, 3)), np.arange(400) % 5
        features = LandmarkFeatures(X[:30], RBF(), 0.5)
        query = Query(
            np.arange(5), rng.normal(size=(5, features.n_features)).astype(np.float32),
            np.full(5, -0.5), 1.0, np.full(5, 1e-3), np.array([3, 10, 5, 40, 7]), 1.0,
        )
        active = np.arange(0, 400, 7), np.arange(58) % 5
        found = []
        for device, most in (("cpu", 0), ("cuda", 2**23), ("cuda", 20)):
            landmarks._LISTED = most
            rows = training_rows(X, codes, np.ones(400), features, 100, device=device)
            found.append(rows.violators(query, active))
            order = np.lexsort(found[-1][:2])
            found[-1] = [array[order] for array in found[-1]]
        assert len(found[0][0]) == 65
        for other in found[1:]:
            np.testing.assert_array_equal(other[0], found[0][0])
            np.testing.assert_array_equal(other[1], found[0][1])
            np.testing.assert_allclose(other[2], found[0][2], atol=1e-4)
        """,
        NUMBA_ENABLE_CUDASIM="1",
    )


def test_registers_of_a_block():
    """A multiprocessor has 65,536; see the limits in ``smo_kernel``."""
    run("""
        from openset.solver.cuda.smo import _block
        for m in (1, 512, 513, 4096, 4097, 8192, 8193, 100_000):
            threads, in_registers = _block(m, 8)
            assert threads * (128 if in_registers else 64) <= 65_536
            assert not in_registers or m <= 8 * threads
    """)
