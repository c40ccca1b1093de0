"""``openset predict``: a table of any length in, the same with answers out."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from openset.cli import _options as options
from openset.cli._failures import complain, reported, say

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from openset.datasets.tables import Table


@reported
def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Table to write: .csv, .tsv, .parquet, .arrow.")
    ],
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Answer every row of a table: a class or unknown, with score, runner-up and reason."""
    import pyarrow as pa

    from openset.base import PredictionExplainer
    from openset.datasets.tables import check_writable, open_table, open_writer

    check_writable(output)
    scorer = TableScorer(model, jobs)
    table = open_table(data, encoding)
    explainer = PredictionExplainer(scorer.final, jobs)
    names = _free_names(table.names, explainer.NAMES)
    counts: Counter = Counter()
    blocks = scorer.blocks(table, "predict")

    def answered(block):
        answers = explainer.columns(block.Z, block.scores)
        counts.update({n["values"]: n["counts"] for n in answers[0].value_counts().to_pylist()})
        columns = [*block.batch.columns, *answers]
        return pa.RecordBatch.from_arrays(columns, names=[*table.names, *names])

    first = answered(next(blocks))  # raises for a table without rows
    with open_writer(output, first.schema) as writer:
        writer.write(first)
        for block in blocks:
            writer.write(answered(block))
    n_rows = sum(counts.values())
    unknown = counts[scorer.final.unknown_label_]
    if as_json:
        by_answer = {str(answer): n for answer, n in counts.most_common()}
        typer.echo(json.dumps({"rows": n_rows, "unknown": unknown, "answers": by_answer}))
        return
    say(
        f"{data}: {n_rows:,} rows answered, {unknown:,} ({unknown / n_rows:.1%}) unknown; "
        f"wrote {output}"
    )


def _free_names(taken: list[str], ours: tuple[str, ...]) -> list[str]:
    """Our column names, with underscores appended where the table has such columns already."""
    names = []
    for name in ours:
        free = name
        while free in taken:
            free += "_"
        if free != name:
            complain(f"note: the table has a column {name!r} already; the new one is {free!r}")
        names.append(free)
    return names


class ScoredBlock(NamedTuple):
    """Some rows of the table, the input of the final estimator for them, and their scores."""

    batch: pa.RecordBatch
    Z: np.ndarray
    scores: np.ndarray


class TableScorer:
    """A model file, loaded to score the rows of tables; `final` is the open-set estimator."""

    def __init__(self, path: str | os.PathLike, jobs: int):
        from openset.cli._text import features_of
        from openset.persistence import load_model, read_card
        from openset.utils import split_fitted

        card = read_card(path)
        model = load_model(path)
        self._transform, self.final = split_fitted(model)
        if "n_jobs" in self.final.get_params(deep=False):
            self.final.set_params(n_jobs=jobs)
        self._n_features = model.n_features_in_
        self._names = features_of(card)
        if self._names is None and hasattr(model, "feature_names_in_"):  # saved from Python
            self._names = model.feature_names_in_.tolist()
        self._fills_gaps = "SimpleImputer" in card.get("steps", [])

    def features(self, table: Table) -> list[str]:
        """The columns that the model needs, in its order; TableError if one is missing."""
        from openset.datasets.tables import TableError, require

        names = self._names
        if names is None:  # fitted on an array: columns are identified by position
            names = table.names
            if len(names) != self._n_features:
                raise TableError(
                    f"{table.path} has {len(names)} columns, but the model has "
                    f"{self._n_features} features without names; keep only their columns"
                )
        require(table, names, "which the model needs")
        return names

    def blocks(self, table: Table, title: str) -> Iterator[ScoredBlock]:
        """Score all rows in order; show progress on a terminal."""
        from openset.datasets.tables import TableError, read_batches

        names = self.features(table)
        n_rows = 0
        for batch in read_batches(table, title):
            X = self._matrix(table, batch, names, n_rows)
            with warnings.catch_warnings():
                # The columns were selected by name already.
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
                Z = self._transform(X)
                scores = self.final.decision_function(Z)
            yield ScoredBlock(batch, Z, scores)
            n_rows += batch.num_rows
        if n_rows == 0:
            raise TableError(f"{table.path} has a header and no rows")

    def _matrix(self, table, batch, names, n_before):
        import numpy as np

        from openset.datasets.tables import TableError, numbers

        X = np.empty((batch.num_rows, len(names)))
        for j, name in enumerate(names):
            X[:, j], bad = numbers(batch.column(name))
            if len(bad):
                content = batch.column(name)[int(bad[0])].as_py()
                raise TableError(
                    f"{table.path}: column {name!r} has {content!r} in data row "
                    f"{n_before + bad[0] + 1}; the model needs a number there"
                )
        for i, j in np.argwhere(np.isinf(X) if self._fills_gaps else ~np.isfinite(X))[:1]:
            where = f"in data row {n_before + i + 1}; fix it"
            what = f"is infinite {where}"
            if np.isnan(X[i, j]):
                what = f"has no value {where}, or fit with --missing median to have it filled"
            raise TableError(f"{table.path}: column {names[j]!r} {what}")
        return X
