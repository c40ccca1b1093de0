"""The results of a study in one SQLite file: one row per task, safe once it is written."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..registry import RENAMED_METHODS
from ..utils import atomic_write
from ._study import Study, Task
from ._tasks import COLUMNS, Row

if TYPE_CHECKING:
    import pandas

# Seconds to wait for other processes.
_PATIENCE = 60.0
_SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_KEY = ", ".join(Task._fields)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS results ("
    + ", ".join(f"{name} {_SQL_TYPES[kind]}" for name, kind in COLUMNS.items())
    + f", digest TEXT, PRIMARY KEY ({_KEY}))"
)
_STORED = [*COLUMNS, "digest"]
# A row that is done is never replaced.
_PUT = (
    f"INSERT INTO results ({', '.join(_STORED)}) VALUES ({', '.join('?' * len(_STORED))}) "
    f"ON CONFLICT ({_KEY}) "
    f"DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _STORED)} "
    "WHERE results.status != 'done'"
)
# FMmicro is the accuracy over all samples; exports contain it under this name, too.
_ACCURACY = "accuracy"
# Columns that older exports do not have.
_NEW = ("extra", "fingerprint")


class StoreError(RuntimeError):
    """The file of results cannot be read or written; the message says what to do."""


class Store:
    """The results of a study.

    Every row is on the disk when :meth:`put` returns (write-ahead log, synchronised), so a finished
    task survives a kill or a power failure. A row that was changed since is not read: its digest is
    wrong. Stores of version 0.1.0 get digests when a row is written.

    Parameters
    ----------
    path : path-like
        File of the results.
    create : bool, default=False
        Whether to create the file if there is none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from openset.study import Store
    >>> row = {"dataset": "digits", "n_known": 3, "run": 0, "method": "PISVM", "status": "done"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder) / "results.sqlite", create=True) as store:
    ...         store.put(row)
    ...         sorted(store.tasks("done"))
    [Task(dataset='digits', n_known=3, run=0, method='PISVM')]
    """

    def __init__(self, path: str | os.PathLike, *, create: bool = False):
        self.path = Path(path)
        if not create and not self.path.exists():
            raise StoreError(f"there are no results at {self.path}; run the study first.")
        if not self.path.parent.is_dir():
            raise StoreError(f"there is no folder {self.path.parent}; create it first.")
        with self._errors():
            # Others may read and write meanwhile; wait for them.
            self._connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        try:
            with self._errors():
                self._open(create)
        except StoreError:
            self._connection.close()
            raise

    def _open(self, create: bool) -> None:
        """Check the structure of the file, and make the table if there is none."""
        execute = self._connection.execute
        (state,) = execute("PRAGMA integrity_check(1)").fetchone()
        if state != "ok":
            raise sqlite3.DatabaseError(f"malformed: {state}")
        # A foreign view or trigger may never end.
        if execute("SELECT 1 FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone():
            raise sqlite3.DatabaseError("not a database of results")
        if create:
            self._write_ahead()
            execute("PRAGMA synchronous = FULL")
            with self._transaction():
                execute(_SCHEMA)
        execute("SELECT extra, fingerprint FROM results LIMIT 1")

    def _write_ahead(self):
        """Readers go on while others write. SQLite does not wait for a lock here: try again."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def check(self, study: Study) -> None:
        """Raise StoreError if a row of one of the study's methods has another fingerprint.

        Parameters
        ----------
        study : Study
        """
        if methods := _foreign(self.rows(), study):
            raise StoreError(
                f"{self.path} holds results of {', '.join(methods)} with another seed, search or "
                "grid, or another file of the method; choose another store."
            )

    def put(self, *rows: Row) -> None:
        """Write rows, all or none. A row that is done is never replaced; one that failed is.

        Parameters
        ----------
        *rows : dict
            Values by column; missing ones are None.
        """
        with self._errors(), self._transaction():
            if not self._has_digests():
                before = self.rows()
                self._connection.execute("ALTER TABLE results ADD COLUMN digest TEXT")
                self._connection.execute("DELETE FROM results")
                self._insert(before)
            self._insert(rows)

    def rows(self) -> list[Row]:
        """Return all rows, sorted by task.

        Returns
        -------
        list of dict
        """
        names = ", ".join(_STORED if (has_digests := self._has_digests()) else COLUMNS)
        query = f"SELECT rowid, {names} FROM results ORDER BY {_KEY}"
        rows = []
        with self._errors():
            for number, *values in self._connection.execute(query):
                row = dict(zip(COLUMNS, values, strict=False))
                intact = all(type(row[name]) in (COLUMNS[name], type(None)) for name in row)
                if not intact or (has_digests and values[-1] != _digest(row)):
                    raise StoreError(
                        f"{self.path}: row {number} was damaged after it was written. Take a copy "
                        "of the file that is intact, or delete the row and run again, in sqlite3 "
                        f"by: DELETE FROM results WHERE rowid = {number};"
                    )
                rows.append(row)
        return rows

    def tasks(self, status: str) -> set[Task]:
        """Return the tasks with a status.

        Parameters
        ----------
        status : {"done", "failed"}

        Returns
        -------
        set of Task
        """
        rows = (row for row in self.rows() if row["status"] == status)
        return {Task(*(row[name] for name in Task._fields)) for row in rows}

    def frame(self) -> pandas.DataFrame:
        """Return all rows as a table.

        Returns
        -------
        DataFrame
        """
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(COLUMNS))

    def export_csv(self, path: str | os.PathLike) -> int:
        """Write all rows to a CSV file; its column ``accuracy`` is another name of FMmicro.

        Parameters
        ----------
        path : path-like
            Compressed if the name ends in ``.gz``.

        Returns
        -------
        int
            Number of rows.
        """
        rows = self.rows()
        with atomic_write(path) as temporary, _open(temporary, "wt") as file:
            writer = csv.DictWriter(file, [*COLUMNS, _ACCURACY], lineterminator="\n")
            writer.writeheader()
            writer.writerows({**row, _ACCURACY: row["FMmicro"]} for row in rows)
        return len(rows)

    def import_csv(self, path: str | os.PathLike, study: Study | None = None) -> int:
        """Add the rows of a CSV file that :meth:`export_csv` wrote, here or elsewhere.

        Methods that were renamed since get their new names. Columns that a store does not have
        (older exports have some) go into the column ``extra``.

        Parameters
        ----------
        path : path-like
        study : Study, default=None
            The study that the rows must belong to: the same seed, search, grids and protocol. None
            accepts all rows, for a report on old results.

        Returns
        -------
        int
            Number of rows in the file.
        """
        try:
            with _open(Path(path), "rt") as file:
                rows = list(_parsed(csv.reader(file), path))
        except (csv.Error, EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if study is not None and (methods := _foreign(rows, study)):
            raise StoreError(
                f"{path} holds results of {', '.join(methods)} that do not belong to the study "
                f"{study.name!r}: the seed, the search or the grid is another one. Run these tasks "
                "again."
            )
        self.put(*rows)
        return len(rows)

    def _has_digests(self) -> bool:
        with self._errors():
            columns = self._connection.execute("PRAGMA table_info(results)")
            return "digest" in [name for _, name, *_ in columns]

    def _insert(self, rows: Iterable[Row]) -> None:
        values = [(*row.values(), _digest(row)) for row in map(_typed, rows)]
        self._connection.executemany(_PUT, values)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError) as error:  # integers have 64 bits
            raise StoreError(f"{self.path}: {_explain(str(error))}") from error
        except UnicodeDecodeError as error:  # of SQLite's own message, which quotes the file
            raise StoreError(f"{self.path}: {_explain('malformed')}") from error


