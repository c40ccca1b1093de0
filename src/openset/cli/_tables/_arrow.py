"""Parquet, Arrow and Feather files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ._open import CHUNK, unreadable


class ParquetTable:
    """A Parquet file, read by row groups."""

    def __init__(self, path: Path):
        self.path, self._rows = path, 0
        try:
            with pq.ParquetFile(path) as file:
                self.names = file.schema_arrow.names
                self._total = file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, error) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._rows = 0
        try:
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(batch_size=CHUNK):
                    self._rows += batch.num_rows
                    yield _plain(batch)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(self.path, error) from error

    def done(self) -> float:
        return self._rows / max(self._total, 1)


class ArrowTable:
    """An Arrow file (Feather of the second version), batch by batch; long batches are cut."""

    def __init__(self, path: Path):
        self.path, self._read, self._total = path, 0, 1
        try:
            with pa.OSFile(str(path)) as file:
                self.names = pa.ipc.open_file(file).schema.names
        except (pa.ArrowException, OSError) as error:
            raise unreadable(path, error) from error

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            with pa.OSFile(str(self.path)) as file:
                reader = pa.ipc.open_file(file)
                self._total = reader.num_record_batches
                for i in range(self._total):
                    self._read = i + 1
                    batch = _plain(reader.get_batch(i))
                    for start in range(0, batch.num_rows, CHUNK):
                        yield batch.slice(start, CHUNK)
        except (pa.ArrowException, OSError) as error:
            raise unreadable(self.path, error) from error

    def done(self) -> float:
        return self._read / max(self._total, 1)


def _plain(batch):
    """The batch with categories and views of texts as plain texts, which every writer takes."""
    columns = []
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
