"""Compiled functions from the wheel: read if they fit this process, otherwise ignored.

A wheel may contain one folder per Python version, Numba version and processor level, with one file
per function and signature: the SHA-256 of the rest, then Numba's compile result as a pickle. Unlike
in Numba's own cache, the key names a level of processors (x86-64-v3) instead of one processor, so
that the files can be made on another machine. If anything differs, Numba compiles as usual.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

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


def load(function: Callable, signature: tuple, target_context: Any) -> CompileResult | None:
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


def save(folder: Path, function: Callable, signature: tuple, compiled: CompileResult) -> None:
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
    return hashlib.sha256(Path(path).read_bytes()).digest()
