"""Compiled functions work without a cache, with a damaged one, and while others write it."""

import ast
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest

import openset
from openset.utils import compiled

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


SOURCE = """
from openset.utils.compiled import njit

@njit(cache=True)
def half(x):
    return x / 2

@njit(cache=True)
def total(values):
    found = values[0]
    for value in values[1:]:
        found += value
    return found
"""
DTYPES = [np.int64, np.float64, np.float32, np.int8]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Execute the module anew, as another process would, with a cache folder of its own."""
    source = tmp_path / "tiny.py"
    source.write_text(SOURCE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_warned", False)
    return lambda: runpy.run_path(str(source))


def _files(tmp_path, ending):
    return sorted((tmp_path / "cache").rglob(f"*half*{ending}"))


def test_what_is_cached_is_loaded(module):
    module()["half"](3)
    again = module()["half"]
    assert (again(3), sum(again.stats.cache_hits.values())) == (1.5, 1)


def test_code_of_another_signature_is_not_loaded(module, tmp_path):
    """As two processes with a cold cache leave it: both call their file number 1."""
    module()["half"](3)
    (of_integers,) = _files(tmp_path, ".nbc")
    code = of_integers.read_bytes()
    shutil.rmtree(tmp_path / "cache")
    module()["half"](3.5)
    of_integers.write_bytes(code)
    for _ in range(2):
        half = module()["half"]
        assert half(3.5) == 1.75
    assert sum(half.stats.cache_hits.values()) == 1  # it was written again


def test_code_of_an_older_source_is_not_loaded(module, tmp_path):
    """As a process leaves it that is killed after it wrote the index."""
    module()["half"](3)
    (path,) = _files(tmp_path, ".nbc")
    code = path.read_bytes()
    source = tmp_path / "tiny.py"
    source.write_text(SOURCE.replace("x / 2", "x / 4 * 2 + 1"))
    module()["half"](3)
    path.write_bytes(code)
    assert module()["half"](3) == 2.5


def test_code_of_an_older_function_that_is_called_is_not_loaded(read_only, tmp_path):
    """As after an upgrade in place: the caller's own file has not changed."""
    code = """
from openset.utils.compiled import probe
probe(1)
print("hits", sum(probe.stats.cache_hits.values()))
"""
    changed, cache = tmp_path / "site", {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    shutil.copytree(read_only / "openset", changed / "openset")
    runs = []
    for comment in ("", "", "# another version\n", ""):
        with open(changed / "openset" / "solver" / "_smo.py", "a") as file:
            file.write(comment)
        runs.append(_run(changed, code, **cache).stdout)
    assert runs == ["hits 0\n", "hits 1\n", "hits 0\n", "hits 1\n"]


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05K\x01.", b"no pickle"])
def test_a_damaged_cache_is_written_again(module, tmp_path, ending, content):
    module()["half"](3)
    (path,) = _files(tmp_path, ending)
    path.write_bytes(content)
    assert module()["half"](3) == 1.5
    again = module()["half"]
    assert (again(3), sum(again.stats.cache_hits.values())) == (1.5, 1)


def test_a_cache_folder_that_is_deleted(module, tmp_path):
    half = module()["half"]
    half(3)
    shutil.rmtree(tmp_path / "cache")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert half(3.0) == 1.5
    assert _files(tmp_path, ".nbc")


def test_a_cache_folder_that_cannot_be_written_any_more(module, tmp_path):
    functions = module()
    functions["half"](3)
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_bytes(b"")  # works for root too, unlike a file mode
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR") as caught:
        assert functions["half"](3.0) == 1.5
        assert functions["total"](np.ones(3)) == 3
    assert len(caught) == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that start at once")
def test_processes_with_a_cold_cache(module, tmp_path):
    context = multiprocessing.get_context("fork")
    for _ in range(20):
        start = context.Barrier(4)
        workers = [context.Process(target=_use, args=(module, start, k)) for k in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0] * 4
        last = context.Process(target=_use, args=(module, context.Barrier(1), 0))
        last.start()
        last.join(60)
        assert last.exitcode == 0
        shutil.rmtree(tmp_path / "cache")


def _use(module, start, first):
    functions = module()
    start.wait()
    for k in range(len(DTYPES)):
        dtype = DTYPES[(first + k) % len(DTYPES)]
        assert functions["half"](dtype(7)) == 3.5
        assert functions["total"](np.arange(5, dtype=dtype)) == 10


def test_tells_the_logger_how_far_the_compiler_is(module, caplog):
    """Functions that another function calls are compiled while it waits."""
    half, total = module()["half"], module()["total"]
    for function in (half, total):
        function.py_func.__module__ = "openset.solver.tiny"
    caplog.set_level("INFO", logger="openset")
    half(3)
    assert total(np.ones(3)) == 3
    told = [record.getMessage() for record in caplog.records if record.levelname == "INFO"]
    assert [text.startswith("compiling, ") for text in told if text]
    assert told[-1] == ""
    assert told.count("") == 2
