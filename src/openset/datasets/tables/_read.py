"""Every readable format as batches of rows."""

from __future__ import annotations

import csv
import gzip
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from sklearn.datasets import load_svmlight_file

from openset.utils import Progress

# Rows per batch, where the format leaves the choice.
CHUNK = 65_536
# Bytes per batch of CSV: enough for the parser to work at full speed.
CSV_BLOCK = 4 * 2**20
# Bytes of text per batch of SVMlight.
SVMLIGHT_WINDOW = 2**20

# Texts that mean a missing value.
_MISSING = ["", "na", "n/a", "nan", "null", "none", "?", "-"]
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"

# Yields batches, each with the fraction of the file that has been read.
Reader = Callable[[], Iterator[tuple[float, pa.RecordBatch]]]


# Largest feature index of an SVMlight file.
_MOST_COLUMNS = 10**6


class TableError(ValueError):
    """A table cannot be used; the message says where and what to do."""


class Table:
    """A table on disk: its path, the names of its columns in order, and its rows."""

    folder: TemporaryDirectory | None = None  # of a copy of standard input

    def __init__(self, path: Path, names: list[str], read: Reader):
        self.path, self.names, self.read = path, names, read

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order; columns of a text file are text, others are typed."""
        for _, batch in self.read():
            yield batch


def open_table(path: str | os.PathLike, encoding: str = "utf-8") -> Table:
    """Open a table by the suffix of its name; only its head is read.

    A folder is a table of Parquet parts, in the order of their names. Text tables may be compressed
    by gzip (.csv.gz); ``-`` is a CSV or Parquet table on standard
    input, which is copied to a temporary file first.
    """
    path = Path(path)
    if str(path) == "-":
        return _standard_input(encoding)
    formats: dict[tuple[str, ...], Callable[[], Table]] = {
        (".csv", ".tsv", ".tab", ".txt"): lambda: _csv_table(path, encoding),
        (".parquet", ".pq"): lambda: _parquet_table(path),
        (".arrow", ".feather", ".ipc"): lambda: _arrow_table(path),
        (".npy",): lambda: _npy_table(path),
        (".npz",): lambda: _npz_table(path),
        (".svm", ".svmlight", ".libsvm"): lambda: _svmlight_table(path),
    }
    if not path.exists():
        raise TableError(f"there is no file {path}")
    if path.is_dir():
        return _parquet_folder(path)
    if not path.is_file():  # a table is read more than once
        raise TableError(f"{path} is a device or a FIFO, not a table; copy it to a file")
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty")
    suffix = text_suffix(path)
    for suffixes, opened in formats.items():
        if suffix in suffixes:
            table = opened()
            break
    else:
        known = ", ".join(suffix for suffixes in formats for suffix in suffixes)
        raise TableError(
            f"{path} has an unknown suffix {path.suffix!r}; use one of {known}, .csv.gz"
        )
    twice = sorted({name for name in table.names if table.names.count(name) > 1})
    if twice:
        raise TableError(f"{path} has more than one column named {twice[0]!r}; rename them")
    return table


def text_suffix(path: Path) -> str:
    """The suffix that says the format, in lower case; that before .gz for compressed text."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = plain.suffix.lower()
    return suffix if plain is path or suffix in (".csv", ".tsv", ".tab", ".txt") else ".gz"


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


@contextmanager
def _readable(path: Path, encoding: str = "") -> Iterator[None]:
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


def _csv_table(path: Path, encoding: str) -> Table:
    """Comma, semicolon, tab or bar between columns. All columns are text, so none is changed."""
    _check_text(path, encoding)

    def open_csv(file, types):
        return pacsv.open_csv(
            file,
            read_options=pacsv.ReadOptions(block_size=CSV_BLOCK, encoding=encoding),
            # Quoted line breaks are legal, and can only be found by parsing.
            parse_options=pacsv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(column_types=types, strings_can_be_null=False),
        )

    def read():
        size = path.stat().st_size
        with _readable(path, encoding), pa.OSFile(str(path)) as file:
            for batch in open_csv(plain(file), dict.fromkeys(names, pa.string())):
                yield file.tell() / size, batch

    def plain(file):
        return pa.CompressedInputStream(file, "gzip") if path.suffix.lower() == ".gz" else file

    with _readable(path, encoding), pa.OSFile(str(path)) as file:
        tabs = text_suffix(path) in (".tsv", ".tab")
        delimiter = "\t" if tabs else _delimiter(path, encoding)
        names = open_csv(plain(file), None).schema.names
    return Table(path, names, read)


def _check_text(path: Path, encoding: str) -> None:
    """Raise TableError for text that the reader would misread."""
    with open(path, "rb") as file:
        head = file.read(2**16)
    wide = encoding.lower().replace("-", "").replace("_", "").startswith(("utf16", "utf32"))
    # In UTF-16 about every second byte of a table is zero.
    zeros = max(head[0::2].count(0), head[1::2].count(0)) / max(1, len(head) / 2)
    if not wide and (head.startswith((b"\xff\xfe", b"\xfe\xff")) or zeros > 0.7):
        raise TableError(
            f"{path} is not {encoding} text; it looks like UTF-16: set its encoding to utf-16 "
            "(--encoding utf-16)"
        )
    if b"\r" in head and b"\n" not in head:
        raise TableError(
            f"{path} has lines that end in CR alone, as on old Macs; convert them, for example "
            "with: tr '\\r' '\\n'"
        )


