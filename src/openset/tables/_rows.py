"""Rows and classes of a table: those to train on, and those that a fitted model answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator

from ..base import find_unknown_label
from ..utils import answer_labels, layers, split_fitted
from ..utils.text import shortened, similar
from ._encoder import TableEncoder, encoder_of_columns, read_columns
from ._files import Table, TableError

# Names of classes that look like rows of no class.
_UNKNOWN_NAMES = {
    *("unknown", "none", "none of these", "other", "others", "oos", "ood", "out of scope"),
    *("out-of-scope", "out_of_scope", "background", "reject", "rest", "n/a", "misc"),
}

# More different numbers than this in a target may be a measurement.
_MANY = 20


@dataclass
class TrainingData:
    """The training data of a table."""

    path: Path
    target: str
    X: np.ndarray  # (n, d), float64
    y: np.ndarray  # (n,): texts, or integers if all labels are integers
    encoder: TableEncoder  # fitted to the table
    n_rows: int  # of the table, including those that were left out
    group: str | None = None  # column of the objects
    groups: np.ndarray | None = None  # (n,) texts: the object of each row

    @property
    def features(self) -> list[str]:
        """Names of the columns of X."""
        return self.encoder.get_feature_names_out().tolist()

    def choose(self, known: list[str] | None, unknown: str | None, fewest: int) -> Choice:
        """Choose the classes to learn by their names; TableError if one has too few rows."""
        label = self.unknown_label(unknown, known)
        labels, counts = np.unique(self.y, return_counts=True)
        explicit = np.arange(len(labels)) == find_unknown_label(label, labels)
        used = ~explicit
        if known is not None:
            classes = labels[used].tolist()
            used = np.isin(
                labels, [find_label(name, classes, f"--known: {self.path}") for name in known]
            )
            if used.sum() + explicit.sum() < 2:
                raise TableError(
                    f"--known names one class, {known[0]!r}; at least two are required"
                )
        few = used & (counts < fewest)
        if few.any():
            small = zip(labels[few].tolist(), counts[few], strict=True)
            measured = len(labels) > _MANY and all(map(_is_number, labels.tolist()))
            hint = f"; if {self.target!r} is a measurement, divide it into a few classes first"
            raise TableError(
                f"too few rows of {shortened([f'{c!r} ({n})' for c, n in small])}; at least "
                f"{fewest} of each class are needed to hold out, tune and fit: add rows, remove "
                "these, or name the other classes with --known" + hint * measured
            )
        chosen = labels[used | explicit]
        kept = None if known is None else chosen
        return Choice(labels[used], label, np.isin(self.y, chosen), kept)

    def unknown_label(self, name: str | None, known: list[str] | None = None) -> Any:
        """The label with this name; "auto" without a name.

        Then there is a warning if a class that is learned, of all or of the `known` ones, looks
        like a label of the unknown.
        """
        labels = np.unique(self.y).tolist()
        if name is not None:
            return find_label(name, labels, f"--unknown: {self.path}")
        for text in map(str, labels) if known is None else known:
            if text.strip().lower() in _UNKNOWN_NAMES:
                warnings.warn(
                    f"{text!r} is learned as a class; if its rows are examples of what belongs to "
                    f"no class, use --unknown {text!r}",
                    stacklevel=2,
                )
        return "auto"

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """X, y and groups of some rows."""
        return self.X[rows], self.y[rows], None if self.groups is None else self.groups[rows]

    def describe(self, used: np.ndarray, unknown: str | None) -> dict[str, Any]:
        """The rows `used`, (n,) bool, for the card of a model, as JSON allows."""
        objects = {}
        if self.groups is not None:
            objects = {"group": self.group, "objects": len(np.unique(self.groups[used]))}
        low, high = np.nanmin(self.X[used], axis=0), np.nanmax(self.X[used], axis=0)
        ranges = zip(low.tolist(), high.tolist(), strict=True)
        labels, counts = np.unique(self.y[used], return_counts=True)
        return {
            "target": self.target,
            "rows": self.n_rows,
            "rows_used": int(used.sum()),
            "rows_by_class": {str(k): int(n) for k, n in zip(labels, counts, strict=True)},
            "features": self.features,
            "categories": self.encoder.categories_,
            # NaN, from a column without values, is not valid JSON.
            "ranges": [[a, b] if np.isfinite(a) else None for a, b in ranges],
            "dropped": self.encoder.dropped_,
            "unknown": unknown,
            **objects,
        }


@dataclass
class Choice:
    """The classes that are learned."""

    classes: np.ndarray  # (K,)
    unknown_label: Any  # "auto" or a label
    used: np.ndarray  # (n,) bool: rows of these classes, and known unknowns
    labels: np.ndarray | None  # of these rows; None if they are all that the table has


def read_training(
    table: Table,
    target: str,
    *,
    features: list[str] | None = None,
    drop: list[str] | None = None,
    missing: str = "error",
    group: str | None = None,
) -> TrainingData:
    """Read the features and classes of a table, once."""
    # With `missing` "error" a row without a number raises TableError; "drop" leaves it out;
    # "median" keeps it as NaN for the model to fill. A row without a class is never kept. The
    # column `group` is no feature.
    encoder = TableEncoder(features=features, drop=drop, missing=missing)
    X, further = read_columns(encoder, table, target, group)
    texts, codes = label_codes(further[target])
    labelled = codes >= 0
    n_labelled = int(labelled.sum())
    used = {texts[code] for code in np.unique(codes[labelled])}
    _check_classes(used, n_labelled, f"the target {target!r} of {table.path}")
    integers = all(map(is_integer, used))
    kept = _complete(table, encoder, X)
    if missing == "error" and n_labelled < len(X):
        raise TableError(
            f"{table.path} has {len(X) - n_labelled:,} rows without a class in {target!r}, the "
            f"first in data row {np.argmin(labelled) + 1}; fill them, or use --missing drop"
        )
    kept &= labelled
    if not kept.any():
        raise TableError(f"{table.path} has no row without a missing value; try --missing median")
    labels = np.array([to_integer(t) if t in used else 0 for t in texts] if integers else texts)
    groups = None if group is None else required_texts(table, group, further[group])[kept]
    rows = X[kept], labels[codes[kept]]
    return TrainingData(table.path, target, *rows, encoder, len(X), group, groups)


def _check_classes(used: set[str], n_rows: int, where: str) -> None:
    """Raise TableError, or warn, if the labels of the rows can hardly be classes."""
    if not used:
        raise TableError(f"{where} has no class in any row")
    if len(used) == 1:
        raise TableError(f"{where} has only one class, {used.pop()!r}; at least two are required")
    if len(used) > max(_MANY, n_rows // 2):
        raise TableError(
            f"{where} has {len(used):,} different values in {n_rows:,} rows; it looks like an "
            "identifier or a measurement, not a class"
        )
    if len(used) > _MANY and not all(map(is_integer, used)) and all(map(_is_number, used)):
        warnings.warn(
            f"{where} has {len(used)} different numbers; it looks like a measurement, and each "
            "number is learned as a class. If it is one, divide it into a few classes first",
            stacklevel=3,
        )


def _complete(table, encoder, X):
    """Rows to keep; raise for a missing number that must not be skipped."""
    gaps = np.isnan(X)
    complete = ~gaps.any(axis=1)
    if complete.all() or encoder.missing == "median":
        return np.ones(len(X), dtype=bool)
    if encoder.missing == "drop":
        return complete
    name = encoder.get_feature_names_out()[gaps.sum(axis=0).argmax()]
    rows = np.flatnonzero(~complete)
    raise TableError(
        f"{table.path} has missing values in {len(rows):,} of {len(X):,} rows (data rows "
        f"{', '.join(str(r + 1) for r in rows[:3])}{', ...' if len(rows) > 3 else ''}), most in "
        f"column {name!r}: use --missing drop (skip the rows), --missing median "
        f"(fill them) or --drop {name!r}"
    )


def read_rows(
    encoder: TableEncoder, table: Table, target: str, missing: str, columns: Iterable[str] = ()
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Features (n, d), classes, texts (n,), and further columns (n,) of a table."""
    values: dict[str, list] = {name: [] for name in columns}
    table.require(values, "which is to be shown")
    blocks, labels, n_before = [np.empty((0, len(encoder.get_feature_names_out())))], [], 0
    for batch, X in encoder.batches(table, gaps=missing != "error"):
        texts, codes = label_codes(batch.column(target))
        if missing == "error":
            _require_all(table, codes, n_before, "class", "fill it, or use --missing drop")
        kept = codes >= 0
        if missing == "drop":
            kept &= ~np.isnan(X).any(axis=1)
        blocks.append(X[kept])
        labels += [texts[code] for code in codes[kept]]
        _append(values, batch.filter(pa.array(kept)))
        n_before += len(X)
    further = {name: np.array(cells, dtype=object) for name, cells in values.items()}
    return np.vstack(blocks), np.array(labels, dtype=str), further


