"""`make test-blas`: a line per set of kernels, and a failure under one of them fails it."""

import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

REPOSITORY = Path(__file__).resolve().parents[1]
SETS = {i.get("architecture") for i in threadpool_info() if i["internal_api"] == "openblas"}


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "tests.blas", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not SETS, reason="the BLAS of numpy is not OpenBLAS")
@pytest.mark.parametrize(("body", "code"), [("pass", 0), ("assert False", 1), ("exit(3)", 1)])
def test_one_line_per_set(tmp_path, body, code):
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    core = SETS.copy().pop()
    result = run("--cores", f"{core},{core.lower()}", tmp_path, "-p", "no:cacheprovider")
    assert result.returncode == code, result.stderr
    *before, told, again = result.stdout.splitlines()
    outcome = {"pass": "1 tests, 0 failures", "assert False": "1 tests, 1 failures"}
    assert told.startswith(f"{core}: {outcome.get(body, '')}")
    assert again == f"{core.lower()}: the kernels of {core} again"
    assert bool(before) == bool(code)  # what pytest said
