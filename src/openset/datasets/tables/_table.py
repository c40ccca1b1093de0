"""A table on disk as batches of rows, and what its readers share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from ...utils import Progress

# Rows per batch, where the format leaves the choice.
CHUNK = 65_536

# Yields batches, each with the fraction of the file that has been read.
Reader = Callable[[], Iterator[tuple[float, pa.RecordBatch]]]


class TableError(ValueError):
    """A table cannot be used; the message says where and what to do."""


class Table:
    """A table on disk: its path, the names of its columns in order, and its rows."""

    folder: TemporaryDirectory | None = None  # of a copy of standard input
    parts: list[Table] | None = None  # the files of a folder

    def __init__(self, path: Path, names: list[str], read: Reader, index: Iterable[str] = ()):
        self.path, self.names, self.read = path, names, read
        self.index = frozenset(index)  # columns that pandas wrote for the index of its rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order; columns of a text file are text, others are typed."""
        for _, batch in self.read():
            yield batch


def heads(table: Table, n_rows: int) -> Table:
    """The first rows of each part of a folder as a table, about `n_rows` in all."""
    parts = table.parts or [table]
    each = -(-n_rows // len(parts))

    def read():
        for k, part in enumerate(parts):
            left = each
            for batch in part.batches():
                yield k / len(parts), batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    break

    return Table(table.path, table.names, read, table.index)


def read_batches(table: Table, title: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table that have rows; show progress on a terminal."""
    progress = Progress(100, f"{title}, percent", sys.stderr.isatty())
    percent = 0
    for fraction, batch in table.read():
        if batch.num_rows:
            yield batch
        if int(100 * fraction) > percent:
            progress.step(int(100 * fraction) - percent)
            percent = int(100 * fraction)


def text_suffix(path: Path) -> str:
    """The suffix that says the format, in lower case; that before .gz for compressed text."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = plain.suffix.lower()
    return suffix if plain is path or suffix in (".csv", ".tsv", ".tab", ".txt") else ".gz"


@contextmanager
def readable(path: Path, encoding: str = "") -> Iterator[None]:
    """Turn the errors of a reader into one line with the remedy."""
    try:
        yield
    except pa.lib.ArrowCancelled as error:  # Ctrl-C was caught by the reader, not by Python
        raise KeyboardInterrupt from error
    except (pa.ArrowException, ValueError, OSError, LookupError) as error:
        if isinstance(error, LookupError) and "encoding" in str(error):
            raise TableError(f"unknown encoding {encoding!r}; try latin-1 or utf-16") from None
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            raise TableError(
                f"{path} is not {encoding} text; set its encoding, for example to latin-1"
            ) from error
        raise TableError(f"cannot read {path}: {' '.join(str(error).split())[:200]}") from error


def require(table: Table, names: list[str], what: str) -> None:
    """Raise TableError, naming close matches, unless the table has all columns."""
    absent = [name for name in names if name not in table.names]
    if not absent:
        return
    first = absent[0]
    spare = [name for name in table.names if name not in names]
    close = get_close_matches(first.lower(), [name.lower() for name in spare], n=3)
    similar = [name for name in spare if name.lower() in close]
    if similar:
        hint = f"; did you mean {' or '.join(map(repr, similar))}?"
    else:
        shown = ", ".join(table.names[:8]) + (", ..." if len(table.names) > 8 else "")
        hint = f"; its columns are {shown}"
    more = f" (and {len(absent) - 1} more: {', '.join(absent[1:6])})" if absent[1:] else ""
    raise TableError(f"{table.path} has no column {first!r}, {what}{more}{hint}")
