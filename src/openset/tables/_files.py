"""Tables on disk, read and written as batches of rows; the suffix of a name says the format."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO, StringIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from sklearn.datasets import load_svmlight_file

from ..utils import Progress, atomic_write
from ..utils.text import similar

# Rows per batch, where the format leaves the choice.
CHUNK = 65_536
# Bytes per batch of CSV: enough for the parser to work at full speed.
CSV_BLOCK = 4 * 2**20
# Cells per batch of SVMlight, and its largest feature index: batches are dense.
SVMLIGHT_CELLS = 2**24
_MOST_COLUMNS = 10**5
# Names that pandas and Dask give to an index without a name.
_INDEX_NAME = re.compile(r"__index_level_\d+__|__null_dask_index__")
_TEXT = (".csv", ".tsv", ".tab", ".txt")
# The name of a column that is more likely a number of the first row.
_NUMBER_AS_NAME = re.compile(r"[-+]?\d+([.,]\d+)?([eE][-+]?\d+)?")


class TableError(ValueError):
    """A table cannot be used; the message says where the trouble is and what to do."""


class Table:
    """A table: its path, the names of its columns in order, and its rows in batches.

    Parameters
    ----------
    path : Path
        Where it is, for messages.
    names : list of str
    index : iterable of str, default=()
        Columns that hold the index of a DataFrame of pandas.

    Attributes
    ----------
    parts : list of Table or None
        The files of a folder.
    """

    parts: list[Table] | None = None
    decimal = "."  # the mark of numbers that are texts

    def __init__(self, path: Path, names: list[str], index: Iterable[str] = ()):
        self.path = self._file = path
        self.names, self.index = names, frozenset(index)

    def read(self) -> Iterator[tuple[float, pa.RecordBatch]]:
        """Yield batches, each with the fraction of the table that has been read."""
        raise NotImplementedError

    def batches(self, title: str = "") -> Iterator[pa.RecordBatch]:
        """Yield all rows in order; columns of a text file are text, others are typed.

        Parameters
        ----------
        title : str, default=""
            Title of a progress bar, which is shown on a terminal.

        Yields
        ------
        pyarrow.RecordBatch
        """
        progress = Progress(100, f"{title}, percent", bool(title) and sys.stderr.isatty())
        percent = 0
        for fraction, batch in self.read():
            if batch.num_rows:
                yield batch
            if int(100 * fraction) > percent:
                progress.step(int(100 * fraction) - percent)
                percent = int(100 * fraction)

    def head(self, n_rows: int) -> Table:
        """Return the first rows of each part as a table, about `n_rows` in all.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        Table
        """
        return _FirstRows(self, n_rows)

    def require(self, names: Iterable[str | None], purpose: str) -> None:
        """Raise TableError, naming close matches, unless the table has all columns.

        Parameters
        ----------
        names : iterable of str or None
            None is left out.
        purpose : str
            What the columns are, for the message.
        """
        asked = [name for name in names if name is not None]
        present = dict.fromkeys(self.names)
        absent = [name for name in asked if name not in present]
        if not absent:
            return
        first, *more = absent
        columns = ", ".join(self.names[:8]) + ", ..." * (len(self.names) > 8)
        spare = [name for name in present if name not in asked]
        hint = similar(first, spare) or f"its columns are {columns}"
        others = f" (and {len(more)} more: {', '.join(more[:5])})" if more else ""
        raise TableError(f"{self.path} has no column {first!r}, {purpose}{others}; {hint}")


def open_table(path: str | os.PathLike, encoding: str = "utf-8", decimal: str = ".") -> Table:
    """Open a table by the suffix of its name; only its head is read.

    A folder is a table of Parquet parts, in the order of their names. Text tables may be compressed
    by gzip (.csv.gz).

    Parameters
    ----------
    path : path-like
        CSV, TSV, Parquet, Arrow, NPY, NPZ or SVMlight; ``-`` is a CSV or Parquet table on standard
        input, which is copied to a temporary file first.
    encoding : str, default="utf-8"
        Of a text table.
    decimal : {".", ","}, default="."
        Decimal mark of the numbers in a text table.

    Returns
    -------
    Table
    """
    path = Path(path)
    if str(path) == "-":
        return _standard_input(encoding, decimal)
    if not path.exists():
        raise TableError(f"there is no file {path}")
    suffix = text_suffix(path)
    if path.is_dir():
        table: Table = _Folder(path)
    elif not path.is_file():  # a table is read more than once
        raise TableError(f"{path} is a device or a FIFO, not a table; copy it to a file")
    elif path.stat().st_size == 0:
        raise TableError(f"{path} is empty")
    elif suffix in _TEXT:
        table = _Csv(path, encoding)
        table.decimal = decimal
    elif suffix in _TYPED:
        table = _TYPED[suffix](path)
    else:
        known = ", ".join([*_TEXT, *_TYPED, ".csv.gz"])
        raise TableError(f"{path} has an unknown suffix {path.suffix!r}; use one of {known}")
    _check_header(table)
    return table


def _check_header(table: Table) -> None:
    """Raise for a name of two columns; warn if those of a text table look like numbers."""
    name, count = Counter(table.names or [""]).most_common(1)[0]
    if count > 1:
        header = "; is the first line a header?" if name.replace(".", "").isdigit() else ""
        raise TableError(
            f"{table.path} has more than one column named {name!r}; rename them{header}"
        )
    numbers = [name for name in table.names if _NUMBER_AS_NAME.fullmatch(name)]
    counts = all(name.isdigit() for name in numbers) and numbers == sorted(numbers, key=int)
    if isinstance(table, _Csv) and 2 * len(numbers) > len(table.names) and not counts:
        warnings.warn(
            f"the first line of {table.path} looks like data, not like the names of the columns "
            f"({', '.join(table.names[:4])}, ...); if it is, write a line of names above it",
            stacklevel=3,
        )


def _standard_input(encoding: str, decimal: str) -> Table:
    folder = TemporaryDirectory(prefix="openset-")
    copy = Path(folder.name, "table")
    with open(copy, "w+b") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.seek(0)
        head = file.read(4)
    suffix = ".parquet" if head == b"PAR1" else ".csv.gz" if head[:2] == b"\x1f\x8b" else ".csv"
    if not head:
        raise TableError("standard input is empty")
    table = open_table(copy.rename(copy.with_name(f"table{suffix}")), encoding, decimal)
    table.path = Path("standard input")
    vars(table)["_folder"] = folder  # which lives as long as the table
    return table


def text_suffix(path: Path) -> str:
    """The suffix that says the format, in lower case; that before .gz for compressed text."""
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    suffix = plain.suffix.lower()
    return suffix if plain is path or suffix in _TEXT else ".gz"


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


class _Csv(Table):
    """Comma, semicolon, tab or bar between columns. All columns are text, so none is changed."""

    def __init__(self, path: Path, encoding: str):
        super().__init__(path, [])
        self._encoding, self._packed = encoding, path.suffix.lower() == ".gz"
        with readable(path, encoding):
            file = pa.OSFile(str(path))
            head = file.read(2**20)
            if self._packed:
                with suppress(zlib.error):  # the reader says what is damaged
                    head = zlib.decompressobj(31).decompress(head, 2**20)
            _check_text(path, head, encoding)
            text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
            tabs = text_suffix(path) in (".tsv", ".tab")
            self._delimiter = "\t" if tabs else _delimiter(text.partition("\n")[0])
            names: list[str] = []
            with suppress(csv.Error):  # a very long field
                lines = csv.reader(StringIO(text, newline=""), delimiter=self._delimiter)
                names = next(filter(None, lines), [])
            file.seek(0)
            self._opened: Any = self._open(names, file)
            found = self._opened[1].schema
            self.names = found.names
            if found.names != names or any(kind != pa.string() for kind in found.types):
                self._opened = self._open(self.names)

    def _open(self, names, file=None):
        """The file, and a reader that reads these columns as text."""
        file = pa.OSFile(str(self._file)) if file is None else file
        return file, pacsv.open_csv(
            pa.CompressedInputStream(file, "gzip") if self._packed else file,
            read_options=pacsv.ReadOptions(block_size=CSV_BLOCK, encoding=self._encoding),
            # Quoted line breaks are legal, and can only be found by parsing.
            parse_options=pacsv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )

    def read(self):
        size = self._file.stat().st_size
        with readable(self.path, self._encoding):
            # The file is opened once to be read once.
            (file, reader), self._opened = self._opened or self._open(self.names), None
            with file, reader:
                for batch in reader:
                    yield file.tell() / size, batch


def _check_text(path: Path, head: bytes, encoding: str) -> None:
    """Raise TableError for text that the reader would misread."""
    head = head[: 2**16]
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


def _delimiter(line: str) -> str:
    """The separator that occurs most often in the first line."""
    try:
        row = next(csv.reader([line]), [])  # so that commas in quotes do not count
    except csv.Error:  # a very long field, or a CR in the middle
        row = line.split(",")
    return max(",;\t|", key=(lambda c: len(row) - 1 if c == "," else line.count(c)))


class _Parquet(Table):
    """A Parquet file; one of a folder is read with the types that hold the values of all."""

    types: pa.Schema | None = None

    def __init__(self, path: Path):
        with readable(path), pq.ParquetFile(path) as file:
            self.schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
        super().__init__(path, self.schema.names, index_columns(self.schema))

    def read(self):
        n_read = 0
        with readable(self.path), pq.ParquetFile(self._file) as file:
            for batch in file.iter_batches(batch_size=CHUNK):
                n_read += batch.num_rows
                batch = plain(batch)
                if self.types is not None and batch.num_rows:
                    batch = batch.select(self.types.names).cast(self.types)
                yield n_read / max(self.n_rows, 1), batch


class _Folder(Table):
    """All Parquet files of a folder as one table; each has the columns of the first."""

    def __init__(self, path: Path):
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in (".parquet", ".pq"))
        if not files:
            raise TableError(f"{path} is a folder without Parquet files (*.parquet)")
        parts = [_Parquet(file) for file in files]
        names, types = parts[0].names, pa.schema([])
        for part in parts:
            if other := sorted(set(part.names) ^ set(names)):
                raise TableError(
                    f"{part.path} and {files[0]} have different columns (only one has "
                    f"{other[0]!r}); all parts of a table need the same columns"
                )
            if part.n_rows == 0:  # its types mean nothing
                continue
            try:
                decoded = plain(pa.RecordBatch.from_pylist([], schema=part.schema)).schema
                types = pa.unify_schemas([types, decoded], promote_options="permissive")
            except pa.ArrowException as error:
                raise TableError(
                    f"{part.path} has other types than the parts before it ({error}); all parts "
                    "of a table need the same types"
                ) from error
        for part in parts:
            part.types, part.names = types, names
        super().__init__(path, names, parts[0].index)
        self.parts = [*parts]

    def read(self):
        for k, part in enumerate(self.parts):
            for fraction, batch in part.read():
                yield (k + fraction) / len(self.parts), batch


class _FirstRows(Table):
    """The first rows of each part of a table."""

    def __init__(self, table: Table, n_rows: int):
        super().__init__(table.path, table.names, table.index)
        self.decimal = table.decimal
        self._parts = table.parts or [table]
        self._rows_per_part = -(-n_rows // len(self._parts))

    def read(self):
        for k, part in enumerate(self._parts):
            left = self._rows_per_part
            for batch in part.batches():
                yield k / len(self._parts), batch.slice(0, left)
                left -= batch.num_rows
                if left <= 0:
                    break


class _Arrow(Table):
    """Arrow, which is Feather version 2; long batches are cut."""

    def __init__(self, path: Path):
        with readable(path), pa.OSFile(str(path)) as file:
            schema = pa.ipc.open_file(file).schema
        super().__init__(path, schema.names, index_columns(schema))

    def read(self):
        with readable(self.path), pa.OSFile(str(self._file)) as file:
            reader = pa.ipc.open_file(file)
            for i in range(reader.num_record_batches):
                batch = plain(reader.get_batch(i))
                for start in range(0, batch.num_rows, CHUNK):
                    yield (i + 1) / reader.num_record_batches, batch.slice(start, CHUNK)


def index_columns(schema: pa.Schema) -> set[str]:
    """The columns that hold the index of a table of pandas, by its metadata or their names."""
    try:
        told = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        named = {name for name in told if isinstance(name, str)}  # others describe a range
    except (KeyError, TypeError, ValueError):  # not of pandas, or damaged
        named = set()
    return {name for name in schema.names if name in named or _INDEX_NAME.fullmatch(name)}


def plain(batch):
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


class _Arrays(Table):
    """Columns of NumPy."""

    def __init__(self, path: Path, columns: dict[str, np.ndarray]):
        super().__init__(path, list(columns))
        self._columns = columns

    def read(self):
        total = len(next(iter(self._columns.values())))
        for start in range(0, total, CHUNK):
            with readable(self.path):
                pieces = [column[start : start + CHUNK] for column in self._columns.values()]
                # In one piece, in the byte order of this machine.
                arrays = [np.ascontiguousarray(p, dtype=p.dtype.newbyteorder("=")) for p in pieces]
                batch = pa.RecordBatch.from_arrays([*map(pa.array, arrays)], names=self.names)
            yield min(start + CHUNK, total) / total, batch


def _numpy(path: Path) -> Table:
    """Arrays with equal numbers of rows: a vector y is column y, a matrix A columns A0, A1, ..."""
    # Those of a matrix X, and of the array of a .npy file, are x0, x1, ..., so that a model takes
    # both. The columns of a structured array are its fields.
    arrays = _named_arrays(path)
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        stem = "x" if name == "X" and "x" not in arrays else name
        columns |= {name: array} if array.ndim == 1 else _matrix(path, stem, array)
    lengths = sorted({len(column) for column in columns.values()})
    if len(lengths) != 1:
        raise TableError(f"the arrays of {path} have different numbers of rows: {lengths}")
    return _Arrays(path, columns)


def _named_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an archive, the fields of a structured array, or the array as X."""
    loaded, packed = _load(path, path), text_suffix(path) == ".npz"
    if isinstance(loaded, np.ndarray) == packed:
        trouble = ("holds one array", "npy") if packed else ("is an archive of arrays", "npz")
        raise TableError("{} {}; rename it to .{}".format(path, *trouble))
    if packed:
        with loaded:
            return {name: _load(path, loaded, name) for name in loaded.files}
    if loaded.dtype.names:
        return {name: loaded[name] for name in loaded.dtype.names}
    return {"X": loaded[:, None] if loaded.ndim == 1 else loaded}


