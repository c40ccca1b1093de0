"""Columns by name, and as numbers."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._open import Table, TableError

# How texts say that there is no value.
_MISSING = ["", "na", "n/a", "nan", "null", "none", "?", "-"]

_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"


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
    """A column as numbers.

    Parameters
    ----------
    column : pyarrow.Array

    Returns
    -------
    values : ndarray of shape (n,), float64
        NaN where there is no number.
    bad : ndarray of shape (k,)
        Rows that hold something that is neither a number nor a sign for a missing one.
    """
    none = np.empty(0, dtype=np.intp)
    if not (_is_text(column.type) or _is_number(column.type)):
        present = column.is_valid().to_numpy(zero_copy_only=False)
        return np.full(len(column), np.nan), np.flatnonzero(present)
    try:
        return _as_float(column), none
    except pa.ArrowInvalid:
        pass
    text = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array([*_MISSING, None]))
    number = pc.fill_null(pc.match_substring_regex(text, _NUMBER), False)
    values = _as_float(pc.if_else(number, text, None))
    return values, np.flatnonzero(~pc.or_(missing, number).to_numpy(zero_copy_only=False))


def _as_float(column):
    floats = pc.cast(column, pa.float64())
    return floats.to_numpy(zero_copy_only=False)


def _is_text(kind):
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_number(kind):
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)
