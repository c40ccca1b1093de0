"""Tables of text: CSV and its relatives, SVMlight."""

from __future__ import annotations

import csv
import gzip
from io import BytesIO
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
from sklearn.datasets import load_svmlight_file

from ._table import CHUNK, Table, TableError, readable, text_suffix

# Bytes per batch of CSV: enough for the parser to work at full speed.
CSV_BLOCK = 4 * 2**20
# Cells per batch of SVMlight, and its largest feature index: batches are dense.
SVMLIGHT_CELLS = 2**24
_MOST_COLUMNS = 10**5


def csv_table(path: Path, encoding: str) -> Table:
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
        with readable(path, encoding), pa.OSFile(str(path)) as file:
            for batch in open_csv(plain(file), dict.fromkeys(names, pa.string())):
                yield file.tell() / size, batch

    def plain(file):
        return pa.CompressedInputStream(file, "gzip") if path.suffix.lower() == ".gz" else file

    with readable(path, encoding), pa.OSFile(str(path)) as file:
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


def svmlight_table(path: Path) -> Table:
    """Lines ``label index:value ...``: columns label, f1, f2, ..., zero where no value is given."""

    def last_index(line):
        pair = line.partition(b"#")[0].rpartition(b":")[0].split()
        return int(pair[-1]) if pair and pair[-1].isdigit() else 0

    def read():
        n_read, size = 0, path.stat().st_size
        with readable(path), open(path, "rb") as file:
            while lines := list(islice(file, n_lines)):
                text = b"".join(lines)
                n_read += len(text)
                X, label = load_svmlight_file(
                    BytesIO(text), n_features=n_features, zero_based=False
                )
                columns = [pa.array(column) for column in (label, *X.toarray(order="F").T)]
                yield n_read / size, pa.RecordBatch.from_arrays(columns, names=names)

    # The format does not state its width: look through the whole file once.
    with open(path, "rb") as file:
        n_features = max(map(last_index, file), default=0)
    if n_features == 0:
        raise TableError(f"{path} holds no features")
    if n_features > _MOST_COLUMNS:  # a wrong index would fill the memory
        raise TableError(
            f"{path} has a feature index {n_features}; at most {_MOST_COLUMNS} is read as a table. "
            "In Python, load_svmlight_file of scikit-learn gives a sparse matrix for fit."
        )
    names = ["label", *(f"f{j + 1}" for j in range(n_features))]
    n_lines = max(1, min(CHUNK, SVMLIGHT_CELLS // n_features))
    return Table(path, names, read)