def _typed(row: Row) -> Row:
    """The row as SQLite returns it: no NaN and no negative zero."""
    given = ((name, kind, row.get(name)) for name, kind in COLUMNS.items())
    return {n: None if v is None or v != v else kind(v) + kind() for n, kind, v in given}


def _digest(row: Row) -> str:
    return hashlib.sha256(repr(list(row.values())).encode()).hexdigest()[:16]


def _foreign(rows: list[Row], study: Study) -> list[str]:
    """Methods with rows whose fingerprint is not that of the study."""
    # The libraries, behind the dash, may differ: a report says how many sets of them there are. The
    # row of a task that killed its process has no fingerprint.
    expected = {method: study.fingerprint(method) for method in study.methods}
    judged = [row for row in rows if row["status"] == "done" or row["fingerprint"]]
    stored = {(row["method"], (row["fingerprint"] or "").split("-")[0]) for row in judged}
    return sorted(method for method, digest in stored if expected.get(method, digest) != digest)


def _open(path: Path, mode: str):
    opened = gzip.open if path.suffix == ".gz" else open
    return opened(path, mode, newline="", encoding="utf-8")


def _explain(message: str) -> str:
    """The message of SQLite, and what to do about it."""
    again = "free some space and run again. Finished tasks are kept."
    other = "this is not a file of results; choose another store."
    remedies = {
        "readonly": "make the file and its folder writable, or choose another store.",
        "unable to open": "make the file and its folder readable and writable.",
        "disk is full": again,
        "disk I/O": f"the disk is full or broken; {again}",
        "locked": "another process has locked it for a minute; stop that process.",
        "not a database": other,
        "no such table": other,
        "malformed": "the file is damaged; take a copy that is intact, or save what is left by "
        "the command .recover of sqlite3.",
        "no such column": "an older version wrote it; export it there and import the CSV file.",
    }
    return next((f"{message}: {remedies[part]}" for part in remedies if part in message), message)


def _parsed(lines: Iterable[list[str]], path) -> Iterator[Row]:
    lines = iter(lines)
    header = next(lines, [])
    _check_header(header, path)
    for number, line in enumerate(lines, start=2):
        try:
            cells = {name: cell for name, cell in zip(header, line, strict=True) if cell}
            yield _parsed_row(cells)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None


def _check_header(header: list[str], path) -> None:
    # Older exports lack two of the columns.
    expected = [name for name in COLUMNS if name in header or name not in _NEW]
    if [name for name in header if name in COLUMNS] != expected:
        missing = [name for name in expected if name not in header]
        problem = f"no column {missing[0]!r}" if missing else f"the columns {header}"
        raise ValueError(f"{path} has {problem}; it must be an export of a study.")


def _parsed_row(cells: dict[str, str]) -> Row:
    """The row of the cells that are not empty; other columns go to the column ``extra``."""
    row: Row = {name: kind(cells[name]) for name, kind in COLUMNS.items() if name in cells}
    row = dict.fromkeys(COLUMNS) | row
    if more := {n: json.loads(cells[n]) for n in cells if n not in (*COLUMNS, _ACCURACY)}:
        row["extra"] = json.dumps(json.loads(row["extra"] or "{}") | more)
    row["method"] = RENAMED_METHODS.get(row["method"], row["method"])
    if None in [row[name] for name in Task._fields]:
        raise ValueError(f"one of {_KEY} is empty")
    if row["status"] not in ("done", "failed"):
        raise ValueError(f"status is {row['status']!r}")
    return row
