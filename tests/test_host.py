"""What show_versions tells about the machine, and that it tells it everywhere."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import requires

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import openset
from openset.utils import host_info


def shown(**env):
    code = "import openset; openset.show_versions()"
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | env, capture_output=True, text=True
    )


def test_versions(capsys):
    openset.show_versions()
    told = capsys.readouterr().out
    assert told.startswith(f"openset {openset.__version__}, Python {sys.version.split()[0]} ")
    assert f"numpy {np.__version__}," in told
    assert "compiled code: loaded " in told


def test_every_dependency_is_listed():
    listed = host_info()["versions"]
    for line in requires("openset"):
        name, _, extra = line.partition(";")
        if not re.search("test|docs|bench|dev", extra) and not name.startswith("openset"):
            assert re.match(r"[\w-]+", name)[0] in listed


def test_blas_is_the_one_in_use():
    info = host_info()
    assert json.loads(json.dumps(info)) == info
    used = [library["filepath"] for library in threadpool_info() if library["user_api"] == "blas"]
    assert not used or [blas["file"] for blas in info["blas"]] == used


def test_compiled_code_is_made_once(tmp_path):
    told = [shown(NUMBA_CACHE_DIR=str(tmp_path)).stdout for _ in range(2)]
    assert "compiled code: loaded 0, compiled 1 functions" in told[0]
    assert "compiled code: loaded 1, compiled 0 functions" in told[1]
    assert f"cache: {tmp_path}" in told[1]


@pytest.mark.parametrize("core", ["Haswell", "Nehalem"])
def test_core_type(core):
    told = shown(OPENBLAS_CORETYPE=core).stdout
    assert f"environment: OPENBLAS_CORETYPE={core}" in told
    if "openblas" in told and " x86-64-v" in told and "x86-64-v2" not in told:
        assert f"core type {core}" in told


def test_without_a_compiler():
    result = shown(NUMBA_DISABLE_JIT="1")
    assert result.returncode == 0, result.stderr
    assert "cache: none" in result.stdout
