"""Atomic writes: a reader sees the old file or the complete new one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from zlib import crc32

try:
    import fcntl
except ModuleNotFoundError:  # Windows: leftovers are not found there
    fcntl = None  # type: ignore[assignment]


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yield the path of a temporary file, which is renamed to `path` on a clean exit.

    The temporary file is in the folder of `path`. Its content is flushed to disk (fsync) before it
    is renamed, so neither a killed process nor a power failure leaves a partial file. After an
    exception the temporary file is deleted and `path` is unchanged. Temporary files of earlier
    writers of `path` that were killed are deleted. A file that is replaced keeps its mode, and a
    symbolic link is followed. An OSError names `path`.

    Parameters
    ----------
    path : path-like
        File to create or replace; its folder must exist.

    Yields
    ------
    Path
        Where to write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from openset.utils import atomic_write
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "answers.csv") as temporary:
    ...         _ = temporary.write_text("prediction")
    ...     (Path(folder) / "answers.csv").read_text()
    'prediction'
    """
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
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
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
            os.close(lock)


def _create(path: Path) -> tuple[Path, int]:
    """Create a temporary file, locked while its writer lives; delete those of dead writers."""
    prefix = f".openset-{crc32(path.name.encode(errors='surrogateescape')):08x}-"
    for leftover in path.parent.glob(f"{prefix}*"):
        _delete_if_dead(leftover)
    suffix = path.suffix if len(path.suffix) <= 16 else ""  # a name has at most 255 bytes
    while True:
        temporary = path.parent / f"{prefix}{token_hex(4)}{suffix}"
        # Created with the mode of an ordinary file, so that the umask need not be known.
        try:
            lock = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        except FileExistsError:
            continue
        if fcntl is not None:
            with suppress(OSError):  # some network file systems cannot lock
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if temporary.exists():
            return temporary, lock
        os.close(lock)  # another writer deleted it before it was locked


def _delete_if_dead(leftover: Path) -> None:
    if fcntl is None:
        return
    with suppress(OSError):
        lock = os.open(leftover, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()
        finally:
            os.close(lock)
