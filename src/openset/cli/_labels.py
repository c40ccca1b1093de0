"""Labels of a table: classes as texts or integers, however the file writes them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from openset.datasets.tables import Table, TableError


def read_classes(table: Table, target: str, chunks) -> tuple[np.ndarray, np.ndarray]:
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
