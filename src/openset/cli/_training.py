"""A table as training data: its features, its classes and the rows that are kept."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from openset.base import find_unknown_label
from openset.cli._columns import LARGEST, Column, coded_features, too_large
from openset.cli._labels import read_classes
from openset.cli._text import shortened
from openset.datasets.tables import Table, TableError, read_batches, require

# Names of classes that look like rows of no class.
_UNKNOWN_NAMES = {
    *("unknown", "none", "none of these", "other", "others", "oos", "ood", "out of scope"),
    *("out-of-scope", "out_of_scope", "background", "reject", "rest", "n/a", "misc"),
}


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

    Without `features` the numeric columns are found, except those that number or identify the rows
    (the index of pandas, too; one that only seems to number them gets a warning), and the
    categorical ones, which become one feature "column=value" per value, 1 or 0. True and false are
    1 and 0.
    With `missing` "error" a row without a number raises TableError; "drop" drops it; "median" keeps
    it as NaN for the model to fill. A row without a class is never kept.
    """
    require(table, [target], "the target")
    require(table, features or [], "given as a feature")
    require(table, drop or [], "given to be dropped")
    if target in (features or []):
        raise TableError(f"the target {target!r} cannot also be a feature")
    wanted = [name for name in features or table.names if name != target]
    index = table.index.intersection([] if features else wanted)
    wanted = [name for name in wanted if name not in index.union(drop or [])]
    columns = {name: Column() for name in wanted}
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
    dropped = dict.fromkeys(sorted(index), "the index of pandas")
    dropped |= dict.fromkeys(drop or [], "by --drop")
    categories = {name: found for name, c in columns.items() if (found := c.categories())}
    if features is None:
        categories = {k: v for k, v in categories.items() if not columns[k].names_parts()}
    coded = {
        feature: columns[name].indicator(value)
        for feature, (name, value) in coded_features(categories).items()
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
        if features is None and column.seems_to_count():
            warnings.warn(
                f"column {name!r} of {table.path} seems to count the rows, and is learned as a "
                f"feature; if it does, use --drop {name!r}",
                stacklevel=2,
            )
    X = np.column_stack([*(column.values for column in columns.values()), *coded.values()])
    names = [*columns, *coded]
    y, labelled = read_classes(table, target, labels)
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
