"""A read-only installation without a home folder: compiled functions work, with one warning."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import openset

PACKAGE = Path(openset.__file__).parent

CODE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import openset.kernels, openset.solver, openset.svm, openset.evt
told = [w for w in caught if "NUMBA_CACHE_DIR" in str(w.message)]
assert len(told) == {warnings}, caught
import numpy as np
from openset.kernels import RBF
print(RBF().value(np.zeros(3, dtype=np.float32)))
"""


@pytest.fixture(scope="module")
def read_only(tmp_path_factory):
    """A copy of the package in which a file stands where numba would make its cache folder."""
    site = tmp_path_factory.mktemp("site")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, site / "openset", ignore=ignore)
    for folder in {path.parent for path in site.rglob("*.py")}:
        (folder / "__pycache__").write_bytes(b"")  # works for root too, unlike a file mode
    (site / "home").write_bytes(b"")
    return site


def _run(site, code, **env):
    home = str(site / "home" / "nobody")
    outer = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env = outer | {"PYTHONPATH": str(site), "HOME": home, "XDG_CACHE_HOME": home} | env
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)


def test_read_only_installation_without_home(read_only):
    result = _run(read_only, CODE.format(warnings=1))
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[1. 1. 1.]\n"


def test_a_cache_folder_is_used(read_only, tmp_path):
    result = _run(read_only, CODE.format(warnings=0), NUMBA_CACHE_DIR=str(tmp_path))
    assert result.returncode == 0, result.stderr


def test_every_compiled_function_uses_it():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                names = {alias.name for alias in node.names}
                assert "njit" not in names, f"{path}: import njit from openset.utils.compiled"
