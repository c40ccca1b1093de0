"""A table as training data: which columns are features, which are dropped, and why."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openset.base import find_unknown_label
from openset.cli._text import shortened
from openset.datasets.tables import Table, TableError, numbers, read_batches, require

# If at least this share of a column are numbers, other cells are errors; else it is not a feature.
_MEANT_AS_NUMBERS = 0.5

# A text column with at most so many different values is categorical: one 0/1 feature per value.
_MOST_CATEGORIES = 20
# Larger numbers cannot be squared, so distances would overflow.
LARGEST = 1e150
# Names of classes that look like rows of no class.
_UNKNOWN_NAMES = {
    *("unknown", "none", "none of these", "other", "others", "oos", "ood", "out of scope"),
    *("out-of-scope", "out_of_scope", "background", "reject", "rest", "n/a", "misc"),
}

# A number with a decimal point or comma.
_DECIMAL = re.compile(r"[-+]?\d*[.,]?\d+([eE][-+]?\d+)?")
# Values of a column that says which rows are for training.
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"}
_ID_NAMES = {"id", "index", "idx", "row", "rowid", "key", "uuid", "unnamed: 0", ""}


@dataclass
class TrainingData:
    """The training data of a table."""

    X: np.ndarray  # (n, d), float64
    y: np.ndarray  # (n,): texts, or integers if all labels are integers
    features: list[str]  # columns of X
    dropped: dict[str, str]  # columns that were dropped, and why
    n_rows: int  # in the file, including those dropped for a missing value
    categories: dict[str, list[str]]  # categorical columns and their values

    def unknown_label(self, name: str | None, path, known: list[str] | None = None):
        """The label with this name; "auto" without a name.

        Then there is a warning if a class that is learned, of all or of the `known` ones, looks
        like a label of the unknown.
        """
        labels = {str(label): label for label in np.unique(self.y).tolist()}
        if name is not None:
            return self._find(name, labels, "--unknown", path)
        for text in labels if known is None else known:
            if text.strip().lower() in _UNKNOWN_NAMES:
                warnings.warn(
                    f"{text!r} is learned as a class; if its rows are examples of what belongs to "
                    f"no class, use --unknown {text!r}",
                    stacklevel=2,
                )
        return "auto"

    def known_classes(self, names: list[str] | None, path, unknown="auto") -> np.ndarray:
        """The classes with these names, all if None; TableError if the table has no such class."""
        labels = np.unique(self.y)
        explicit = find_unknown_label(unknown, labels)
        labels = np.delete(labels, [] if explicit < 0 else [explicit])
        classes = {str(label): label for label in labels.tolist()}
        for name in names or ():
            self._find(name, classes, "--known", path)
        fewest = 2 if explicit < 0 else 1
        if names is not None and len(set(names)) < fewest:
            raise TableError(f"--known names one class, {names[0]!r}; at least two are required")
        return np.unique([classes[name] for name in (classes if names is None else names)])

    @staticmethod
    def _find(name, labels, option, path):
        if name not in labels:
            close = get_close_matches(name, labels, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {list(labels)[:10]}"
            whole = [label for label in labels if name in map(str.strip, label.split(","))]
            if whole:
                hint = f"write a name with a comma in double quotes: '\"{whole[0]}\"'"
            raise TableError(f"{option}: {path} has no class {name!r}; {hint}")
        return labels[name]

    def check_sizes(self, known: np.ndarray, fewest: int) -> None:
        """Raise TableError unless each known class has enough rows."""
        counts = {label: int(np.sum(self.y == label)) for label in known.tolist()}
        small = [f"{label!r} ({n})" for label, n in counts.items() if n < fewest]
        if small:
            raise TableError(
                f"too few rows of {shortened(small)}; at least {fewest} of each class are needed "
                "to hold out, tune and fit: add rows, remove these, or name the other classes "
                "with --known"
            )


def read_training(
    table: Table,
    target: str,
    *,
    features: list[str] | None = None,
    drop: list[str] | None = None,
    missing: str = "error",
) -> TrainingData:
    """Read the features and classes of a table.

    Without `features` the numeric columns are found, except those that number or identify the rows,
    and the categorical ones, which become one feature "column=value" per value, 1 or 0. True and
    false are 1 and 0.
    With `missing` "error" a row without a number raises TableError; "drop" drops it; "median" keeps
    it as NaN for the model to fill. A row without a class is never kept.
    """
    require(table, [target], "the target")
    require(table, features or [], "given as a feature")
    require(table, drop or [], "given to be dropped")
    if target in (features or []):
        raise TableError(f"the target {target!r} cannot also be a feature")
    wanted = [name for name in features or table.names if name != target]
    wanted = [name for name in wanted if name not in (drop or [])]
    columns = {name: _Column() for name in wanted}
    labels = []
    for batch in read_batches(table, "read"):
        labels.append(batch.column(target))
        for name, column in columns.items():
            column.add(batch.column(name))
    n_rows = sum(map(len, labels))
    if n_rows == 0:
        raise TableError(f"{table.path} has a header and no rows")

    for name, column in columns.items():
        column.check_decimals(table, name)
    dropped = dict.fromkeys(drop or [], "by --drop")
    categories = {name: found for name, c in columns.items() if (found := c.categories())}
    if features is None:
        categories = {k: v for k, v in categories.items() if not columns[k].names_parts()}
    coded = {
        f"{name}={value}": columns[name].indicator(value)
        for name, values in categories.items()
        for value in values
    }
    columns = {name: column for name, column in columns.items() if name not in categories}
    if features is None:
        reasons = {name: column.reason(name) for name, column in columns.items()}
        dropped |= {name: reason for name, reason in reasons.items() if reason}
        columns = {name: column for name, column in columns.items() if not reasons[name]}
    if not columns and not coded:
        told = "; ".join(f"{name!r}: {reason}" for name, reason in list(dropped.items())[:5])
        raise TableError(
            f"{table.path} has no numeric or categorical column other than the target {target!r}"
            + (f" ({told})" if told else "")
        )
    for name, column in columns.items():
        column.check(table, name)
    X = np.column_stack([*(column.values for column in columns.values()), *coded.values()])
    names = [*columns, *coded]
    y, labelled = _classes(table, target, labels)
    kept = _complete(table, names, X, missing)
    if missing == "error" and not labelled.all():
        raise TableError(
            f"{table.path} has {np.sum(~labelled):,} rows without a class in {target!r}, the first "
            f"in data row {np.argmin(labelled) + 1}; fill them, or use --missing drop"
        )
    kept &= labelled
    if not kept.any():
        raise TableError(f"{table.path} has no row without a missing value; try --missing median")
    return TrainingData(X[kept], y[kept], names, dropped, n_rows, categories)


def coded_features(categories: dict[str, list[str]]) -> dict[str, tuple[str, str]]:
    """Features "column=value" of categorical columns, with column and value."""
    return {
        f"{column}={value}": (column, value)
        for column, values in categories.items()
        for value in values
    }


def feature_matrix(table: Table, batch, features, n_before: int, gaps: bool) -> np.ndarray:
    """Features of the rows of a batch, NaN for missing numbers if `gaps` are allowed.

    `features` are their names, and which of them are `coded_features`; `n_before` is the number of
    rows before the batch.
    """
    names, coded = features
    X = np.empty((batch.num_rows, len(names)))
    for j, name in enumerate(names):
        if name in coded:
            column, value = coded[name]
            X[:, j] = indicator(batch.column(column), value)
            continue
        X[:, j], bad = numbers(batch.column(name))
        if len(bad):
            content = batch.column(name)[int(bad[0])].as_py()
            raise TableError(
                f"{table.path}: column {name!r} has {content!r} in data row "
                f"{n_before + bad[0] + 1}; the model needs a number there"
            )
    huge = np.abs(X) > LARGEST
    for i, j in np.argwhere(huge if gaps else huge | np.isnan(X))[:1]:
        where = f"in data row {n_before + i + 1}; fix it"
        what = f"is {too_large(X[i, j])} {where}"
        if np.isnan(X[i, j]):
            what = f"has no value {where}, or fit with --missing median to have it filled"
        raise TableError(f"{table.path}: column {names[j]!r} {what}")
    return X


class _Column:
    """A column while it is read: its numbers, and which cells are not numbers."""

    def __init__(self):
        self._parts, self._n_rows, self._n_bad = [], 0, 0
        self._first = (0, "")  # row and content of the first cell that is not a number
        self._texts: list[pa.Array] = []  # all cells, while the column may be categorical
        self._levels: set[str] | None = set()  # its values; None if there are too many

    def add(self, cells: pa.Array):
        values, bad = numbers(cells)
        if len(bad) and not self._n_bad:
            self._first = (self._n_rows + bad[0], str(cells[int(bad[0])].as_py()))
        self._n_rows += len(cells)
        self._n_bad += len(bad)
        self._parts.append(values)
        if self._levels is not None and _is_text(cells):
            found = pc.unique(pc.utf8_trim_whitespace(cells)).to_pylist()
            self._levels |= {value for value in found if value}
            self._texts.append(cells)
            if len(self._levels) > _MOST_CATEGORIES:
                self._levels, self._texts = None, []

    @property
    def values(self):
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    def categories(self) -> list[str]:
        """The values of a categorical column, sorted; empty if it is another kind of column."""
        n_numbers = self._n_rows - np.isnan(self.values).sum()
        mostly_text = self._n_bad and n_numbers < _MEANT_AS_NUMBERS * (n_numbers + self._n_bad)
        if not mostly_text or not self._levels:
            return []
        repeated = 2 <= len(self._levels) <= self._n_rows / 2
        return sorted(self._levels) if repeated else []

    def names_parts(self) -> bool:
        """Whether the values are train, test, oos_test and the like, which new rows do not have."""
        words = [value.lower().replace("-", "_").rpartition("_") for value in self._levels or ()]
        plain = {last for first, _, last in words if not first}
        return not plain.isdisjoint({"train", "training"}) and {w[2] for w in words} <= _PARTS

    def indicator(self, value: str) -> np.ndarray:
        return np.concatenate([indicator(cells, value) for cells in self._texts])

    def reason(self, name):
        """Why the column is not a feature; empty if it is."""
        found = self.values[~np.isnan(self.values)]
        filled = len(found) + self._n_bad
        if filled == 0:
            return "no values"
        if self.names_parts():
            return f"names parts of the data: {', '.join(sorted(self._levels))}"
        if self._n_bad and len(found) < _MEANT_AS_NUMBERS * filled:
            return f"not numeric, for example {_short(self._first[1])}"
        if self._n_bad:
            return ""  # `check` raises
        if len(found) > 1 and np.all(found == found[0]):
            return f"always {found[0] + 0.0:g}"  # 0, not -0
        if len(self.values) > 2 and np.all(np.diff(self.values) == 1):
            return "counts the rows"
        named_id = name.strip().lower() in _ID_NAMES or name.lower().endswith(("_id", "-id", " id"))
        whole = np.all(found == np.floor(found))
        if named_id and whole and len(np.unique(found)) == len(found) > 1:
            return "an identifier: all values differ"
        return ""

    def check_decimals(self, table, name):
        """Raise TableError if numbers are written with a decimal comma, which reads as text."""
        row, content = self._first
        texts = {content.strip()} | (self._levels or set())
        if self._n_bad and all(_DECIMAL.fullmatch(text) for text in texts):
            raise TableError(
                f"{table.path}: column {name!r} has numbers with a decimal comma (data row "
                f"{row + 1}: {_short(content)}); write them with a point, or use --drop {name!r}"
            )

    def check(self, table, name):
        if self._n_bad:
            row, content = self._first
            raise TableError(
                f"{table.path}: column {name!r} has {self._n_bad:,} non-numeric cells out of "
                f"{self._n_rows:,} (data row {row + 1}: {_short(content)}); fix them or use "
                f"--drop {name!r}"
            )


def _is_text(cells):
    return pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)


def indicator(cells: pa.Array, value: str) -> np.ndarray:
    """1.0 where a text column has the value, else 0.0, also where it is missing."""
    if not _is_text(cells):
        cells = cells.cast(pa.string())
    same = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(cells), value), False)
    return same.to_numpy(zero_copy_only=False).astype(float)


def _short(content):
    content = " ".join(content.split())
    return repr(content if len(content) <= 30 else content[:27] + "...")


def _complete(table, names, X, missing):
    """Rows to keep; raise for a missing or infinite number that must not be skipped."""
    huge = np.abs(X) > LARGEST
    if huge.any():
        i, j = np.argwhere(huge)[0]
        raise TableError(
            f"{table.path}: column {names[j]!r} is {too_large(X[i, j])} in data row {i + 1}; fix "
            f"it or use --drop {names[j]!r}"
        )
    gaps = np.isnan(X)
    complete = ~gaps.any(axis=1)
    if complete.all() or missing == "median":
        return np.ones(len(X), dtype=bool)
    if missing == "drop":
        return complete
    column = int(gaps.sum(axis=0).argmax())
    rows = np.flatnonzero(~complete)
    raise TableError(
        f"{table.path} has missing values in {len(rows):,} of {len(X):,} rows (data rows "
        f"{', '.join(str(r + 1) for r in rows[:3])}{', ...' if len(rows) > 3 else ''}), most in "
        f"column {names[column]!r}: use --missing drop (skip the rows), --missing median "
        f"(fill them) or --drop {names[column]!r}"
    )


def _classes(table, target, chunks):
    """Labels as texts, or as integers if all are; and which rows have one."""
    encoded = pa.chunked_array(chunks).dictionary_encode().combine_chunks()
    values = [label_text(value) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    # A class may be called "NA"; only a blank means that there is none.
    present = np.array([value is not None for value in values] + [False])
    texts = [value or "" for value in values] + [""]
    labelled = present[codes]
    used = {texts[code] for code in np.unique(codes[labelled])}
    if not used:
        raise TableError(f"{table.path} has no class in any row of the target {target!r}")
    if len(used) == 1:
        raise TableError(
            f"the target {target!r} of {table.path} has only one class, {used.pop()!r}; at "
            "least two are required"
        )
    n_rows = int(labelled.sum())
    if len(used) > max(20, n_rows // 2):
        raise TableError(
            f"the target {target!r} of {table.path} has {len(used):,} different values in "
            f"{n_rows:,} rows; it looks like an identifier or a measurement, not a class"
        )
    if all(is_integer(text) for text in used):
        return np.array([to_integer(text or "0") for text in texts])[codes], labelled
    return np.array(texts)[codes], labelled


def label_text(value):
    """A label as text; None if there is none."""
    if value is None or value != value:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a column of integers with gaps is read as one of floats
    return str(value).strip() or None


def too_large(value: float) -> str:
    """What is wrong with a number beyond `LARGEST`."""
    return "infinite" if np.isinf(value) else f"too large ({value:g})"


def is_integer(text):
    """Whether the text is just how an integer is written, or 7.0; 007 is a name."""
    text = text.removesuffix(".0")  # as pandas writes integers with gaps
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(text)) == text and len(text) < 18


def to_integer(text):
    """The integer that is written so, after `is_integer`."""
    return int(text.removesuffix(".0"))


def labels_by_text(labels):
    """Labels by how a table may write them: an integer 7 also as 7.0."""
    texts = {label_text(label): label for label in labels}
    return {f"{text}.0": label for text, label in texts.items() if label != text} | texts
