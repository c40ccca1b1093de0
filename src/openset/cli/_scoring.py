"""A model file applied to tables: their features, their scores and their true classes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from openset import persistence
from openset.cli._columns import coded_features, feature_matrix
from openset.cli._failures import complain
from openset.cli._labels import label_text, labels_by_text
from openset.cli._parts import PartReader
from openset.cli._text import data_of
from openset.cli._training import TrainingData
from openset.datasets.tables import Table, TableError, read_batches, require
from openset.utils import answer_labels, split_fitted


class TableScorer:
    """A model file, loaded to score the rows of tables; `final` is the open-set estimator."""

    def __init__(self, path: str | os.PathLike, jobs: int):
        card = persistence.read_card(path)
        described = data_of(card)
        self.model = model = persistence.load_model(path)
        self._transform, self.final = split_fitted(model)
        if "n_jobs" in self.final.get_params(deep=False):
            self.final.set_params(n_jobs=jobs)
        self._n_features = model.n_features_in_
        self._names = described.get("features")
        self._trained_on = described.get("source"), described.get("rows")
        self._categories = described.get("categories", {})
        self._coded = coded_features(self._categories)
        if self._names is None and hasattr(model, "feature_names_in_"):  # saved from Python
            self._names = model.feature_names_in_.tolist()
        self._fills_gaps = "SimpleImputer" in card.get("steps", [])

    def features(self, table: Table) -> list[str]:
        """The columns that the model needs, in its order; TableError if one is missing."""
        names = self._names
        if names is None:  # fitted on an array: columns are identified by position
            names = [name for name in table.names if name not in table.index]
            if len(names) != self._n_features:
                raise TableError(
                    f"{table.path} has {len(names)} columns, but the model has "
                    f"{self._n_features} features without names; keep only their columns"
                )
        columns = [self._coded.get(name, (name,))[0] for name in names]
        require(table, list(dict.fromkeys(columns)), "which the model needs")
        return names

    def matrices(self, table: Table, title: str) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """All rows in order, and their features; show progress on a terminal."""
        names = self.features(table)
        n_rows = 0
        for batch in read_batches(table, title):
            features = names, self._coded
            yield batch, feature_matrix(table, batch, features, n_rows, self._fills_gaps)
            n_rows += batch.num_rows
        if n_rows == 0:
            raise TableError(f"{table.path} has a header and no rows")

    def read(
        self, table: Table, shown: dict[str, list] | None = None, *, raw: bool = False
    ) -> np.ndarray:
        """All rows as the final estimator sees them, or `raw` as they are in the table.

        `shown` maps names of further columns to lists, which their values are appended to.
        """
        shown = shown or {}
        require(table, list(shown), "which is to be shown")
        parts = []
        for batch, X in self.matrices(table, "read"):
            parts.append(X)
            for name, values in shown.items():
                values += [value if value is not None else "" for value in batch[name].to_pylist()]
        X = np.vstack(parts)
        return X if raw else self._transform(X)

    def read_training(self, table: Table, target: str) -> TrainingData:
        """The table that the model was trained on, labels as texts; without the rows it left out.

        A row with a missing value was filled in if the model does that, and else left out.
        """
        require(table, [target], "the target")
        names, none = self.features(table), np.empty((0, self._n_features))
        like = TrainingData(none, np.empty(0, dtype=str), names, {}, 0, self._categories)
        missing = "median" if self._fills_gaps else "drop"
        X, y = PartReader(table, target, like, missing, None)()
        return replace(like, X=X, y=y)

    def warn_of_training_rows(self, table: Table, n_rows: int) -> None:
        """Warn if a table of that many rows seems to be the one that the model was fitted on."""
        if self._trained_on == (table.path.name, n_rows):
            complain(
                f"warning: {table.path} seems to be the table that the model was fitted on (same "
                "name, same number of rows). Measures on rows that a model has seen are too good, "
                "and a threshold set on them keeps no promise: use other rows"
            )

    def score(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The final estimator's input for features X, and the scores."""
        with warnings.catch_warnings():
            # The columns were selected by name already.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            Z = self._transform(X)
            return Z, self.final.decision_function(Z)


class LabelledTable:
    """Features and true classes of the rows of a table; 1, 1.0 and "1" are one class.

    A row whose class was not learned gets the unknown label; `others` are the names of such classes
    among the rows read so far. `unknown` names one that must not have been learned.
    """

    def __init__(self, scorer: TableScorer, table: Table, target: str, unknown: str | None):
        require(table, [target], "the target")
        self.others: dict[str, None] = {}
        self._scorer, self._table, self._target = scorer, table, target
        classes = scorer.final.classes_.tolist()
        texts = labels_by_text(classes)
        self._codes = {text: classes.index(label) for text, label in texts.items()}
        if unknown in self._codes:
            raise TableError(
                f"--unknown: the model has learned {unknown!r} as a class; fit it again with "
                f"--unknown {unknown!r}"
            )

    def blocks(self, title: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Features and labels of all rows in order; TableError if a row has no class."""
        final, n_rows = self._scorer.final, 0
        labels = answer_labels(final.classes_, final.unknown_label_)
        for batch, X in self._scorer.matrices(self._table, title):
            yield X, labels[self._read_codes(batch, n_rows)]
            n_rows += len(X)
        self._scorer.warn_of_training_rows(self._table, n_rows)

    def _read_codes(self, batch, n_before):
        found = batch.column(self._target).dictionary_encode()
        texts = [label_text(value) for value in found.dictionary.to_pylist()]
        indices = found.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        blank = np.array([text is None for text in texts] + [True])[indices]
        if blank.any():
            raise TableError(
                f"{self._table.path} has no class in {self._target!r} in data row "
                f"{n_before + np.argmax(blank) + 1}; fill it or drop the row"
            )
        self.others |= dict.fromkeys(text for text in texts if text not in self._codes)
        unknown = len(self._scorer.final.classes_)
        return np.array([self._codes.get(text, unknown) for text in texts] + [unknown])[indices]
