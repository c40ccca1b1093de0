"""Compiled functions from the wheel are loaded if everything fits, and ignored otherwise."""

import os
import runpy
import warnings

import numba
import pytest
from numba.core import codegen

from openset.utils import compiled

SOURCE = """
from openset.utils.compiled import njit

@njit(cache=True)
def half(x):
    return x / 2
"""

pytestmark = pytest.mark.skipif(
    os.name != "posix" or not compiled.LEVEL, reason="no wheel with compiled functions for it"
)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with one module, whose compiled function is in the folder of the wheel."""
    monkeypatch.setattr(compiled, "_PACKAGE", tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_warned", False)
    (tmp_path / "__init__.py").touch()
    (tmp_path / "tiny.py").write_text(SOURCE)
    folder = tmp_path / "_precompiled" / compiled.FOLDER_NAME
    half = _module(tmp_path)
    assert half(3) == 1.5
    folder.mkdir(parents=True, mode=0o755)
    (signature,) = half.overloads
    compiled.save_for_wheel(folder, half.py_func, signature, half.overloads[signature])
    for path in (tmp_path, folder.parent, folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode & ~0o022)
    (tmp_path / "cache").rename(tmp_path / "old_cache")
    yield tmp_path
    compiled.precompiled_folder.cache_clear()


def _module(package):
    """The function of the module, as in a new process."""
    compiled.precompiled_folder.cache_clear()
    compiled._source_hash.cache_clear()
    return runpy.run_path(str(package / "tiny.py"))["half"]


def _file(package):
    (path,) = (package / "_precompiled" / compiled.FOLDER_NAME).iterdir()
    return path


def _loads(package) -> bool:
    """Whether the function comes from the wheel; it works without a warning in any case."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = _module(package)
        assert half(3) == 1.5
    loaded = bool(half.stats.cache_hits)
    assert (package / "cache").exists() != loaded
    return loaded


def test_loads_what_fits(package):
    assert _loads(package)
    half = _module(package)
    half(3)
    assert half.stats.cache_path == str(_file(package).parent)


def test_other_signatures_are_compiled(package):
    half = _module(package)
    assert half(3.0) == 1.5
    assert not half.stats.cache_hits


def test_nothing_can_be_written(package, monkeypatch):
    """A read-only installation: no warning about a cache that is not needed."""
    (package / "cache").touch()
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _module(package)(3) == 1.5
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
        assert _module(package)(3.0) == 1.5


@pytest.mark.parametrize("damage", ["empty", "short", "bit", "other", "gone"])
def test_a_damaged_file_is_ignored(package, damage):
    path = _file(package)
    content = path.read_bytes()
    middle = len(content) // 2
    damaged = {
        "empty": b"",
        "short": content[:middle],
        "bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "other": b"x" * 32 + b"\x80\x05K\x01.",
    }
    path.unlink() if damage == "gone" else path.write_bytes(damaged[damage])
    assert not _loads(package)


def test_code_of_another_source_is_ignored(package):
    (package / "tiny.py").write_text(SOURCE + "\n")
    assert not _loads(package)


def test_code_of_another_function_is_ignored(package):
    """A file under the name of another function, as if two were mixed up."""
    (package / "tiny.py").write_text(SOURCE.replace("half", "third").replace("2", "3"))
    third = runpy.run_path(str(package / "tiny.py"))["third"]
    compiled._source_hash.cache_clear()
    third(3)
    (signature,) = third.overloads
    folder = _file(package).parent
    path = _file(package)
    path.unlink()
    compiled.save_for_wheel(folder, third.py_func, signature, third.overloads[signature])
    _file(package).rename(path)
    (package / "tiny.py").write_text(SOURCE)
    (package / "cache").rename(package / "older_cache")
    assert not _loads(package)


@pytest.mark.parametrize("part", ["package", "parent", "folder", "file"])
@pytest.mark.parametrize("mode", [0o002, 0o020])
def test_what_others_can_write_is_not_read(package, part, mode):
    file = _file(package)
    paths = {"package": package, "parent": file.parent.parent, "folder": file.parent, "file": file}
    status = paths[part].stat()
    if mode == 0o020 and status.st_gid == status.st_uid != 0:
        pytest.skip("the group of a user alone may write")
    paths[part].chmod(status.st_mode | mode)
    assert not _loads(package)


@pytest.mark.parametrize("name", ["nehalem", "x86-64-v3"])
def test_a_processor_that_the_user_chose(package, monkeypatch, name):
    monkeypatch.setattr(numba.config, "CPU_NAME", name)
    assert not _loads(package)


@pytest.mark.skipif(compiled.LEVEL != "x86-64-v3", reason="any processor has the level")
@pytest.mark.parametrize("missing", ["avx2", "fma", "bmi2", "lzcnt", "movbe", "f16c"])
def test_a_processor_below_the_level(package, monkeypatch, missing):
    original = codegen.CPUCodegen.magic_tuple

    def without(self):
        triple, name, features = original(self)
        return triple, name, features.replace(f"+{missing}", f"-{missing}")

    monkeypatch.setattr(codegen.CPUCodegen, "magic_tuple", without)
    assert not _loads(package)


@pytest.mark.parametrize("part", ["numba", "cpython", "x86-64-v3", "linux"])
def test_other_versions_have_other_folders(package, monkeypatch, part):
    if part not in compiled.FOLDER_NAME:
        pytest.skip("not this system")
    file = _file(package)
    other = compiled.FOLDER_NAME.replace(part, "other")
    file.parent.rename(file.parent.with_name(other))
    assert not _loads(package)
    file.parent.with_name(other).rename(file.parent)
    monkeypatch.setattr(compiled, "FOLDER_NAME", other)  # renamed by hand: the key tells
    (file.parent).rename(file.parent.with_name(other))
    (package / "cache").rename(package / "older_cache")
    assert not _loads(package)