def _delimiter(path: Path, encoding: str) -> str:
    """The separator that occurs most often in the first line."""
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as file:
        head = file.readline(2**20).decode(encoding, errors="replace")
    try:
        row = next(csv.reader([head]), [])  # so that commas in quotes do not count
    except csv.Error:  # a very long field, or a CR in the middle
        row = head.split(",")
    return max(",;\t|", key=(lambda c: len(row) - 1 if c == "," else head.count(c)))


def _parquet_table(path: Path) -> Table:
    def read():
        n_read = 0
        with _readable(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=CHUNK):
                n_read += batch.num_rows
                yield n_read / max(total, 1), _plain(batch)

    with _readable(path), pq.ParquetFile(path) as file:
        names, total = file.schema_arrow.names, file.metadata.num_rows
    return Table(path, names, read)


def _parquet_folder(path: Path) -> Table:
    """All Parquet files of a folder as one table; each has the columns of the first."""
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in (".parquet", ".pq"))
    if not files:
        raise TableError(f"{path} is a folder without Parquet files (*.parquet)")
    parts = [open_table(file) for file in files]
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

    def read():
        for k, part in enumerate(parts):
            for fraction, batch in part.read():
                if batch.num_rows:
                    yield (k + fraction) / len(parts), batch.select(names).cast(schema)

    return Table(path, names, read)


def _arrow_table(path: Path) -> Table:
    """Arrow, which is Feather version 2; long batches are cut."""

    def read():
        with _readable(path), pa.OSFile(str(path)) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                batch = _plain(reader.get_batch(i))
                for start in range(0, batch.num_rows, CHUNK):
                    yield (i + 1) / reader.num_record_batches, batch.slice(start, CHUNK)

    with _readable(path), pa.OSFile(str(path)) as file:
        names = pa.ipc.open_file(file).schema.names
    return Table(path, names, read)


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
            with _readable(path):
                arrays = [pa.array(_native(c[rows])) for c in columns.values()]
                batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            yield min(start + CHUNK, total) / total, batch

    return Table(path, list(columns), read)


def _native(column):
    """The column in one piece, in the byte order of this machine."""
    return np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("="))


def _npy_table(path: Path) -> Table:
    """One array: (n, d) with columns x0, x1, ..., or structured, whose fields are the columns."""
    array = _load(path)
    if not isinstance(array, np.ndarray):
        raise TableError(f"{path} is an archive of arrays; rename it to .npz")
    if array.dtype.names:
        return _array_table(path, {name: array[name] for name in array.dtype.names})
    return _array_table(path, _matrix(path, "x", array[:, None] if array.ndim == 1 else array))


def _npz_table(path: Path) -> Table:
    """Arrays with equal numbers of rows: a vector y is column y, a matrix X columns X0, X1, ..."""
    columns: dict[str, np.ndarray] = {}
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        raise TableError(f"{path} holds one array; rename it to .npy")
    with loaded as archive:
        for name in archive.files:
            array = _load(path, lambda name=name: archive[name])
            columns |= {name: array} if array.ndim == 1 else _matrix(path, name, array)
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


def _svmlight_table(path: Path) -> Table:
    """Lines ``label index:value ...``: columns label, f1, f2, ..., zero where no value is given."""

    def last_index(line):
        pair = line.partition(b"#")[0].rpartition(b":")[0].split()
        return int(pair[-1]) if pair and pair[-1].isdigit() else 0

    def read():
        n_read, size = 0, path.stat().st_size
        with _readable(path), open(path, "rb") as file:
            while lines := file.readlines(SVMLIGHT_WINDOW):
                text = b"".join(lines)
                n_read += len(text)
                X, label = load_svmlight_file(
                    BytesIO(text), n_features=n_features, zero_based=False
                )
                columns = [pa.array(np.ascontiguousarray(c)) for c in (label, *X.toarray().T)]
                yield n_read / size, pa.RecordBatch.from_arrays(columns, names=names)

    # The format does not state its width: look through the whole file once.
    with open(path, "rb") as file:
        n_features = max(map(last_index, file), default=0)
    if n_features == 0:
        raise TableError(f"{path} holds no features")
    if n_features > _MOST_COLUMNS:  # the table is dense: a wrong index would fill the memory
        raise TableError(
            f"{path} has a feature index {n_features}; at most {_MOST_COLUMNS} is read"
        )
    names = ["label", *(f"f{j + 1}" for j in range(n_features))]
    return Table(path, names, read)


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


def numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as float64, NaN where there is no number, and the rows that are invalid.

    True and false are 1 and 0. A row is invalid if it holds neither a number, nor one of these, nor
    a text that means a missing value.
    """
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        try:
            return _as_float(column), np.empty(0, dtype=np.intp)
        except pa.ArrowInvalid:
            text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(pc.equal(pc.utf8_lower(text), "true"), "1", text)
        text = pc.if_else(pc.equal(pc.utf8_lower(text), "false"), "0", text)
        missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array([*_MISSING, None]))
        number = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
        bad = np.flatnonzero(~pc.or_(missing, number).to_numpy(zero_copy_only=False))
        return _as_float(pc.if_else(number, text, None)), bad
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    if any(test(kind) for test in tests):
        return _as_float(column), np.empty(0, dtype=np.intp)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    return np.full(len(column), np.nan), np.flatnonzero(present)


def _as_float(column):
    return pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
