"""Tables of typed columns: Parquet, Arrow, NumPy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ._table import CHUNK, Table, TableError, readable

# Names that pandas and Dask give to an index without a name.
_INDEX_NAME = re.compile(r"__index_level_\d+__|__null_dask_index__")


def parquet_table(path: Path) -> Table:
    def read():
        n_read = 0
        with readable(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=CHUNK):
                n_read += batch.num_rows
                yield n_read / max(total, 1), _plain(batch)

    with readable(path), pq.ParquetFile(path) as file:
        schema, total = file.schema_arrow, file.metadata.num_rows
    return Table(path, schema.names, read, _index(schema))


def parquet_folder(path: Path) -> Table:
    """All Parquet files of a folder as one table; each has the columns of the first."""
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in (".parquet", ".pq"))
    if not files:
        raise TableError(f"{path} is a folder without Parquet files (*.parquet)")
    parts = [parquet_table(file) for file in files]
    names, schema = parts[0].names, pa.schema([])
    for file, part in zip(files, parts, strict=True):
        if other := sorted(set(part.names) ^ set(names)):
            raise TableError(
                f"{file} and {files[0]} have different columns (only one has {other[0]!r}); all "
                "parts of a table need the same columns"
            )
        if pq.read_metadata(file).num_rows == 0:  # its types mean nothing
            continue
        try:
            own = _plain(pa.RecordBatch.from_pylist([], schema=pq.read_schema(file))).schema
            schema = pa.unify_schemas([schema, own], promote_options="permissive")
        except pa.ArrowException as error:
            raise TableError(
                f"{file} has other types than the parts before it ({error}); all parts of a table "
                "need the same types"
            ) from error

    def typed(part):
        def read():
            for fraction, batch in part.read():
                if batch.num_rows:
                    yield fraction, batch.select(names).cast(schema)

        return Table(part.path, names, read, table.index)

    def read():
        for k, part in enumerate(table.parts):
            for fraction, batch in part.read():
                yield (k + fraction) / len(parts), batch

    table = Table(path, names, read, parts[0].index)
    table.parts = [typed(part) for part in parts]
    return table


def arrow_table(path: Path) -> Table:
    """Arrow, which is Feather version 2; long batches are cut."""

    def read():
        with readable(path), pa.OSFile(str(path)) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                batch = _plain(reader.get_batch(i))
                for start in range(0, batch.num_rows, CHUNK):
                    yield (i + 1) / reader.num_record_batches, batch.slice(start, CHUNK)

    with readable(path), pa.OSFile(str(path)) as file:
        schema = pa.ipc.open_file(file).schema
    return Table(path, schema.names, read, _index(schema))


def _index(schema: pa.Schema) -> set[str]:
    """The columns that hold the index of a table of pandas, by its metadata or their names."""
    try:
        told = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        named = {name for name in told if isinstance(name, str)}  # others describe a range
    except (KeyError, TypeError, ValueError):  # not of pandas, or damaged
        named = set()
    return {name for name in schema.names if name in named or _INDEX_NAME.fullmatch(name)}


def _plain(batch):
    """The batch with categories and string views as plain strings, which every writer takes."""
    batch.validate(full=True)  # offsets and texts of a damaged file would be read unchecked
    columns = []
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _array_table(path: Path, columns: dict[str, np.ndarray]) -> Table:
    def read():
        total = len(next(iter(columns.values())))
        for start in range(0, total, CHUNK):
            rows = slice(start, start + CHUNK)
            with readable(path):
                arrays = [pa.array(_native(c[rows])) for c in columns.values()]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            yield min(start + CHUNK, total) / total, batch

    return Table(path, list(columns), read)


def _native(column):
    """The column in one piece, in the byte order of this machine."""
    return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))


def npy_table(path: Path) -> Table:
    """One array: (n, d) with columns x0, x1, ..., or structured, whose fields are the columns."""
    array = _load(path)
    if not isinstance(array, np.ndarray):
        raise TableError(f"{path} is an archive of arrays; rename it to .npz")
    if array.dtype.names:
        return _array_table(path, {name: array[name] for name in array.dtype.names})
    return _array_table(path, _matrix(path, "x", array[:, None] if array.ndim == 1 else array))


def npz_table(path: Path) -> Table:
    """Arrays with equal numbers of rows: a vector y is column y, a matrix A columns A0, A1, ...

    Those of a matrix X are x0, x1, ..., as in a .npy file, so that a model takes both.
    """
    columns: dict[str, np.ndarray] = {}
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise TableError(f"{path} holds one array; rename it to .npy")
    with loaded as archive:
        for name in archive.files:
            array = _load(path, lambda name=name: archive[name])
            stem = "x" if name == "X" and "x" not in archive.files else name
            columns |= {name: array} if array.ndim == 1 else _matrix(path, stem, array)
    lengths = sorted({len(column) for column in columns.values()})
    if len(lengths) != 1:
        raise TableError(f"the arrays of {path} have different numbers of rows: {lengths}")
    return _array_table(path, columns)


def _load(path, load=None):
    try:
        return load() if load else np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header may raise anything
        # NumPy's own message advises to load it unsafely.
        raise TableError(
            f"cannot read {path}: it is damaged, or holds objects instead of numbers or texts"
        ) from error


def _matrix(path, name, array):
    if array.ndim != 2 or array.shape[1] == 0:
        raise TableError(f"{path}: the array {name!r} has shape {array.shape}; (n, d) is needed")
    return {f"{name}{j}": array[:, j] for j in range(array.shape[1])}
