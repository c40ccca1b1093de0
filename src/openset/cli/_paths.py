"""What a command reads and writes: no output takes the place of anything else of the command.

Each parameter that names a file carries a `Role`; `reported` checks them before any work.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints


@dataclass(frozen=True)
class Role:
    """What a command does with the files that a parameter names."""

    kind: Literal["reads", "replaces", "writes"]  # replaces: read, and the output may be it
    patterns: tuple[str, ...] = ()  # of the files that are written, if the parameter is a folder
    more: Callable[[dict[str, Any]], Iterable[Path]] = lambda arguments: ()  # files beside it


READS, REPLACES, WRITES = Role("reads"), Role("replaces"), Role("writes")


class _File(NamedTuple):
    path: Path
    role: Role


def guard(command: Callable, arguments: dict[str, Any]) -> AbstractContextManager:
    """Raise FileExistsError if an output is a file that the command reads or writes otherwise.

    The context holds the lock of a model that the command replaces.
    """
    from openset.utils import update_lock  # late: --help must not load what computes

    files = []
    for name, hint in get_type_hints(command, include_extras=True).items():
        for role in getattr(hint, "__metadata__", ()):
            if isinstance(role, Role):
                value = arguments.get(name)
                named = [*value] if isinstance(value, tuple | list) else [value]
                paths = [*named, *role.more(arguments)]
                files += [_File(_opened(path, role), role) for path in paths if path is not None]
    outputs = [file for file in files if file.role.kind == "writes"]
    context: AbstractContextManager = nullcontext()
    for output, other in product(outputs, files):
        if output is not other:
            _check(output, other)
        if other.role.kind == "replaces" and _identity(output.path) == _identity(other.path):
            context = update_lock(other.path)
    return context


def keep_apart(output: Path, read: Path) -> None:
    """Raise FileExistsError if writing the output would change what is read."""
    _check(_File(output, WRITES), _File(read, READS))


def _check(output: _File, other: _File) -> None:
    if other.role.patterns:  # checked the other way round, file by file
        return
    path, kind = other
    does = "reads" if kind.kind != "writes" else "writes, too"
    members = [*map(_identity, path.iterdir())] if path.is_dir() else []
    replaced = [found for p in output.role.patterns for found in output.path.glob(p)]
    for written in (output.path, *replaced):
        own = _identity(written)
        if own == _identity(path):
            if kind is REPLACES:
                continue
            what = f"it is {path}, which this command {does}"
            if kind.kind == "reads":
                what = "it is read by this command"
        elif own in members or (path.is_dir() and _identity(path) in _ancestors(written)):
            what = f"it belongs to {path}, which this command {does}"
        else:
            continue
        raise FileExistsError(f"cannot write {written}: {what}; choose another name")


def _opened(path: Path, role: Role) -> Path:
    """The path, or the file that a standard stream was redirected to."""
    if str(path) != "-":
        return path
    return Path("/dev/stdout" if role.kind == "writes" else "/dev/stdin")


def _identity(path: Path) -> object:
    """Equal for all names of one file: links, relative paths, another case."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.normcase(os.path.realpath(path))
    ordinary = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return (found.st_dev, found.st_ino) if ordinary else str(path)


def _ancestors(path: Path) -> list[object]:
    return [_identity(folder) for folder in Path(os.path.realpath(path)).parents]
