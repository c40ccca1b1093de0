"""Compiled functions: loaded from the wheel or from Numba's cache, and a notice while they compile.

A wheel may contain one folder per Python version, Numba version and processor level, with one file
per function and signature: the SHA-256 of the rest, then Numba's compile result as a pickle. Unlike
in Numba's own cache, the key names a level of processors (x86-64-v3) instead of one processor, so
that the files can be made on another machine. If anything differs, Numba compiles as usual. No
function fails without a cache.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import platform
import stat
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, config, event
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps
from numba.extending import register_jitable

# Machine -> LLVM's name of the level, and the features that it requires.
_V3 = frozenset(
    "avx avx2 bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3 xsave".split()
)
_LEVELS: dict[str, tuple[str, frozenset[str]]] = {
    "x86_64": ("x86-64-v3", _V3),
    "aarch64": ("generic", frozenset()),
    "arm64": ("generic", frozenset()),
}
LEVEL, _REQUIRED = _LEVELS.get(platform.machine(), ("", frozenset()))
FOLDER_NAME = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}-numba-"
FOLDER_NAME += f"{numba.__version__}-{sys.platform}-{LEVEL}"

_PACKAGE = Path(__file__).parents[1]
_DIGEST = hashlib.sha256().digest_size


@cache
def precompiled_folder() -> Path | None:
    """The folder for this Python, Numba and operating system; None if there is none to trust."""
    folder = _PACKAGE / "_precompiled" / FOLDER_NAME
    if not LEVEL or os.name != "posix" or not folder.is_dir():
        return None
    owner = os.stat(_PACKAGE / "__init__.py").st_uid  # whose code runs in this process anyway
    paths = (_PACKAGE, folder.parent, folder)
    return folder if all(_only_written_by(owner, os.stat(path)) for path in paths) else None


def load_from_wheel(
    function: Callable, signature: tuple, target_context: Any
) -> CompileResult | None:
    """Compile result of the function for the signature; None if the wheel has none that fits."""
    folder = precompiled_folder()
    if folder is None or not _processor_fits(target_context.codegen()):
        return None
    try:
        with open(folder / _file_name(function, signature), "rb") as file:
            if not _only_written_by(os.stat(folder).st_uid, os.fstat(file.fileno())):
                return None
            digest, content = file.read(_DIGEST), file.read()
        if digest != hashlib.sha256(content).digest():
            return None
        key, payload = pickle.loads(content)
        if key != _key(function, signature, target_context.codegen()):
            return None
        return CompileResult._rebuild(target_context, *payload)
    except Exception:  # whatever a damaged or unfit file raises: the function can be compiled
        return None


def save_for_wheel(
    folder: Path, function: Callable, signature: tuple, compiled: CompileResult
) -> None:
    """Write one file; the process must compile for the level, see ``release/precompile.py``."""
    library, *middle, _, reload_init, environments = compiled._reduce()
    payload = (library, *middle, "", reload_init, environments)  # without the annotated source
    content = dumps((_key(function, signature, compiled.codegen), payload))
    path = folder / _file_name(function, signature)
    path.write_bytes(hashlib.sha256(content).digest() + content)


def _only_written_by(owner: int, status: os.stat_result) -> bool:
    """Whether nobody but the owner can write; a group of the user alone does not count."""
    others = stat.S_IWOTH
    if status.st_gid != status.st_uid or status.st_uid == 0:
        others |= stat.S_IWGRP
    return status.st_uid == owner and not status.st_mode & others


def _processor_fits(codegen) -> bool:
    """Whether Numba compiles for this processor, and the processor has the level."""
    features = codegen.magic_tuple()[2].split(",")
    return getattr(config, "CPU_NAME", None) is None and _REQUIRED <= {
        f[1:] for f in features if f[:1] == "+"
    }


def _file_name(function, signature):
    name = f"{function.__module__}.{function.__qualname__}"
    return f"{name}-{hashlib.sha256(str(signature).encode()).hexdigest()[:16]}.bin"


def _key(function, signature, codegen):
    """What a file must agree with: versions, system, source and signature."""
    if function.__closure__ is not None:
        raise ValueError(f"{function.__qualname__} depends on values outside its module")
    source = _source_hash(function.__code__.co_filename)
    return FOLDER_NAME, codegen.magic_tuple()[0], source, function.__qualname__, signature


@cache
def _source_hash(path: str) -> bytes:
    """Hash of a source file, and of all compiled functions of the package, which it may contain."""
    return hashlib.sha256(Path(path).read_bytes() + _package_hash(_PACKAGE)).digest()


@cache
def _package_hash(package: Path) -> bytes:
    sources = (path.read_bytes() for path in sorted(package.rglob("*.py")))
    compiled = (text for text in sources if b"njit" in text or b"@helper" in text)
    return hashlib.sha256(b"".join(compiled)).digest()


# Fast-math flags under which LLVM vectorises loops over numbers that may be infinite, but not NaN.
FAST = {"contract", "nnan", "nsz"}


def njit(**options) -> Callable[[Callable], Callable]:
    """As :func:`numba.njit`, but the cache may fail, and several processes may fill it at once."""
    # Compiled functions are loaded from the wheel if it contains them. Otherwise, Numba keeps them
    # next to the source, in the home folder or in NUMBA_CACHE_DIR. If none of these folders can be
    # written, the functions are compiled in every process, and one warning names the remedy.
    cached = options.pop("cache", False)
    # No wrapper for pointers from C, which nothing here uses: a twentieth of the time to compile.
    options.setdefault("no_cfunc_wrapper", True)
    # The test for a divisor of zero, which is an error in Python, keeps LLVM from vectorising.
    options.setdefault("error_model", "numpy")

    def decorate(function):
        compiled = numba.njit(**options)(function)
        if cached:
            compiled._cache = _Cache(function)
        return compiled

    return decorate


def helper(**options) -> Callable[[Callable], Callable]:
    """A function that compiled functions call: no wrapper for Python, no place in a cache."""
    # Called from Python, it is plain Python; `njit` of it is the same function for Python.
    return register_jitable(no_cfunc_wrapper=True, error_model="numpy", **options)


class _Cache:
    """What Numba asks for a function's code: the wheel first, then a folder that can be written."""

    def __init__(self, function: Callable):
        self._function = function
        if precompiled_folder() is None:
            self._folder  # noqa: B018 (warns at import if no folder can be written)

    @cached_property
    def _folder(self):
        """Numba's cache, opened only if the wheel lacks a function."""
        try:
            return _FolderCache(self._function)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            _warn_once(
                "neither the folder of openset nor the cache folder of the user can be written"
            )
            return caching.NullCache()

    @property
    def cache_path(self):
        opened = "_folder" in vars(self)
        return self._folder.cache_path if opened else str(precompiled_folder())

    def load_overload(self, signature, target_context):
        target_context.refresh()
        found = load_from_wheel(self._function, signature, target_context)
        return found or self._folder.load_overload(signature, target_context)

    def save_overload(self, signature, compiled):
        self._folder.save_overload(signature, compiled)


