"""The results of a study in one SQLite file: a row a task, each safe once it is written."""

from __future__ import annotations

import csv
import gzip
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..utils import atomic_write
from ._spec import Study, Task
from ._tasks import COLUMNS, Row

if TYPE_CHECKING:
    import pandas

_SQL_TYPES = {str: "TEXT", int: "INTEGER", float: "REAL"}
_KEY = ", ".join(Task._fields)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS results ("
    + ", ".join(f"{name} {_SQL_TYPES[kind]}" for name, kind in COLUMNS.items())
    + f", PRIMARY KEY ({_KEY}))",
    "CREATE TABLE IF NOT EXISTS study (name TEXT, fingerprint TEXT)",
)
# A row that is done stays: whatever comes twice is there once.
_PUT = (
    f"INSERT INTO results VALUES ({', '.join('?' * len(COLUMNS))}) ON CONFLICT ({_KEY}) "
    f"DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS)} "
    "WHERE results.status != 'done'"
)


class StoreError(RuntimeError):
    """The file of results cannot be read or written; the message says what to do."""


class Store:
    """The results of a study.

    Every row is on the disk when :meth:`put` returns (write-ahead log, synchronised), so neither
    a kill nor a loss of power takes a finished task away.

    Parameters
    ----------
    path : path-like
        File of the results.
    create : bool, default=False
        Whether to make the file if there is none.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from openset.study import Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder) / "results.sqlite", create=True) as store:
    ...         store.put({"dataset": "digits", "n_known": 3, "run": 0, "method": "PISVM",
    ...                    "status": "done", "NA": 0.8})
    ...         store.frame()[["dataset", "method", "NA"]]
      dataset method   NA
    0  digits  PISVM  0.8
    """

    def __init__(self, path: str | os.PathLike, *, create: bool = False):
        self.path = Path(path)
        if not create and not self.path.exists():
            raise StoreError(f"there are no results at {self.path}; run the study first.")
        if not self.path.parent.is_dir():
            raise StoreError(f"there is no folder {self.path.parent}; make it first.")
        with self._errors():
            # Others may read and write meanwhile; wait for them.
            self._connection = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
        try:
            with self._errors():
                self._connection.row_factory = sqlite3.Row
                if create:
                    self._connection.execute("PRAGMA journal_mode = WAL")
                    self._connection.execute("PRAGMA synchronous = FULL")
                    with self._transaction():
                        for statement in _SCHEMA:
                            self._connection.execute(statement)
                self._connection.execute("SELECT 1 FROM results LIMIT 1")
        except StoreError:
            self._connection.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def bind(self, study: Study) -> None:
        """Note which study the results are of; raise StoreError if they are of another.

        Parameters
        ----------
        study : Study
        """
        with self._errors(), self._transaction():
            bound = self._connection.execute("SELECT name, fingerprint FROM study").fetchone()
            if bound is None:
                self._connection.execute(
                    "INSERT INTO study VALUES (?, ?)", (study.name, study.fingerprint)
                )
            elif bound["fingerprint"] != study.fingerprint:
                raise StoreError(
                    f"{self.path} holds results of the study {bound['name']!r} with another seed, "
                    "search or grid; choose another store."
                )

    def put(self, *rows: Row) -> None:
        """Write rows, all or none. One that is done is never replaced, one that failed is.

        Parameters
        ----------
        *rows : dict
            Values by column; those left out are None.
        """
        values = [tuple(row.get(name) for name in COLUMNS) for row in rows]
        with self._errors(), self._transaction():
            self._connection.executemany(_PUT, values)

    def rows(self) -> list[Row]:
        """All rows, sorted by task.

        Returns
        -------
        list of dict
        """
        query = f"SELECT {', '.join(COLUMNS)} FROM results ORDER BY {_KEY}"
        with self._errors():
            return [dict(row) for row in self._connection.execute(query)]

    def tasks(self, status: str) -> set[Task]:
        """The tasks with a status.

        Parameters
        ----------
        status : {"done", "failed"}

        Returns
        -------
        set of Task
        """
        query = f"SELECT {_KEY} FROM results WHERE status = ?"
        with self._errors():
            return {Task(*row) for row in self._connection.execute(query, (status,))}

    def frame(self) -> pandas.DataFrame:
        """All rows as a table.

        Returns
        -------
        DataFrame
            One column for each of the columns of the store.
        """
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(COLUMNS))

    def export_csv(self, path: str | os.PathLike) -> int:
        """Write all rows to a CSV file.

        Parameters
        ----------
        path : path-like
            Compressed where the name ends in ``.gz``.

        Returns
        -------
        int
            Number of rows.
        """
        rows = self.rows()
        with atomic_write(path) as temporary:
            with _text(temporary, "wt") as file:
                writer = csv.DictWriter(file, list(COLUMNS), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        return len(rows)

    def import_csv(self, path: str | os.PathLike) -> int:
        """Add the rows of a CSV file that :meth:`export_csv` wrote, here or elsewhere.

        Parameters
        ----------
        path : path-like

        Returns
        -------
        int
            Number of rows in the file.
        """
        with _text(Path(path), "rt") as file:
            rows = list(_parsed(csv.reader(file), path))
        self.put(*rows)
        return len(rows)

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
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {_explain(str(error))}") from error


def _text(path: Path, mode: str):
    opened = gzip.open if path.suffix == ".gz" else open
    return opened(path, mode, newline="", encoding="utf-8")


def _explain(message: str) -> str:
    """What SQLite says, and what to do about it."""
    kept = "Finished tasks are kept."
    remedies = {
        "readonly": "make the file and its folder writable, or choose another store.",
        "unable to open": "make the file and its folder readable and writable.",
        "disk is full": f"make room and run again. {kept}",
        "disk I/O": f"the disk is full or broken; make room and run again. {kept}",
        "locked": "another process has held it for a minute; stop that one.",
        "not a database": "this is no file of results; choose another store.",
        "no such table": "this is no file of results; choose another store.",
    }
    for part, remedy in remedies.items():
        if part in message:
            return f"{message}: {remedy}"
    return message


def _parsed(lines: Iterable[list[str]], path) -> Iterator[Row]:
    lines = iter(lines)
    header = next(lines, [])
    if header != list(COLUMNS):
        missing = [name for name in COLUMNS if name not in header]
        problem = f"no column {missing[0]!r}" if missing else f"the columns {header}"
        raise ValueError(f"{path} has {problem}; it must be an export of a study.")
    for number, line in enumerate(lines, start=2):
        try:
            cells = zip(COLUMNS.items(), line, strict=True)
            row = {name: kind(cell) if cell else None for (name, kind), cell in cells}
            if None in [row[name] for name in Task._fields]:
                raise ValueError(f"one of {_KEY} is empty")
            if row["status"] not in ("done", "failed"):
                raise ValueError(f"status is {row['status']!r}")
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        yield row
