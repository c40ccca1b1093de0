"""A fitted model applied to tables: their features, their scores and their true classes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator

from ..utils import answer_labels, layers, split_fitted
from ..utils.text import shortened
from ._encoder import TableEncoder, encoder_of_columns
from ._files import Table, TableError
from ._training import (
    find_label,
    label_codes,
    label_text,
    labels_by_text,
    read_rows,
    required_texts,
)


class TableModel:
    """A fitted model, and which columns of a table are its features.

    That is told by its `TableEncoder`, by its card if openset 0.1.0 wrote it, or by the DataFrame
    that it was fitted on; otherwise features are identified by their position.
    """

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
        if self.category_column is not None:
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
            for name, cells in values.items():
                cells += ["" if cell is None else cell for cell in batch[name].to_pylist()]
        return np.vstack(blocks), values

    def read_training(
        self, table: Table, target: str, unknown: str | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The table that the model was trained on: X (n, d), y (n,), and X of label `unknown`.

        A row with a missing value is filled by the model or, if it does not do that, left out; so
        is a row of a class that the model does not know.
        """
        table.require([target], "the target")
        encoder, labels = self.encoder(table), labels_by_text(self.final.classes_.tolist())
        missing = "median" if encoder.missing == "median" else "drop"
        X, y = read_rows(encoder, table, target, missing)
        if unknown in labels:
            raise TableError(
                f"--unknown: the model has learned {unknown!r} as a class; take it out with "
                "--remove"
            )
        if getattr(self.final, "n_known_unknowns_", 0):
            labels[str(self.final.unknown_label_)] = self.final.unknown_label_
        junk = np.zeros(len(y), dtype=bool)
        if unknown is not None and unknown not in labels:
            find_label(unknown, np.unique(y).tolist(), f"--unknown: {table.path}")
            junk = y == unknown
        used = np.isin(y, list(labels))
        if not used.any():
            known = shortened([str(label) for label in self.final.classes_.tolist()])
            raise TableError(
                f"{table.path} has no row of a class that the model has learned in {target!r}; "
                f"the classes are {known}"
            )
        return X[used], np.array([labels[text] for text in y[used].tolist()]), X[junk]

    def transform(self, X: np.ndarray) -> np.ndarray:
        """What the final estimator takes for features X, (n, d)."""
        with warnings.catch_warnings():
            # The columns were selected by name already.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return self._transform(X)

    def labelled(
        self, table: Table, target: str, unknown: str | None = None, columns: Iterable[str] = ()
    ) -> LabelledRows:
        """The rows of a table whose classes are known; 1, 1.0 and "1" are one class."""
        table.require([target], "the target")
        table.require(columns, "which groups the rows")
        classes = self.final.classes_.tolist()
        labels = labels_by_text(classes)
        if unknown in labels:
            raise TableError(
                f"--unknown: the model has learned {unknown!r} as a class; fit it again with "
                f"--unknown {unknown!r}"
            )
        codes = {text: classes.index(label) for text, label in labels.items()}
        return LabelledRows(self, table, target, codes, {name: [] for name in columns})


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
            if (indices < 0).any():
                row = n_rows + int(np.argmax(indices < 0)) + 1
                raise TableError(
                    f"{self.table.path} has no class in {self.target!r} in data row {row}; fill it "
                    "or drop the row"
                )
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