def _load(path, source, name=None):
    """The array, or the archive, in a file; or the array of this name in an archive."""
    try:
        return source[name] if name else np.load(source, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # a damaged header may raise anything
        # NumPy's own message advises to load it unsafely.
        raise TableError(
            f"cannot read {path}: it is damaged, or holds objects instead of numbers or texts"
        ) from error


def _matrix(path, name, array):
    if array.ndim != 2 or array.shape[1] == 0:
        raise TableError(f"{path}: the array {name!r} has shape {array.shape}; (n, d) is needed")
    return {f"{name}{j}": array[:, j] for j in range(array.shape[1])}


class _Svmlight(Table):
    """Lines ``label index:value ...``: columns label, f1, f2, ..., zero where no value is given."""

    def __init__(self, path: Path):
        # The format does not state its width: look through the whole file once.
        with open(path, "rb") as file:
            d = self._n_features = max(map(_last_index, file), default=0)
        if d == 0:
            raise TableError(f"{path} holds no features")
        if d > _MOST_COLUMNS:  # a wrong index would fill the memory
            raise TableError(
                f"{path} has a feature index {d}; at most {_MOST_COLUMNS} is read as a table. "
                "In Python, load_svmlight_file of scikit-learn gives a sparse matrix for fit."
            )
        super().__init__(path, ["label", *(f"f{j + 1}" for j in range(d))])

    def read(self):
        n_read, size = 0, self._file.stat().st_size
        n_lines = max(1, min(CHUNK, SVMLIGHT_CELLS // self._n_features))
        with readable(self.path), open(self._file, "rb") as file:
            while lines := list(islice(file, n_lines)):
                text = b"".join(lines)
                n_read += len(text)
                X, label = load_svmlight_file(
                    BytesIO(text), n_features=self._n_features, zero_based=False
                )
                columns = [pa.array(column) for column in (label, *X.toarray(order="F").T)]
                yield n_read / size, pa.RecordBatch.from_arrays(columns, names=self.names)


def _last_index(line: bytes) -> int:
    """The largest feature index of a line of SVMlight."""
    pair = line.partition(b"#")[0].rpartition(b":")[0].split()
    return int(pair[-1]) if pair and pair[-1].isdigit() else 0


_TYPED: dict[str, Any] = {
    **dict.fromkeys((".parquet", ".pq"), _Parquet),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _Arrow),
    **dict.fromkeys((".npy", ".npz"), _numpy),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), _Svmlight),
}

WRITABLE = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".arrow", ".feather")


class _TextWriter:
    """CSV or TSV with quotes only where they are needed."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, delimiter: str):
        self._file, self._delimiter = file, delimiter
        head = StringIO()
        csv.writer(head, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
        self._file.write(head.getvalue().encode())

    def write(self, batch: pa.RecordBatch) -> None:
        how = {"include_header": False, "delimiter": self._delimiter}
        for quoting in ("none", "needed"):
            sink = pa.BufferOutputStream()
            try:
                pacsv.write_csv(batch, sink, pacsv.WriteOptions(**how, quoting_style=quoting))
                break
            except pa.ArrowInvalid as error:  # such as a separator or a quote in some text
                if quoting == "needed":
                    raise TableError(
                        f"a text table cannot hold every column ({error}); write .parquet instead"
                    ) from error
        self._file.write(sink.getvalue())

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
