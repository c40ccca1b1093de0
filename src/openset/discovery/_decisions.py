"""What a person decided about unknown samples: a CSV file with the columns row, decision, label."""

from __future__ import annotations

import csv
import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

KINDS = ("new", "class", "junk")
_COLUMNS = ("row", "decision", "label")


class DecisionError(ValueError):
    """A decision cannot be followed; the message names its line and row."""


@dataclass(frozen=True)
class Decisions:
    """Decisions about samples, in the order of the file.

    Attributes
    ----------
    rows : ndarray of shape (n,), int
        Rows of the data, counted from 0; in the file they are counted from 1.
    kinds : list of str
        "new": the label names a new class; "class": the sample is of the known class `label`;
        "junk": it belongs to no class.
    labels : list of label or None
        Of the type of the known classes; None for junk.
    """

    rows: np.ndarray
    kinds: list[str]
    labels: list[Hashable | None]

    def __len__(self) -> int:
        return len(self.rows)

    def of_kind(self, *kinds: str) -> np.ndarray:
        """Return which decisions are of these kinds.

        Parameters
        ----------
        *kinds : str

        Returns
        -------
        ndarray of shape (n,), bool
        """
        return np.isin(self.kinds, kinds)

    def check(self, n_rows: int, classes: Sequence, unknown_label: Hashable) -> None:
        """Raise DecisionError for the first decision that cannot be followed.

        Parameters
        ----------
        n_rows, classes, unknown_label
            As for :func:`read_decisions`.
        """
        if not len(self.rows) == len(self.kinds) == len(self.labels):
            raise DecisionError(
                f"rows, kinds and labels must have one entry per decision; they have "
                f"{len(self.rows)}, {len(self.kinds)} and {len(self.labels)}"
            )
        known, seen = np.asarray(classes).tolist(), set()
        for row, kind, label in zip(self.rows, self.kinds, self.labels, strict=True):
            if not 0 <= row < n_rows:
                raise DecisionError(
                    f"there is no row {row}; the data have the rows 0 to {n_rows - 1}"
                )
            if row in seen:
                raise DecisionError(f"row {row} was decided twice; keep one decision")
            seen.add(row)
            try:
                _check_label(label, kind, known, unknown_label)
            except ValueError as error:
                raise DecisionError(f"row {row}: {error}") from None


def read_decisions(
    path: str | os.PathLike, n_rows: int, classes: Sequence, unknown_label: Hashable
) -> Decisions:
    r"""Read and check a file of decisions.

    Parameters
    ----------
    path : path-like
        CSV with the columns row (counted from 1), decision ("new", "class" or "junk") and label.
    n_rows : int
        Rows of the data that the decisions are about.
    classes : sequence of labels
        Classes of the model.
    unknown_label : label
        Not allowed as the name of a class.

    Returns
    -------
    Decisions

    Raises
    ------
    DecisionError
        For the first line that names a row outside the data, a class that the model does not have,
        a new class that it has already, or a row for the second time, and for a line that is
        not CSV.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from openset.discovery import read_decisions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "decisions.csv")
    ...     _ = path.write_text("row,decision,label\n3,new,bus\n1,junk,\n")
    ...     decisions = read_decisions(path, 3, ["car"], "unknown")
    >>> decisions.rows, decisions.labels
    (array([2, 0]), ['bus', None])
    """
    known = np.asarray(classes).tolist()
    rows: list[int] = []
    kinds: list[str] = []
    labels: list[Hashable | None] = []
    lines: dict[int, int] = {}
    for number, line in _read_lines(path):
        where = f"{path} line {number}"
        row, kind, text = ((line[name] or "").strip() for name in _COLUMNS)
        if not row.isdigit() or not 1 <= int(row) <= n_rows:
            raise DecisionError(
                f"{where}: there is no row {row!r}; the data have the rows 1 to {n_rows}"
            )
        if int(row) in lines:
            raise DecisionError(
                f"{where}: row {row} was decided in line {lines[int(row)]} already; keep one line"
            )
        lines[int(row)] = number
        rows.append(int(row) - 1)
        kinds.append(kind)
        try:
            labels.append(_parse_label(text, kind, known))
            _check_label(labels[-1], kind, known, unknown_label)
        except ValueError as error:
            raise DecisionError(f"{where}, row {row}: {error}") from None
    return Decisions(np.array(rows, dtype=np.intp), kinds, labels)


def _read_lines(path):
    number = 0
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or [])]
            if missing:
                raise DecisionError(
                    f"{path} has no column {missing[0]!r}; it must have {', '.join(_COLUMNS)}"
                )
            for line in reader:
                number = reader.line_num
                yield number, line
    except UnicodeDecodeError as error:
        raise DecisionError(f"{path} is not a file in UTF-8 ({error})") from error
    except csv.Error as error:
        raise DecisionError(f"{path} is not CSV after line {number} ({error})") from error


def _parse_label(text, kind, known):
    """The label of a line, of the type of the classes where that is possible."""
    if kind == "junk" or not text:
        return None
    try:
        return text if isinstance(known[0], str) else type(known[0])(text)
    except ValueError:
        return text


def _check_label(label, kind, known, unknown_label):
    """Raise a ValueError that says what is wrong with a decision, if anything is."""
    if kind not in KINDS:
        raise ValueError(f"the decision {kind!r} is none of {', '.join(KINDS)}")
    if kind == "junk":
        return
    if label is None:
        raise ValueError("the label is missing")
    if isinstance(label, str) != isinstance(known[0], str):
        type_of_classes = "text" if isinstance(known[0], str) else "number"
        raise ValueError(
            f"the label {label!r} is not a {type_of_classes}, but the classes of the model are; "
            f"give the new class a {type_of_classes}"
        )
    if label == unknown_label:
        raise ValueError(f"the label {label!r} means unknown; use the decision junk")
    if kind == "class" and label not in known:
        raise ValueError(
            f"the model has no class {label!r}; use the decision new, or one of its classes"
        )
    if kind == "new" and label in known:
        raise ValueError(f"the model has a class {label!r} already; use the decision class")