class _FolderCache(caching.FunctionCache):
    """A cache that costs time when it fails, and nothing else."""

    def __init__(self, function):
        super().__init__(function)
        # Numba's own stamp is that of one file, but the code of the functions that it calls is in
        # the entry too: after an upgrade in place, the old solver would run on.
        stamp = _source_hash(function.__code__.co_filename)
        self._cache_file = _CacheFile(self.cache_path, self._impl.filename_base, stamp)

    def load_overload(self, *args):
        try:
            return super().load_overload(*args)
        except Exception:  # a damaged file may raise anything; it is written again
            return None

    def save_overload(self, *args):
        try:
            super().save_overload(*args)
        except OSError as error:
            _warn_once(error)


class _CacheFile(caching.IndexDataCacheFile):
    """An entry names its source and signature: of several processes, each numbers its own files."""

    # Two that begin with an empty index give the same file to two signatures; and one that is
    # killed leaves an index that names a file of an older source.

    def save(self, key, data):
        super().save(key, (self._source_stamp, key, data))

    def load(self, key):
        *belongs, data = super().load(key) or (None,)
        return data if belongs == [self._source_stamp, key] else None

    def _load_index(self):
        try:
            return super()._load_index()
        except Exception:  # damaged: begin anew
            return {}


_warned = False


def _warn_once(reason) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"Compiled functions cannot be cached: {reason}. They are compiled anew in every "
            "process, which takes about 40 seconds. Set the environment variable NUMBA_CACHE_DIR "
            "to a writable folder.",
            UserWarning,
            stacklevel=4,
        )


class _Notice(event.Listener):
    """Tells the logger "openset" what the user waits for."""

    # Once, as a warning, that the solver compiles, since the first fit would seem to hang; and at
    # level INFO, how far it is, with an empty message when it is done.

    def __init__(self):
        self._logger = logging.getLogger("openset")
        self._said, self._depth, self._count = False, 0, 0
        self._begin = self._seconds = 0.0

    def on_start(self, event: event.Event) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if module.startswith("openset.solver.") and not (self._said or _warned):
            self._said = True
            self._logger.warning(
                "openset: compiling the solver, up to 40 s; later runs load it from a cache"
            )
        if self._depth or module.startswith("openset."):  # one function compiles those it calls
            self._begin = self._begin if self._depth else time.monotonic()
            self._depth += 1
            self._count += 1
            seconds = self._seconds + time.monotonic() - self._begin
            self._logger.info("compiling, %d functions so far, %.0f s", self._count, seconds)

    def on_end(self, event: event.Event) -> None:
        if self._depth:
            self._depth -= 1
            if not self._depth:
                self._seconds += time.monotonic() - self._begin
                self._logger.info("")


event.register("numba:compile", _Notice())


@njit(cache=True, nogil=True)
def probe(x):
    """A compiled function that shows whether the cache works."""
    return x
