"""NumPy's files and SVMlight: arrays whose columns get names."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_svmlight_file

from ._open import CHUNK, TableError, unreadable


class ArrayTable:
    """Columns cut from arrays in memory or mapped from disk."""

    def __init__(self, path: Path, columns: dict[str, np.ndarray]):
        self.path, self._columns, self._rows = path, columns, 0
        self.names = list(columns)
        self._total = len(next(iter(columns.values())))

    def batches(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, self._total, CHUNK):
            rows = slice(start, start + CHUNK)
            self._rows = min(start + CHUNK, self._total)
            arrays = [pa.array(np.ascontiguousarray(c[rows])) for c in self._columns.values()]
            yield pa.RecordBatch.from_arrays(arrays, names=self.names)

    def done(self) -> float:
        return self._rows / max(self._total, 1)


def npy_table(path: Path) -> ArrayTable:
    """One array: (n, d) with columns x0, x1, ..., or structured, whose fields are the columns."""
    array = _load(path)
    if array.dtype.names:
        return ArrayTable(path, {name: array[name] for name in array.dtype.names})
    if array.ndim == 1:
        array = array[:, None]
    return ArrayTable(path, _columns(path, "x", array))


def npz_table(path: Path) -> ArrayTable:
    """Several arrays of as many rows: a vector y is column y, a matrix X columns X0, X1, ..."""
    with _load(path) as archive:
        try:
            arrays = {name: archive[name] for name in archive.files}
        except (ValueError, OSError, BadZipFile) as error:
            raise TableError(
                f"cannot read {path}: it is damaged, or holds objects instead of numbers or texts"
            ) from error
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        columns |= {name: array} if array.ndim == 1 else _columns(path, name, array)
    lengths = sorted({len(column) for column in columns.values()})
    if len(lengths) != 1:
        raise TableError(f"the arrays of {path} have different numbers of rows: {lengths}")
    return ArrayTable(path, columns)


def _load(path):
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, BadZipFile) as error:
        # Not numpy's own words, which advise to load it unsafely.
        raise TableError(
            f"cannot read {path}: it is damaged, or holds objects instead of numbers or texts"
        ) from error


def _columns(path, name, array):
    if array.ndim != 2 or array.shape[1] == 0:
        raise TableError(f"{path}: the array {name!r} has shape {array.shape}; (n, d) is needed")
    return {f"{name}{j}": array[:, j] for j in range(array.shape[1])}


class SvmlightTable:
    """Lines ``label index:value ...``: the columns label, f1, f2, ..., zero where not given."""

    # Bytes of text in a batch.
    _WINDOW = 2**20

    def __init__(self, path: Path):
        self.path, self._size, self._read = path, path.stat().st_size, 0
        # Sparse text says nowhere how wide it is: one look through the whole file.
        with open(path, "rb") as file:
            self._n_features = max(map(self._last_index, file), default=0)
        if self._n_features == 0:
            raise TableError(f"{path} holds no features")
        self.names = ["label", *(f"f{j + 1}" for j in range(self._n_features))]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for X, label in self._windows():
            columns = [label, *X.toarray().T]
            arrays = [pa.array(np.ascontiguousarray(column)) for column in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=self.names)

    def done(self) -> float:
        return self._read / self._size

    @staticmethod
    def _last_index(line):
        pair = line.partition(b"#")[0].rpartition(b":")[0].split()
        return int(pair[-1]) if pair and pair[-1].isdigit() else 0

    def _windows(self):
        """Matrix and labels of about _WINDOW bytes of whole lines at a time."""
        self._read = 0
        try:
            with open(self.path, "rb") as file:
                while lines := file.readlines(self._WINDOW):
                    text = b"".join(lines)
                    self._read += len(text)
                    X, label = load_svmlight_file(
                        BytesIO(text), n_features=self._n_features, zero_based=False
                    )
                    if X.shape[0]:
                        yield X, label
        except (ValueError, OSError) as error:
            raise unreadable(self.path, error) from error
