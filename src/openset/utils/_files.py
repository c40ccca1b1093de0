"""Atomic writes: a reader sees the old file or the complete new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile


@contextmanager
def atomic_write(path: str | os.PathLike) -> Iterator[Path]:
    """Yield the path of a temporary file, which is renamed to `path` on a clean exit.

    The temporary file is in the folder of `path`. Its content is flushed to disk (fsync) before it
    is renamed, so neither a killed process nor a power failure leaves a partial file. After an
    exception the temporary file is deleted and `path` is unchanged.

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
        # A temporary file is private; the final file follows the user's umask.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
