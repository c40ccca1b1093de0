"""A model file and a table: acceptance scores, batch by batch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from openset.cli._card import features_of
from openset.cli._tables import Table, TableError, numbers, read_batches, require
from openset.persistence import load_model, read_card
from openset.utils import split_fitted


class Block(NamedTuple):
    """Some rows of the table, what the final estimator is given for them, and their scores."""

    batch: pa.RecordBatch
    Z: np.ndarray
    scores: np.ndarray


class Scorer:
    """A loaded model that scores the rows of a table.

    Parameters
    ----------
    path : path-like
        Model file.
    jobs : int
        Threads; -1 for all.

    Attributes
    ----------
    card : dict
    final : estimator
        The open-set estimator itself.
    """

    def __init__(self, path: str | os.PathLike, jobs: int):
        self.card = read_card(path)
        model = load_model(path)
        self._transform, self.final = split_fitted(model)
        if "n_jobs" in self.final.get_params(deep=False):
            self.final.set_params(n_jobs=jobs)
        self.jobs = jobs
        self._n_features = model.n_features_in_
        self._names = features_of(self.card)
        if self._names is None and hasattr(model, "feature_names_in_"):  # saved from Python
            self._names = model.feature_names_in_.tolist()
        self._fills_gaps = "SimpleImputer" in self.card.get("steps", [])

    def features(self, table: Table) -> list[str]:
        """The columns of the table that the model wants, in its order; TableError if any lacks."""
        names = self._names
        if names is None:  # fitted to an array: columns go by their place
            names = table.names
            if len(names) != self._n_features:
                raise TableError(
                    f"{table.path} has {len(names)} columns, and the model knows its "
                    f"{self._n_features} features by their place only; give it just these"
                )
        require(table, names, "which the model needs")
        return names

    def blocks(self, table: Table, title: str) -> Iterator[Block]:
        """Score all rows in order; progress is shown on a terminal."""
        names = self.features(table)
        n_rows = 0
        for batch in read_batches(table, title):
            X = self._matrix(table, batch, names, n_rows)
            with warnings.catch_warnings():
                # The columns were taken by name, whatever the estimators were fitted to.
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                Z = self._transform(X)
                scores = self.final.decision_function(Z)
            yield Block(batch, Z, scores)
            n_rows += batch.num_rows
        if n_rows == 0:
            raise TableError(f"{table.path} has a header and no rows")

    def _matrix(self, table, batch, names, n_before):
        X = np.empty((batch.num_rows, len(names)))
        for j, name in enumerate(names):
            X[:, j], bad = numbers(batch.column(name))
            if len(bad):
                content = batch.column(name)[int(bad[0])].as_py()
                raise TableError(
                    f"{table.path}: column {name!r} has {content!r} in data row "
                    f"{n_before + bad[0] + 1}; the model needs numbers there"
                )
        gaps = np.isinf(X) if self._fills_gaps else ~np.isfinite(X)
        if gaps.any():
            i, j = np.argwhere(gaps)[0]
            what = "is infinite" if np.isinf(X[i, j]) else "has no value"
            remedy = "" if np.isinf(X[i, j]) else ", or fit with --missing median to have it filled"
            raise TableError(
                f"{table.path}: column {names[j]!r} {what} in data row {n_before + i + 1}; mend "
                f"it{remedy}"
            )
        return X
