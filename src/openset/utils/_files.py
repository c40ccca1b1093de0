"""Writing a file so that a reader sees the old one or the new one, never a half."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yield the path of a temporary file beside `path`; a clean exit renames it to `path`.

    The content is on the disk (fsync) before the name moves, so neither a kill nor a loss of
    power leaves a half-written file. After an exception the temporary file is gone and `path`
    is as it was.

    Parameters
    ----------
    path : path-like
        File to be written or replaced; its folder must exist.

    Yields
    ------
    Path
        Where to write.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {path}: there is no folder {path.parent}; make it first"
        )
    with NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix, delete=False
    ) as made:
        temporary = Path(made.name)
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        # A temporary file is private; the file a user asked for follows their umask.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
