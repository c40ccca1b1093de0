"""Columns of any type as numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Texts that mean a missing value.
_MISSING = ["", "na", "n/a", "nan", "null", "none", "?", "-"]
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(inf|Inf|INF|infinity|Infinity)$"


def numbers(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return a column as float64, NaN where there is no number, and the rows that are invalid.

    True and false are 1 and 0. A row is invalid if it holds neither a number, nor one of these, nor
    a text that means a missing value; also if it holds an integer that float64 cannot.
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
        try:
            return _as_float(column), np.empty(0, dtype=np.intp)
        except pa.ArrowInvalid:  # integers beyond 2^53
            size = pc.abs(column.cast(pa.decimal128(20)))
            bad = pc.fill_null(pc.greater(size, pa.scalar(2**53, size.type)), False)
            return _as_float(pc.if_else(bad, None, column)), np.flatnonzero(bad)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    return np.full(len(column), np.nan), np.flatnonzero(present)


def _as_float(column):
    return pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
