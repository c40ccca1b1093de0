"""Columns of a table as features: numbers, categories, and which columns are none, and why."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openset.datasets.tables import Table, TableError, numbers

# If at least this share of a column are numbers, other cells are errors; else it is not a feature.
_MEANT_AS_NUMBERS = 0.5

# Most values of a text column that is categorical: one 0/1 feature per value.
_MOST_CATEGORIES = 20
# Larger numbers cannot be squared, so distances would overflow.
LARGEST = 1e150
# A number with a decimal comma.
_DECIMAL_COMMA = r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$"
# Values of a column that says which rows are for training.
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"}
_ID_NAMES = {"id", "index", "idx", "row", "rowid", "key", "uuid"}
# What pandas calls its index in a CSV file, and what it reads that as.
_INDEX_NAMES = {"", "unnamed: 0"}
# From this many rows on, whole numbers that hardly repeat are recognised as a count of the rows.
# In any order, if they are that dense: those of a sample of half of the rows.
_ROWS_TO_COUNT, _DISTINCT, _SPREAD = 10, 0.95, 2


class Column:
    """A column while it is read: its numbers, and which cells are not numbers."""

    def __init__(self):
        self._parts, self._n_rows, self._n_bad = [], 0, 0
        self._first = (0, "")  # row and content of the first cell that is not a number
        self._too_large = False  # whether these are integers beyond 2^53
        self._only_commas = True  # whether all of them have a decimal comma
        self._texts: list[pa.Array] = []  # all cells, while the column may be categorical
        self._levels: set[str] | None = set()  # its values; None if there are too many

    def add(self, cells: pa.Array):
        values, bad = numbers(cells)
        if len(bad) and not self._n_bad:
            self._first = (self._n_rows + bad[0], str(cells[int(bad[0])].as_py()))
            self._too_large = pa.types.is_integer(cells.type)
        self._n_rows += len(cells)
        self._n_bad += len(bad)
        self._parts.append(values)
        if len(bad) and self._only_commas:
            commas = _is_text(cells) and pc.match_substring_regex(cells.take(bad), _DECIMAL_COMMA)
            self._only_commas = commas and pc.all(commas).as_py()
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
        named_id = name.strip().lower() in _ID_NAMES or name.lower().endswith(("_id", "-id", " id"))
        if self._too_large and named_id:
            return "an identifier: integers beyond 2^53"
        if self._n_bad and len(found) < _MEANT_AS_NUMBERS * filled and not self._too_large:
            return f"not numeric, for example {_short(self._first[1])}"
        if self._n_bad:
            return ""  # `check` raises
        if len(found) > 1 and np.all(found == found[0]):
            return f"always {found[0] + 0.0:g}"  # 0, not -0
        if len(self.values) > 2 and np.all(np.diff(self.values) == 1):
            return "counts the rows"
        whole = np.all(found == np.floor(found))
        if whole and name.strip().lower() in _INDEX_NAMES:
            return "the index of pandas"
        if named_id and whole and len(np.unique(found)) == len(found) > 1:
            return "an identifier: all values differ"
        return ""

    def seems_to_count(self) -> bool:
        """Whether the numbers may only count rows: whole, hardly repeated, increasing or dense."""
        found = self.values[~np.isnan(self.values)]
        distinct = np.unique(found)
        if len(found) < _ROWS_TO_COUNT or len(distinct) < _DISTINCT * len(found):
            return False
        increasing = np.all(np.diff(found) >= 0)
        return bool(
            np.all(found == np.floor(found))
            and (increasing or distinct[-1] - distinct[0] < _SPREAD * len(found))
        )

    def check_decimals(self, table, name):
        """Raise TableError if numbers are written with a decimal comma, which reads as text."""
        if self._n_bad and self._only_commas:
            row, content = self._first
            raise TableError(
                f"{table.path}: column {name!r} has numbers with a decimal comma (data row "
                f"{row + 1}: {_short(content)}); write them with a point, or use --drop {name!r}"
            )

    def check(self, table, name):
        if self._n_bad:
            row, content = self._first
            what = "integers beyond 2^53, which a float64 cannot hold," if self._too_large else ""
            raise TableError(
                f"{table.path}: column {name!r} has {self._n_bad:,} {what or 'non-numeric cells'} "
                f"out of {self._n_rows:,} (data row {row + 1}: {_short(content)}); fix them or use "
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
            kind = "not more than 2^53" if isinstance(content, int) else "there"
            raise TableError(
                f"{table.path}: column {name!r} has {content!r} in data row "
                f"{n_before + bad[0] + 1}; the model needs a number {kind}"
            )
    huge = np.abs(X) > LARGEST
    for i, j in np.argwhere(huge if gaps else huge | np.isnan(X))[:1]:
        where = f"in data row {n_before + i + 1}; fix it"
        what = f"is {too_large(X[i, j])} {where}"
        if np.isnan(X[i, j]):
            what = f"has no value {where}, or fit with --missing median to have it filled"
        raise TableError(f"{table.path}: column {names[j]!r} {what}")
    return X


def too_large(value: float) -> str:
    """What is wrong with a number beyond `LARGEST`."""
    return "infinite" if np.isinf(value) else f"too large ({value:g})"