def part_readers(
    table: Table, training: TrainingData, classes: np.ndarray | None = None
) -> list[Callable[[], tuple[np.ndarray, np.ndarray]]]:
    """Readers of features and labels of the files of a folder, for workers."""
    # The files are read as their first rows, the training data, were. Labels other than the
    # `classes` are left out; None keeps all.
    like = training.target, training.encoder, training.y.dtype, classes
    return [partial(_read_part, part, *like) for part in table.parts or ()]


def _read_part(part, target, encoder, dtype, classes):
    X, y, _ = read_rows(encoder, part, target, encoder.missing)
    if dtype.kind == "i":
        odd = next((text for text in y.tolist() if not is_integer(text)), None)
        if odd is not None:
            raise TableError(
                f"{part.path} has the class {odd!r}, but the first classes of all parts are "
                "integers; name all classes alike"
            )
        y = np.array([to_integer(text) for text in y.tolist()], dtype=dtype)
    rows = slice(None) if classes is None else np.isin(y, classes)
    return X[rows], y[rows]


def label_codes(column: pa.Array | pa.ChunkedArray) -> tuple[list[str], np.ndarray]:
    """The different labels of a column as texts, and the index of each row's, -1 without one."""
    # A class may be called "NA"; only a blank means that there is none.
    encoded = column.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    texts = [label_text(value) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    blank = np.array([text is None for text in texts] + [True])[codes]
    return [text or "" for text in texts], np.where(blank, -1, codes)


def required_texts(
    table: Table, name: str, column: pa.Array | pa.ChunkedArray, n_before: int = 0
) -> np.ndarray:
    """The texts (n,) of a column; TableError for a row without one, counted from `n_before`."""
    texts, codes = label_codes(column)
    _require_all(table, codes, n_before, repr(name), "fill it")
    return np.array(texts, dtype=object)[codes]


def _require_all(table: Table, codes: np.ndarray, n_before: int, what: str, remedy: str) -> None:
    """Raise TableError for a row without a label; rows are counted from `n_before`."""
    if (codes < 0).any():
        row = n_before + int(np.argmax(codes < 0)) + 1
        raise TableError(f"{table.path} has no {what} in data row {row}; {remedy}")


def label_text(value: Any) -> str | None:
    """Return a label as text; None if there is none."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of integers with gaps is read as one of floats
    return str(value).strip() or None


def is_integer(text: str) -> bool:
    """Whether the text is just how an integer is written, or 7.0; 007 is a name."""
    text = text.removesuffix(".0")  # as pandas writes integers with gaps
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text and len(text) < 18


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def to_integer(text: str) -> int:
    """The integer that is written so, after `is_integer`."""
    return int(text.removesuffix(".0"))


def _append(values: dict[str, list], batch: pa.RecordBatch) -> None:
    """Add the values of some columns of a batch, empty texts where there are none."""
    for name, cells in values.items():
        cells += ["" if cell is None else cell for cell in batch.column(name).to_pylist()]


def find_label(name: str, labels: list, where: str) -> Any:
    """The label with this name; TableError, naming a similar one, if there is none."""
    by_name = {str(label): label for label in labels}
    if name in by_name:
        return by_name[name]
    hint = similar(name, by_name, 1) or f"there are {list(by_name)[:10]}"
    whole = [label for label in by_name if name in map(str.strip, label.split(","))]
    if whole:
        hint = f"write a name with a comma in double quotes: '\"{whole[0]}\"'"
    raise TableError(f"{where} has no class {name!r}; {hint}")


class TableModel:
    """A fitted model, and which columns of a table are its features."""

    # That is told by its `TableEncoder`, by its card if openset 0.1.0 wrote it, or by the DataFrame
    # that it was fitted on; otherwise features are identified by their position.

    def __init__(self, model: BaseEstimator, card: dict[str, Any], n_jobs: int | None = None):
        self.model, self.card = model, card
        self._transform, self.final = split_fitted(model)
        if "n_jobs" in self.final.get_params(deep=False):
            self.final.set_params(n_jobs=n_jobs)
        data = card.get("data")  # a card written from Python may hold anything
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        names = self.data.get("features")
        if names is None and hasattr(model, "feature_names_in_"):  # saved from Python
            names = model.feature_names_in_.tolist()
        point = card.get("operating_point")
        self.category_column = point.get("within") if isinstance(point, dict) else None
        self._encoder = model_encoder(model)
        self._missing = "median" if "SimpleImputer" in card.get("steps", []) else "error"
        if self._encoder is None and names is not None:
            categories = self.data.get("categories", {})
            self._encoder = encoder_of_columns(names, categories, self._missing)

    @property
    def aggregate(self) -> str:
        """How scores of an object are combined: as the model was calibrated, or by their mean."""
        return getattr(getattr(self.final, "criterion_", None), "aggregate", None) or "mean"

    def encoder(self, table: Table) -> TableEncoder:
        """What turns the table into features; TableError if it lacks a column."""
        encoder = self._encoder
        if encoder is None:  # fitted on an array: columns are identified by position
            names = [name for name in table.names if name not in table.index]
            if len(names) != self.model.n_features_in_:
                raise TableError(
                    f"{table.path} has {len(names)} columns, but the model has "
                    f"{self.model.n_features_in_} features without names; keep only their columns"
                )
            encoder = encoder_of_columns(names, {}, self._missing)
        table.require(encoder.feature_names_in_.tolist(), "which the model needs")
        table.require([self.category_column], "within which the model was calibrated")
        return encoder

    def categories(self, batch: pa.RecordBatch) -> np.ndarray | None:
        """The category of each row, (n,), for a model that was calibrated within categories."""
        if self.category_column is None:
            return None
        return np.array(list(map(label_text, batch.column(self.category_column).to_pylist())))

    def scores(self, Z: Any, categories: np.ndarray | None) -> np.ndarray:
        """Acceptance scores (n, K) of transformed rows."""
        if categories is None:
            return self.final.decision_function(Z)
        return self.final.decision_function(Z, categories=categories)

    def batches(self, table: Table, title: str) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Yield all rows in order with their features, (n, d); TableError if there are none."""
        empty = True
        for batch, X in self.encoder(table).batches(table, title):
            empty = False
            yield batch, X
        if empty:
            raise TableError(f"{table.path} has a header and no rows")

    def grouped(self, table: Table, group: str, title: str) -> tuple[np.ndarray, np.ndarray]:
        """Acceptance scores (n, K) of all rows, and the texts (n,) of a column that groups them."""
        table.require([group], "which groups the rows")
        scores: list[np.ndarray] = []
        names: list[np.ndarray] = []
        for batch, X in self.batches(table, title):
            scores.append(self.scores(self.transform(X), self.categories(batch)))
            n_before = sum(map(len, names))
            names.append(required_texts(table, group, batch.column(group), n_before))
        return np.vstack(scores), np.concatenate(names)

    def read(self, table: Table, columns: Iterable[str] = ()) -> tuple[np.ndarray, dict[str, list]]:
        """The features of all rows, (n, d), and the values of further columns."""
        values: dict[str, list] = {name: [] for name in columns}
        table.require(values, "which is to be shown")
        blocks = []
        for batch, X in self.batches(table, "read"):
            blocks.append(X)
            _append(values, batch)
        return np.vstack(blocks), values

    def read_training(
        self,
        table: Table,
        target: str | None,
        unknown: str | None = None,
        columns: Iterable[str] = (),
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, list]]:
        """The training table: X (n, d), y (n,), X of label `unknown`, and columns of X's rows."""
        # A row with a missing value is filled by the model or, if it does not do that, left out; so
        # is a row of a class that the model does not know.
        target = self.data.get("target") if target is None else target
        if target is None:
            raise TableError("the model does not say which column the class is; give --target")
        table.require([target], "the target")
        encoder = self.encoder(table)
        missing = "median" if encoder.missing == "median" else "drop"
        X, y, values = read_rows(encoder, table, target, missing, columns)
        labels = self._labels(unknown, "take it out with --remove")
        if getattr(self.final, "n_known_unknowns_", 0):
            labels[str(self.final.unknown_label_)] = self.final.unknown_label_
        junk = np.zeros(len(y), dtype=bool)
        if unknown is not None and unknown not in labels:
            find_label(unknown, np.unique(y).tolist(), f"--unknown: {table.path}")
            junk = y == unknown
        used = np.isin(y, list(labels))
        if not used.any():
            known = shortened([*map(str, self.final.classes_.tolist())])
            raise TableError(
                f"{table.path} has no row of a class that the model has learned in {target!r}; "
                f"the classes are {known}"
            )
        y = np.array([labels[text] for text in y[used].tolist()])
        return X[used], y, X[junk], {name: v[used].tolist() for name, v in values.items()}

    def _labels(self, unknown: str | None, remedy: str) -> dict[str, Any]:
        """Classes by how a table may write them (7 as 7.0); TableError if `unknown` is one."""
        texts = {label_text(label) or "": label for label in self.final.classes_.tolist()}
        labels = {f"{text}.0": label for text, label in texts.items() if label != text} | texts
        if unknown in labels:
            raise TableError(f"--unknown: the model has learned {unknown!r} as a class; {remedy}")
        return labels

    def transform(self, X: np.ndarray) -> np.ndarray:
        """What the final estimator takes for features X, (n, d)."""
        with warnings.catch_warnings():
            # The columns were selected by name already.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return self._transform(X)

    def labelled(
        self,
        table: Table,
        target: str,
        unknown: str | None = None,
        columns: Iterable[str | None] = (),
    ) -> LabelledRows:
        """The rows of a table whose classes are known; 1, 1.0 and "1" are one class."""
        table.require([target], "the target")
        table.require(columns, "which groups the rows")
        classes = self.final.classes_.tolist()
        labels = self._labels(unknown, f"fit it again with --unknown {unknown!r}")
        codes = {text: classes.index(label) for text, label in labels.items()}
        texts: dict[str, list] = {name: [] for name in columns if name is not None}
        return LabelledRows(self, table, target, codes, texts)


