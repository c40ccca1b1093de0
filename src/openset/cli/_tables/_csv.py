"""Text tables: comma, semicolon or tab between the columns, read by pyarrow as they stand."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

from ._open import TableError, unreadable

# Bytes of a batch: large enough for the parser to work at speed, small beside the memory.
_BLOCK = 4 * 2**20


class CsvTable:
    """A text table. Every column is text here, so that what passes through is not changed."""

    def __init__(self, path: Path, encoding: str):
        self.path, self._encoding = path, encoding
        self._file, self._size = None, path.stat().st_size
        with self._translated(), pa.OSFile(str(path)) as file:
            self._delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else self._guess()
            self.names = self._reader(file, None).schema.names

    def batches(self) -> Iterator[pa.RecordBatch]:
        types = dict.fromkeys(self.names, pa.string())
        with self._translated(), pa.OSFile(str(self.path)) as self._file:
            yield from self._reader(self._file, types)

    def done(self) -> float:
        closed = self._file is None or self._file.closed
        return 1.0 if closed else self._file.tell() / self._size

    def _reader(self, file, types):
        return pacsv.open_csv(
            file,
            read_options=pacsv.ReadOptions(block_size=_BLOCK, encoding=self._encoding),
            # Quoted line breaks are legal, and cannot be told apart without looking.
            parse_options=pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )

    def _guess(self):
        """The separator that the first line has most of."""
        with open(self.path, "rb") as file:
            head = file.readline(2**20).decode(self._encoding, errors="replace")
        row = next(csv.reader([head]), [])  # so that commas in quotes do not count
        return max(",;\t|", key=(lambda c: len(row) - 1 if c == "," else head.count(c)))

    def _translated(self):
        return _Translated(self.path, self._encoding)


class _Translated:
    """Turn the errors of the reader into one line with the remedy."""

    def __init__(self, path, encoding):
        self._path, self._encoding = path, encoding

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if isinstance(error, pa.lib.ArrowCancelled):  # Ctrl-C met the reader, not Python
            raise KeyboardInterrupt from error
        if isinstance(error, LookupError) and "encoding" in str(error):
            raise TableError(f"unknown encoding {self._encoding!r}; try latin-1 or utf-16")
        if isinstance(error, UnicodeError) or (
            isinstance(error, pa.ArrowInvalid) and "UTF8" in str(error)
        ):
            raise TableError(
                f"{self._path} is not {self._encoding} text; name its encoding, for example "
                "--encoding latin-1"
            ) from error
        if isinstance(error, pa.ArrowException):
            raise unreadable(self._path, error) from error
