"""`make test-blas`: a line per set of kernels, and a failure under one of them fails it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .blas import kernels

REPOSITORY = Path(__file__).resolve().parents[1]
# The name that numpy gives to its kernels: those of Zen are called Haswell.
CORE = kernels(os.environ.get("OPENBLAS_CORETYPE"))


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tests.blas", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not CORE, reason="the BLAS of numpy is not OpenBLAS")
@pytest.mark.parametrize(("body", "code"), [("pass", 0), ("assert False", 1), ("exit(3)", 1)])
def test_one_line_per_set(tmp_path, body, code):
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    result = run("--cores", f"{CORE},{CORE.lower()}", tmp_path, "-p", "no:cacheprovider")
    assert result.returncode == code, result.stderr
    *before, told, again = result.stdout.splitlines()
    outcome = {"pass": "1 tests, 0 failures", "assert False": "1 tests, 1 failures"}
    assert told.startswith(f"{CORE}: {outcome.get(body, '')}")
    assert again == f"{CORE.lower()}: the kernels of {CORE} again"
    assert bool(before) == bool(code)  # what pytest said
