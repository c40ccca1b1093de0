"""Columns of a table as features: numbers, and one 0/1 feature per value of a category."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_array, check_is_fitted

from ..base.fitted import require
from ._files import CHUNK, Table, TableError, index_columns, plain, readable

# Texts that mean a missing value.
_MISSING = ["", "na", "n/a", "nan", "null", "none", "?", "-"]
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"
# A number with a decimal comma.
_DECIMAL_COMMA = r"^\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*$"
# As text, in the order of ISO 8601 or with the year last; a time may follow.
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([T ][\d:.+Z-]+)?$"
)
# Larger numbers cannot be squared, so distances would overflow.
_LARGEST = 1e150

# If at least this share of a column are numbers, other cells are errors; else it is not a feature.
_MEANT_AS_NUMBERS = 0.5
# Most values of a text column that is categorical: one 0/1 feature per value.
_MOST_CATEGORIES = 20
# Values of a column that says which rows are for training.
_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"}
_ID_NAMES = {"id", "index", "idx", "row", "rowid", "key", "uuid"}
# What pandas calls its index in a CSV file, and what it reads that as.
_INDEX_NAMES = {"", "unnamed: 0"}
# From this many rows on, whole numbers that hardly repeat are recognised as a count of the rows.
# In any order, if they are that dense: those of a sample of half of the rows.
_ROWS_TO_COUNT, _DISTINCT, _SPREAD = 10, 0.95, 2


class _Frame(Table):
    """A table in memory: a DataFrame of pandas or polars, an Arrow table or batch."""

    def __init__(self, frame: Any, names: Iterable[str] | None = None):
        """With `names`, only these columns are looked at, if there are all of them."""
        if isinstance(frame, pa.RecordBatch):
            frame = pa.Table.from_batches([frame])
        columns = [str(name) for name in getattr(frame, "column_names", frame.columns)]
        super().__init__(Path("the table"), columns)
        if names is not None:
            self.require(names, "which the model needs")
            places = [columns.index(name) for name in names]
            frame = frame.iloc[:, places] if hasattr(frame, "iloc") else frame.select(list(names))
        with readable(self.path):
            # Any library that offers Arrow's stream of columns will do.
            self._table = pa.table(frame)
        self.names, self.index = (
            self._table.column_names,
            frozenset(index_columns(self._table.schema)),
        )

    def read(self):
        for batch in self._table.to_batches(max_chunksize=CHUNK):
            yield 1.0, plain(batch)


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table into a matrix: numbers as they are, categories as one 0/1 feature per value.

    It is the first step of the models that ``openset fit`` writes, so these take a DataFrame with
    the columns of their training table, in any order and among others. A text column with at most
    20 different values is a category; a value that is new in `transform` is 0 in all its features.
    True and false are 1 and 0. Columns without information are dropped: constants, row numbers,
    identifiers, other texts, dates, the index of pandas.

    Parameters
    ----------
    features : list of str, default=None
        Columns to use; None takes all that are usable.
    drop : list of str, default=None
        Columns to leave out.
    missing : {"error", "drop", "median"}, default="error"
        "median" leaves missing numbers as NaN, for an imputer after this step. Otherwise
        `transform` raises TableError; with "drop", ``openset fit`` skips rows with missing values.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        The columns that are used: those of numbers, then the categories.
    n_features_in_ : int
        Their number.
    categories_ : dict {str: list of str}
        The values of each categorical column, sorted.
    dropped_ : dict {str: str}
        Why a column is not used.

    Examples
    --------
    >>> import pandas as pd
    >>> from openset.tables import TableEncoder
    >>> colours = ["blue", "red", "blue", "red"]
    >>> table = pd.DataFrame({"width": [1.5, 3.5, 2.5, 4.0], "colour": colours})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['width', 'colour=blue', 'colour=red']
    >>> encoder.transform(table[2:])
    array([[2.5, 1. , 0. ],
           [4. , 0. , 1. ]])
    """

    _parameter_constraints: dict = {
        "features": ["array-like", None],
        "drop": ["array-like", None],
        "missing": [StrOptions({"error", "drop", "median"})],
    }

    def __init__(self, *, features=None, drop=None, missing="error"):
        self.features = features
        self.drop = drop
        self.missing = missing

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Decide which columns are features.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or RecordBatch, Table or array-like of shape (n, d)
            An array holds the features already: columns x0, x1, ..., of which none is dropped.
        y : None
            Ignored.

        Returns
        -------
        TableEncoder
        """
        if _is_table(X):
            read_columns(self, X if isinstance(X, Table) else _Frame(X))
            return self
        names = [f"x{j}" for j in range(check_array(X, ensure_all_finite="allow-nan").shape[1])]
        return self._set(names, {}, {})

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of the rows.

        Parameters
        ----------
        X : DataFrame, pyarrow Table or RecordBatch, Table or array-like of shape (n, d)
            A table with the columns `feature_names_in_`; or an array of the features themselves.

        Returns
        -------
        ndarray of shape (n, d)
        """
        check_is_fitted(self)
        d = len(self.get_feature_names_out())
        if _is_table(X):
            table = X if isinstance(X, Table) else _Frame(X, self.feature_names_in_)
            return np.vstack([np.empty((0, d)), *(rows for _, rows in self.batches(table))])
        gaps: Any = "allow-nan" if self.missing == "median" else True
        X = check_array(X, dtype=np.float64, ensure_all_finite=gaps, ensure_min_samples=0)
        if X.shape[1] != d:
            raise ValueError(
                f"X has {X.shape[1]} features, but TableEncoder is expecting {d} features as "
                f"input: {', '.join(self.get_feature_names_out()[:8])}{', ...' * (d > 8)}. Or pass "
                "a DataFrame with the columns of the training table."
            )
        return X

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray:
        """Return the names of the features; "column=value" for those of categories.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Ignored.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        coded = [f"{name}={v}" for name, values in self.categories_.items() for v in values]
        return np.array([*self._numeric, *coded], dtype=object)

    def batches(
        self, table: Table, title: str = "", gaps: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """Yield the batches of a table with their features, (n, d).

        Parameters
        ----------
        table : Table
        title : str, default=""
            Of a progress bar.
        gaps : bool, default=False
            Whether a missing number is NaN, whatever `missing` says.

        Yields
        ------
        batch : pyarrow.RecordBatch
        features : ndarray of shape (n, d)
        """
        table.require(self.feature_names_in_.tolist(), "which the model needs")
        gaps, n_before = gaps or self.missing == "median", 0
        for batch in table.batches(title):
            yield batch, self._encode(table, batch, n_before, gaps)
            n_before += batch.num_rows

    def check_fitted(self) -> None:
        """Raise ValueError if the fitted attributes do not fit together."""
        names = self.feature_names_in_
        require(isinstance(names, np.ndarray) and names.ndim == 1, "feature_names_in_ is no array")
        texts = [*names.tolist(), *self.dropped_, *self.dropped_.values()]
        for values in self.categories_.values():
            require(isinstance(values, list), "categories_ is not a dict of lists")
            texts += values
        require(all(isinstance(text, str) for text in texts), "a name or a value is no text")
        fits = len(set(names)) == len(names) == self.n_features_in_ > 0
        require(fits and set(self.categories_) <= set(names), "the columns do not fit together")
        require(self.missing in ("error", "drop", "median"), f"missing is {self.missing!r}")

    @property
    def _numeric(self) -> list[str]:
        return [name for name in self.feature_names_in_ if name not in self.categories_]

    def _set(self, names, categories, dropped):
        self.feature_names_in_ = np.array([*names, *categories], dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        self.categories_, self.dropped_ = categories, dropped
        return self

    def _encode(self, table, batch, n_before, gaps):
        """Features of a batch, (n, d); errors count the rows from those before the batch."""
        columns = []
        for name in self._numeric:
            values, bad = numbers(batch.column(name), table.decimal)
            if len(bad):
                content = batch.column(name)[int(bad[0])].as_py()
                kind = "not more than 2^53" if _is_whole(str(content)) else "there"
                if re.match(_DECIMAL_COMMA, str(content)):
                    kind += "; if this is one, use --decimal ,"
                raise TableError(
                    f"{table.path}: column {name!r} has {content!r} in data row "
                    f"{n_before + bad[0] + 1}; the model needs a number {kind}"
                )
            columns.append(values)
        for name, values in self.categories_.items():
            columns += [_indicator(batch.column(name), value) for value in values]
        X = np.column_stack(columns)
        refused = np.abs(X) > _LARGEST
        _check_size(self, table, X, n_before, refused if gaps else refused | np.isnan(X), "")
        return X


def encoder_of_columns(
    names: list[str], categories: dict[str, list[str]], missing: str
) -> TableEncoder:
    """A fitted encoder of these features, "column=value" for those of categories."""
    coded = {f"{name}={value}" for name, values in categories.items() for value in values}
    numeric = [name for name in names if name not in coded]
    return TableEncoder(missing=missing)._set(numeric, categories, {})


def _is_table(X):
    """Whether this has columns with names: a DataFrame, or a table of Arrow or of this package."""
    return isinstance(X, Table) or hasattr(X, "column_names") or hasattr(X, "columns")


def read_columns(
    encoder: TableEncoder, table: Table, target: str | None = None, group: str | None = None
) -> tuple[np.ndarray, dict[str, pa.ChunkedArray]]:
    """Fit an encoder to a table that is read once."""
    # Returns the features of all rows, (n, d), NaN where a value is missing, and the columns
    # `target` and `group`.
    columns, dropped = _candidates(encoder, table, target, group)
    further: dict[str, list] = {name: [] for name in filter(None, (target, group))}
    n_rows = 0
    for batch in table.batches("read"):
        n_rows += batch.num_rows
        for name, cells in further.items():
            cells.append(batch.column(name))
        for column in columns.values():
            column.add(batch.column(column.name))
    if not n_rows:
        raise TableError(f"{table.path} has a header and no rows")
    _choose(encoder, table, target, columns, dropped)
    matrix = [columns[name].values for name in encoder._numeric]
    for name, values in encoder.categories_.items():
        matrix += [columns[name].indicator(value) for value in values]
    X = np.column_stack(matrix)
    _check_size(encoder, table, X, 0, np.abs(X) > _LARGEST, " or use --drop {!r}")
    return X, {name: pa.chunked_array(cells) for name, cells in further.items()}


def _candidates(encoder, table, target, group) -> tuple[dict[str, _Column], dict[str, str]]:
    """The columns that may be features, and why others are not."""
    encoder._validate_params()
    features = [] if encoder.features is None else list(encoder.features)
    drop = [] if encoder.drop is None else list(encoder.drop)
    table.require([target], "the target")
    table.require(features, "given as a feature")
    table.require(drop, "given to be dropped")
    table.require([group], "which groups the rows")
    for name, what in ((target, "target"), (group, "group")):
        if name in features:
            raise TableError(f"the {what} {name!r} cannot also be a feature")
    wanted = dict.fromkeys(features or table.names)
    wanted.pop(target, None)
    index = [] if features else sorted(table.index & wanted.keys())
    dropped = dict.fromkeys(index, "the index of pandas") | dict.fromkeys(drop, "by --drop")
    dropped |= dict.fromkeys(filter(None, [group]), "by --group")
    return {n: _Column(n, table.decimal) for n in wanted if n not in dropped}, dropped


def _choose(encoder, table, target, columns, dropped):
    """Set which columns are numbers, categories and none; raise if one cannot be what it should."""
    chosen = encoder.features is not None
    categories, numeric = {}, []
    for column in columns.values():
        column.check_decimals(table)
    for name, column in columns.items():
        if values := column.categories(chosen):
            categories[name] = values
        elif reason := "" if chosen else column.reason():
            dropped[name] = reason
        else:
            numeric.append(name)
    if not numeric and not categories:
        other = "" if target is None else f" other than the target {target!r}"
        told = "; ".join(map("{0[0]!r}: {0[1]}".format, list(dropped.items())[:5]))
        raise TableError(
            f"{table.path} has no numeric or categorical column{other}" + f" ({told})" * bool(told)
        )
    for name in numeric:
        columns[name].check(table, chosen)
    encoder._set(numeric, categories, dropped)


def _check_size(encoder, table, X, n_before, refused, remedy):
    """Raise TableError for the first entry of X that is `refused`, (n, d) bool."""
    if not refused.any():
        return
    i, j = np.argwhere(refused)[0]
    name, value = encoder.get_feature_names_out()[j], X[i, j]
    trouble = "is infinite" if np.isinf(value) else f"is too large ({value:g})"
    if np.isnan(value):
        trouble, remedy = "has no value", ", or fit with --missing median to have it filled"
    raise TableError(
        f"{table.path}: column {name!r} {trouble} in data row {n_before + i + 1}; fix it"
        + remedy.format(name)
    )


class _Column:
    """A column while it is read: its numbers, and which cells are not numbers."""

    def __init__(self, name: str, decimal: str):
        self.name, self._decimal = name, decimal
        self._chunks: list[np.ndarray] = []
        self._n_rows, self._n_bad = 0, 0
        self._first = (0, "")  # row and content of the first cell that is not a number
        self._odd = {"large", "comma"}  # what all of them are
        self._texts: list[pa.Array] = []  # all cells, while the column may be categorical
        self._levels: set[str] | None = set()  # its values; None if there are too many

    def add(self, cells: pa.Array):
        values, bad = numbers(cells, self._decimal)
        if len(bad):
            wrong = cells.take(pa.array(bad))
            if not self._n_bad:
                self._first = (self._n_rows + bad[0], str(wrong[0].as_py()))
            if self._odd:
                self._odd &= _odd(wrong)
        self._n_rows += len(cells)
        self._n_bad += len(bad)
        self._chunks.append(values)
        if self._levels is not None and _is_text(cells):
            found = pc.unique(pc.utf8_trim_whitespace(cells)).to_pylist()
            self._levels |= {value for value in found if value}
            self._texts.append(cells)
            if len(self._levels) > _MOST_CATEGORIES:
                self._levels, self._texts = None, []

    @property
    def values(self) -> np.ndarray:
        if len(self._chunks) > 1:
            self._chunks = [np.concatenate(self._chunks)]
        return self._chunks[0]

    @property
    def _mostly_text(self) -> bool:
        """Whether most values are neither numbers nor large integers."""
        n_numbers = self._n_rows - np.isnan(self.values).sum()
        is_text = n_numbers < _MEANT_AS_NUMBERS * (n_numbers + self._n_bad)
        return bool(self._n_bad and is_text and "large" not in self._odd)

    def categories(self, chosen: bool) -> list[str]:
        """The values of a categorical column, sorted; empty if it is another kind of column."""
        if not self._mostly_text or not self._levels:
            return []
        passing = not chosen and (self.names_parts() or self.names_dates())
        repeated = 2 <= len(self._levels) <= self._n_rows / 2
        return sorted(self._levels) if repeated and not passing else []

    def names_dates(self) -> bool:
        """Whether all values are dates, as text; new rows have others."""
        return bool(self._levels) and all(_DATE.match(value) for value in self._levels or ())

    def names_parts(self) -> bool:
        """Whether the values are train, test, oos_test and the like, which new rows do not have."""
        words = [value.lower().replace("-", "_").rpartition("_") for value in self._levels or ()]
        plain = {last for first, _, last in words if not first}
        return not plain.isdisjoint({"train", "training"}) and {w[2] for w in words} <= _PARTS

    def indicator(self, value: str) -> np.ndarray:
        return np.concatenate([_indicator(cells, value) for cells in self._texts])

    def reason(self) -> str:
        """Why the column is not a feature; empty if it is."""
        present = self.values[~np.isnan(self.values)]
        if len(present) + self._n_bad == 0:
            return "no values"
        if self.names_parts():
            return f"names parts of the data: {', '.join(sorted(self._levels or ()))}"
        if not self._n_bad:
            return self._reason_of_numbers(present)
        if "large" in self._odd and self._named_id:
            return "an identifier: integers beyond 2^53"
        # Else `check` raises.
        return f"not numeric, for example {_short(self._first[1])}" if self._mostly_text else ""

    @property
    def _named_id(self) -> bool:
        name = self.name.lower()
        return name.strip() in _ID_NAMES or name.endswith(("_id", "-id", " id"))

    def _reason_of_numbers(self, present: np.ndarray) -> str:
        whole = np.all(present == np.floor(present))
        if len(present) > 1 and np.all(present == present[0]):
            return f"always {present[0] + 0.0:g}"  # 0, not -0
        if len(self.values) > 2 and np.all(np.diff(self.values) == 1):
            return "counts the rows"
        if whole and self.name.strip().lower() in _INDEX_NAMES:
            return "the index of pandas"
        if self._named_id and whole and len(np.unique(present)) == len(present) > 1:
            return "an identifier: all values differ"
        return ""

    def seems_to_count(self) -> bool:
        """Whether the numbers may only count rows: whole, hardly repeated, increasing or dense."""
        present = self.values[~np.isnan(self.values)]
        distinct = np.unique(present)
        if len(present) < _ROWS_TO_COUNT or len(distinct) < _DISTINCT * len(present):
            return False
        increasing = np.all(np.diff(present) >= 0)
        dense = distinct[-1] - distinct[0] < _SPREAD * len(present)
        return bool(np.all(present == np.floor(present)) and (increasing or dense))

    def check_decimals(self, table):
        """Raise TableError if numbers are written with a decimal comma, which reads as text."""
        if self._n_bad and "comma" in self._odd:
            row, content = self._first
            raise TableError(
                f"{table.path}: column {self.name!r} has numbers with a decimal comma (data row "
                f"{row + 1}: {_short(content)}); use --decimal , or write them with a point, or "
                f"use --drop {self.name!r}"
            )

    def check(self, table, chosen: bool):
        """Raise TableError if there are cells that are not numbers; warn if they count rows."""
        if self._n_bad:
            row, content = self._first
            cells = "non-numeric cells"
            if "large" in self._odd:
                cells = "integers beyond 2^53, which a float64 cannot hold,"
            raise TableError(
                f"{table.path}: column {self.name!r} has {self._n_bad:,} {cells} out of "
                f"{self._n_rows:,} (data row {row + 1}: {_short(content)}); fix them or use "
                f"--drop {self.name!r}"
            )
        if not chosen and self.seems_to_count():
            warnings.warn(
                f"column {self.name!r} of {table.path} seems to count the rows, and is learned as "
                f"a feature; if it does, use --drop {self.name!r}",
                stacklevel=2,
            )


def _odd(cells: pa.Array) -> set[str]:
    """What all of these cells, which are no numbers for a model, are."""
    if not _is_text(cells):
        return {"large"} if pa.types.is_integer(cells.type) else set()
    large = {"large"} if all(map(_is_whole, cells.to_pylist())) else set()
    commas = pc.all(pc.match_substring_regex(cells, _DECIMAL_COMMA)).as_py()
    return large | {"comma"} if commas else large


def numbers(column: pa.Array, decimal: str = ".") -> tuple[np.ndarray, np.ndarray]:
    """A column as float64 (n,), NaN where there is no number, and the rows that are invalid."""
    # True and false are 1 and 0. A row is invalid if it holds neither a number, nor one of these,
    # nor a text that means a missing value; also if it holds an integer that float64 cannot.
    kind, types = column.type, pa.types
    if _is_text(column):
        if decimal == ",":  # a point is then no part of a number
            column = pc.replace_substring(column, ".", " ")
            column = pc.replace_substring(column, ",", ".")
        try:
            return _without_large(_as_float(column), column)
        except pa.ArrowInvalid:
            text = pc.utf8_trim_whitespace(column)
        text = pc.if_else(pc.equal(pc.utf8_lower(text), "true"), "1", text)
        text = pc.if_else(pc.equal(pc.utf8_lower(text), "false"), "0", text)
        missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array([*_MISSING, None]))
        number = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
        bad = np.flatnonzero(~pc.or_(missing, number).to_numpy(zero_copy_only=False))
        values, large = _without_large(_as_float(pc.if_else(number, text, None)), text)
        return values, np.union1d(bad, large)
    tests = types.is_integer, types.is_floating, types.is_boolean, types.is_decimal
    if any(test(kind) for test in tests):
        try:
            return _as_float(column), np.empty(0, dtype=np.intp)
        except pa.ArrowInvalid:  # integers beyond 2^53
            size = pc.abs(column.cast(pa.decimal128(20)))
            bad = pc.fill_null(pc.greater(size, pa.scalar(2**53, size.type)), False)
            return _as_float(pc.if_else(bad, None, column)), np.flatnonzero(bad)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    return np.full(len(column), np.nan), np.flatnonzero(present)


def _without_large(values, texts):
    """Values (n,), NaN where the text is an integer beyond 2^53, and the rows of these."""
    rows = np.flatnonzero(np.abs(values) >= 2**53)
    cells = texts.take(pa.array(rows)).to_pylist()
    # 2^53 + 1 is rounded to 2^53.
    large = [
        _is_whole(c) and (abs(values[r]) > 2**53 or abs(int(c)) > 2**53)
        for r, c in zip(rows, cells, strict=True)
    ]
    if any(large):
        rows = rows[large]
        values = values.copy()
        values[rows] = np.nan
        return values, rows
    return values, rows[:0]


def _is_whole(text: str) -> bool:
    """Whether a text is an integer, in digits."""
    return re.fullmatch(r"\s*[+-]?\d+\s*", text) is not None


def _as_float(column):
    return pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)


def _is_text(cells):
    return pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)


def _indicator(cells: pa.Array, value: str) -> np.ndarray:
    """1.0 where a text column has the value, else 0.0, also where it is missing; (n,)."""
    if not _is_text(cells):
        cells = cells.cast(pa.string())
    same = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(cells), value), False)
    return same.to_numpy(zero_copy_only=False).astype(float)


def _short(content):
    content = " ".join(content.split())
    return repr(content if len(content) <= 30 else content[:27] + "...")
