"""Open a table by the suffix of its name."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from ._arrays import arrow_table, npy_table, npz_table, parquet_folder, parquet_table
from ._table import Table, TableError, text_suffix
from ._text import csv_table, svmlight_table


def open_table(path: str | os.PathLike, encoding: str = "utf-8") -> Table:
    """Open a table by the suffix of its name; only its head is read.

    A folder is a table of Parquet parts, in the order of their names. Text tables may be
    compressed by gzip (.csv.gz); ``-`` is a CSV or Parquet table on standard input, which is
    copied to a temporary file first.
    """
    path = Path(path)
    if str(path) == "-":
        return _standard_input(encoding)
    formats: dict[tuple[str, ...], Callable[[], Table]] = {
        (".csv", ".tsv", ".tab", ".txt"): lambda: csv_table(path, encoding),
        (".parquet", ".pq"): lambda: parquet_table(path),
        (".arrow", ".feather", ".ipc"): lambda: arrow_table(path),
        (".npy",): lambda: npy_table(path),
        (".npz",): lambda: npz_table(path),
        (".svm", ".svmlight", ".libsvm"): lambda: svmlight_table(path),
    }
    if not path.exists():
        raise TableError(f"there is no file {path}")
    if path.is_dir():
        return _unique_names(parquet_folder(path))
    if not path.is_file():  # a table is read more than once
        raise TableError(f"{path} is a device or a FIFO, not a table; copy it to a file")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty")
    suffix = text_suffix(path)
    for suffixes, opened in formats.items():
        if suffix in suffixes:
            return _unique_names(opened())
    known = ", ".join(suffix for suffixes in formats for suffix in suffixes)
    raise TableError(f"{path} has an unknown suffix {path.suffix!r}; use one of {known}, .csv.gz")


def _unique_names(table: Table) -> Table:
    name, count = Counter(table.names).most_common(1)[0] if table.names else ("", 1)
    if count > 1:
        header = "; is the first line a header?" if name.replace(".", "").isdigit() else ""
        raise TableError(
            f"{table.path} has more than one column named {name!r}; rename them{header}"
        )
    return table


def _standard_input(encoding: str) -> Table:
    folder = TemporaryDirectory(prefix="openset-")
    copy = Path(folder.name, "table")
    with open(copy, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with open(copy, "rb") as file:
        head = file.read(4)
    suffix = ".parquet" if head == b"PAR1" else ".csv.gz" if head[:2] == b"\x1f\x8b" else ".csv"
    if not head:
        raise TableError("standard input is empty")
    table = open_table(copy.rename(copy.with_name(f"table{suffix}")), encoding)
    table.path, table.folder = Path("standard input"), folder  # the folder lives as long
    return table
