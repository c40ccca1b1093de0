"""Atomic writes and locks for updates; members of archives from strangers.

A reader sees the old file or the complete new one. A member of an archive is never larger in memory
than it states.
"""

from __future__ import annotations

import os
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from math import prod
from pathlib import Path
from secrets import token_hex
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile
from zlib import crc32

from numpy.lib import format as npy

try:
    import fcntl
except ModuleNotFoundError:  # Windows: no locks, and leftovers are not found there
    fcntl = None  # type: ignore[assignment]

# Kinds of dtypes that an archive may hold: no objects and no records.
_KINDS = "biufcUSmM"

# The file that was completed last, if any, for what is said after Ctrl-C.
last_written: list[Path] = []


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yield the path of a temporary file, which is renamed to `path` on a clean exit."""
    # It is in the folder of `path`, and flushed to disk (fsync) before it is renamed: neither a
    # killed process nor a power failure leaves a partial file. After an exception `path` is
    # unchanged. A file that is replaced keeps its mode, and a symbolic link is followed. An OSError
    # names `path`.
    asked = Path(path)
    path = Path(os.path.realpath(asked))
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {asked}: there is no folder {path.parent}; make it first"
        )
    if path.exists() and not path.is_file():
        raise FileExistsError(f"cannot write {asked}: it exists and is no ordinary file")
    temporary = None
    try:
        temporary, lock = _create(path)
        yield temporary
        with open(temporary, "rb+") as content:
            os.fsync(content.fileno())
        with suppress(FileNotFoundError):
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            if error.filename is None or str(error.filename) == str(temporary):
                error.filename = os.fspath(asked)
        raise
    finally:
        if temporary is not None:
            if os.fstat(lock).st_nlink:  # it has its name, even if a signal came just then
                last_written[:] = [asked]
            os.close(lock)


def _create(path: Path) -> tuple[Path, int]:
    """Create a temporary file, locked while its writer lives; delete those of dead writers."""
    prefix = f".openset-{crc32(path.name.encode(errors='surrogateescape')):08x}-"
    for leftover in path.parent.glob(f"{prefix}*") if fcntl is not None else ():
        with suppress(OSError):
            lock = os.open(leftover, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
            finally:
                os.close(lock)
    suffix = path.suffix if len(path.suffix) <= 16 else ""  # a name has at most 255 bytes
    while True:
        temporary = path.parent / f"{prefix}{token_hex(4)}{suffix}"
        # The mode of the file that is replaced, which may be private; its writer must be able to
        # write. Else that of an ordinary file: so the umask need not be known.
        try:
            mode = stat.S_IMODE(path.stat().st_mode) & 0o777 | 0o600
        except FileNotFoundError:
            mode = 0o666
        try:
            lock = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        except FileExistsError:
            continue
        if fcntl is not None:
            with suppress(OSError):  # some network file systems cannot lock
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if temporary.exists():
            return temporary, lock
        os.close(lock)  # another writer deleted it before it was locked


@contextmanager
def update_lock(path: str | os.PathLike, wait: float = 60.0) -> Iterator[None]:
    """Let one process at a time read, change and replace a file that exists, or use a folder."""
    # The lock is on the file itself and ends with its process, however that ends; it holds back
    # only processes that take it, too. After `wait` seconds a TimeoutError says that the file is
    # busy.
    if fcntl is None:
        _warn_without_lock(path, "not on this system")
        yield
        return
    deadline = time.monotonic() + wait
    while (lock := _try_lock(path)) is None:
        if time.monotonic() >= deadline:
            raise TimeoutError(
                f"another process has been updating {path} for {wait:.0f} s; run this again when "
                "it has ended"
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        os.close(lock)


def _try_lock(path: str | os.PathLike) -> int | None:
    """An open file that holds the lock; None if another process holds it, or replaced the file."""
    lock = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a FIFO would block
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError as error:
        _warn_without_lock(path, error)
        return lock
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    os.close(lock)
    return None


def _warn_without_lock(path: str | os.PathLike, reason: object) -> None:
    warnings.warn(
        f"{path} cannot be locked ({reason}): make sure that no other process updates it",
        stacklevel=4,
    )


def read_member(archive: ZipFile, name: str, size: int | None = None) -> bytes:
    """The first `size` bytes of a member, or all; ValueError if it is shorter than it states."""
    info = archive.getinfo(name)
    if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed by a method that is not supported")
    stated = info.file_size if size is None else min(size, info.file_size)
    with archive.open(name) as file:
        data = file.read(stated)
    if len(data) != stated:
        raise ValueError(f"{name} is cut short")
    return data


def stored_array_size(archive: ZipFile, name: str) -> int:
    """Bytes of a stored array, at least one item along each axis; ValueError if damaged."""
    start = BytesIO(read_member(archive, name, 2**14))
    version = npy.read_magic(start)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"{name} is an array of format {version}")
    shape, _, dtype = read[version](start)
    if dtype.kind not in _KINDS or dtype.itemsize == 0 or min(shape, default=0) < 0:
        raise ValueError(f"{name} is an array of {dtype} and shape {shape}")
    stated = start.tell() + prod(shape) * dtype.itemsize
    size = archive.getinfo(name).file_size
    if size != stated:
        raise ValueError(f"{name} has {size} bytes, but its header states {stated}")
    return prod(max(n, 1) for n in shape) * dtype.itemsize
