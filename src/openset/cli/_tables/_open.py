"""Every readable format as batches of rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from openset.utils import Progress

# Rows of a batch, where the format leaves the choice.
CHUNK = 65_536


class TableError(ValueError):
    """A table cannot be used; the message says where and what to do."""


class Table(Protocol):
    """A table on disk.

    Attributes
    ----------
    path : Path
    names : list of str
        The columns, in order.
    """

    path: Path
    names: list[str]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order; texts as they stand in a text file, else typed columns."""
        ...

    def done(self) -> float:
        """Which part of the file the running iteration has read, from 0 to 1."""
        ...


def open_table(path: str | os.PathLike, encoding: str = "utf-8") -> Table:
    """Open a table; nothing but its head is read.

    Parameters
    ----------
    path : path-like
        A file .csv, .tsv, .parquet, .arrow or .feather, .npy, .npz, or .svm, .svmlight or .libsvm.
    encoding : str, default="utf-8"
        Of a text file.

    Returns
    -------
    Table
    """
    from . import _arrays, _arrow, _csv

    path = Path(path)
    kinds = {
        (".csv", ".tsv", ".tab", ".txt"): lambda: _csv.CsvTable(path, encoding),
        (".parquet", ".pq"): lambda: _arrow.ParquetTable(path),
        (".arrow", ".feather", ".ipc"): lambda: _arrow.ArrowTable(path),
        (".npy",): lambda: _arrays.npy_table(path),
        (".npz",): lambda: _arrays.npz_table(path),
        (".svm", ".svmlight", ".libsvm"): lambda: _arrays.SvmlightTable(path),
    }
    if not path.exists():
        raise TableError(f"there is no file {path}")
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a table")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty")
    for endings, opened in kinds.items():
        if path.suffix.lower() in endings:
            table = opened()
            break
    else:
        known = ", ".join(ending for endings in kinds for ending in endings)
        raise TableError(f"{path} has an unknown ending {path.suffix!r}; it can be {known}")
    twice = sorted({name for name in table.names if table.names.count(name) > 1})
    if twice:
        raise TableError(f"{path} has more than one column named {twice[0]!r}; rename them")
    return table


def read_batches(table: Table, title: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table that have rows; on a terminal, show how far it is."""
    progress = Progress(100, f"{title}, percent", sys.stderr.isatty())
    percent = 0
    for batch in table.batches():
        if batch.num_rows:
            yield batch
        now = int(100 * table.done())
        if now > percent:
            progress.step(now - percent)
            percent = now


def unreadable(path: Path, error: Exception) -> TableError:
    """One line about a file that a library cannot read."""
    reason = " ".join(str(error).split())
    return TableError(f"cannot read {path}: {reason[:200]}")
