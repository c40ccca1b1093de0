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
        from openset.solver.cuda.grid import array_module
        try:
            array_module()
        except (ImportError, RuntimeError) as error:
            assert "openset[cuda]" in str(error) or 'device="cpu"' in str(error)
    """)