@dataclass
class LabelledRows:
    """Features and true classes of the rows of a table."""

    model: TableModel
    table: Table
    target: str
    codes: dict[str, int]  # positions in the classes of the model, as a table may write them
    columns: dict[str, list]  # texts in further columns, of the rows read so far
    others: list[str] = field(default_factory=list)  # classes read so far that were not learned

    def texts(self, name: str | None, n_last: int | None = None) -> np.ndarray | None:
        """Texts of a column, or of its last rows that were read; None without a column."""
        return None if name is None else np.array(self.columns[name][-(n_last or 0) :])

    def batches(self, title: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield X (n, d) and y (n,), the unknown label for a class that was not learned."""
        final, n_rows = self.model.final, 0
        labels = answer_labels(final.classes_, final.unknown_label_)
        for batch, X in self.model.batches(self.table, title):
            texts, indices = label_codes(batch.column(self.target))
            what = f"class in {self.target!r}"
            _require_all(self.table, indices, n_rows, what, "fill it or drop the row")
            new = [text for text in texts if text and text not in self.codes]
            self.others += [text for text in new if text not in self.others]
            codes = np.array([self.codes.get(text, len(labels) - 1) for text in texts])
            for name, cells in self.columns.items():
                cells += required_texts(self.table, name, batch.column(name), n_rows).tolist()
            yield X, labels[codes[indices]]
            n_rows += len(X)
        data = self.model.data
        if (data.get("source"), data.get("rows")) == (self.table.path.name, n_rows):
            warnings.warn(
                f"{self.table.path} seems to be the table that the model was fitted on (same name, "
                "same number of rows). Measures on rows that a model has seen are too good, and a "
                "threshold set on them keeps no promise: use other rows",
                stacklevel=2,
            )

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """All rows at once."""
        X, y = map(np.concatenate, zip(*self.batches("read"), strict=True))
        return X, y


def model_encoder(model: BaseEstimator) -> TableEncoder | None:
    """The encoder that is the first step of a model, if there is one."""
    steps = (head.steps[0][1] for _, heads in layers(model) for head in heads)
    return next((step for step in steps if isinstance(step, TableEncoder)), None)
