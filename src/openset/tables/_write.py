"""Tables written batch by batch; the format follows the suffix of the file name."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ..utils import atomic_write
from ._files import TableError, text_suffix

WRITABLE = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow", ".feather")


class _TextWriter:
    """CSV or TSV with quotes only where they are needed."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, delimiter: str):
        self._delimiter = delimiter
        self._file = file
        head = io.StringIO()
        csv.writer(head, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
        self._file.write(head.getvalue().encode())

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            content = self._rendered(batch, "none")
        except pa.ArrowInvalid:  # a separator, a quote or a line break in some text of the batch
            try:
                content = self._rendered(batch, "needed")
            except pa.ArrowInvalid as error:
                raise TableError(
                    f"a text table cannot hold every column ({error}); write .parquet instead"
                ) from error
        self._file.write(content)

    def _rendered(self, batch, quoting):
        sink = pa.BufferOutputStream()
        options = pacsv.WriteOptions(
            include_header=False, delimiter=self._delimiter, quoting_style=quoting
        )
        pacsv.write_csv(batch, sink, options)
        return sink.getvalue()

    def close(self):
        self._file.close()


def check_writable(path: Path) -> None:
    """Raise TableError if no table can be written there."""
    if str(path) == "-":
        return
    if text_suffix(path) not in WRITABLE:
        raise TableError(
            f"cannot write {path}: the suffix {path.suffix!r} is none of {', '.join(WRITABLE)}"
        )
    if not path.parent.is_dir():
        raise TableError(f"cannot write {path}: there is no folder {path.parent}; create it first")


@contextmanager
def open_writer(path: Path, schema: pa.Schema) -> Iterator[Any]:
    """Yield a writer with ``write(batch)``; the whole file appears on a clean exit, or none."""
    check_writable(path)
    if str(path) == "-":
        yield _TextWriter(sys.stdout.buffer, schema, ",")
        sys.stdout.buffer.flush()
        return
    with atomic_write(path) as temporary:
        delimiter = {".csv": ",", ".tsv": "\t"}.get(text_suffix(path))
        writer: Any
        if delimiter is not None:
            file: Any = (gzip.open if path.suffix.lower() == ".gz" else open)(temporary, "wb")
            writer = _TextWriter(file, schema, delimiter)
        elif path.suffix.lower() == ".parquet":
            writer = pq.ParquetWriter(temporary, schema)
        else:
            writer = pa.ipc.new_file(str(temporary), schema)
        try:
            yield writer
            writer.close()
        except BaseException:
            with suppress(OSError, pa.ArrowException):  # on a full disk closing fails once more
                writer.close()
            raise
