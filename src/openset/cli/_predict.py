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
from openset.cli._monitor import ALARM, as_dict

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from openset.datasets.tables import Table


@reported
def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Table to write: .csv, .tsv (also .gz), .parquet, .arrow; - is standard output.",
        ),
    ],
    monitor: Annotated[
        Path | None,
        typer.Option(help="State of `openset monitor` to update; exit code 3 on an alarm."),
    ] = None,
    scheduler: options.Scheduler = None,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Answer every row of a table: a class or unknown, with score, runner-up and reason."""
    import pyarrow as pa

    from openset.base import PredictionExplainer
    from openset.cli._cluster import workers
    from openset.datasets.tables import check_writable, open_table, open_writer
    from openset.monitoring import UnknownRateMonitor

    options.prepare_output(output, data, model)
    check_writable(output)
    watch = None if monitor is None else UnknownRateMonitor.load(monitor)
    jobs = jobs if scheduler is None else 1  # a worker is one thread
    scorer = TableScorer(model, jobs)
    table = open_table(data, encoding)
    explainer = PredictionExplainer(scorer.final, jobs)
    names = _free_names(table.names, explainer.NAMES)
    counts: Counter = Counter()

    def answer(X):
        Z, scores = scorer.score(X)
        return scores.max(axis=1), explainer.columns(Z, scores)

    def joined(batch, answered):
        known_scores, answers = answered
        if watch is not None:
            watch.update(known_scores)
        counts.update({n["values"]: n["counts"] for n in answers[0].value_counts().to_pylist()})
        columns = [*batch.columns, *answers]
        return pa.RecordBatch.from_arrays(columns, names=[*table.names, *names])

    with workers(scheduler) as apply:
        blocks = apply(answer, scorer.matrices(table, "predict"))
        first = joined(*next(blocks))  # raises for a table without rows
        with open_writer(output, first.schema) as writer:
            writer.write(first)
            for block in blocks:
                writer.write(joined(*block))
    if watch is not None and monitor is not None:
        watch.save(monitor)
    n_rows = sum(counts.values())
    unknown = counts[scorer.final.unknown_label_]
    to_stdout = str(output) == "-"  # then the summary must not mix with the table
    if as_json:
        by_answer = {str(answer): n for answer, n in counts.most_common()}
        told = {"rows": n_rows, "unknown": unknown, "answers": by_answer}
        told = told if watch is None else told | {"monitor": as_dict(watch)}
        typer.echo(json.dumps(told), err=to_stdout)
    else:
        say(
            f"{table.path}: {n_rows:,} rows answered, {unknown:,} ({unknown / n_rows:.1%}) "
            f"unknown; wrote {'standard output' if to_stdout else output}",
            err=to_stdout,
        )
        if watch is not None:
            say(f"monitor: {watch}", err=to_stdout)
    if watch is not None and watch.alarm:
        raise typer.Exit(ALARM)


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
    """Some rows of the table, their features, the final estimator's input, and their scores."""

    batch: pa.RecordBatch
    X: np.ndarray
    Z: np.ndarray
    scores: np.ndarray


class TableScorer:
    """A model file, loaded to score the rows of tables; `final` is the open-set estimator."""

    def __init__(self, path: str | os.PathLike, jobs: int):
        from openset.cli._text import categories_of, features_of
        from openset.cli._training import coded_features
        from openset.persistence import load_model, read_card
        from openset.utils import split_fitted

        card = read_card(path)
        self.model = model = load_model(path)
        self._transform, self.final = split_fitted(model)
        if "n_jobs" in self.final.get_params(deep=False):
            self.final.set_params(n_jobs=jobs)
        self._n_features = model.n_features_in_
        self._names = features_of(card)
        self._coded = coded_features(categories_of(card))
        if self._names is None and hasattr(model, "feature_names_in_"):  # saved from Python
            self._names = model.feature_names_in_.tolist()
        self._fills_gaps = "SimpleImputer" in card.get("steps", [])

    @property
    def missing(self) -> str:
        """What the model does with missing values, as for `openset fit --missing`."""
        return "median" if self._fills_gaps else "error"

    def read(self, table: Table, shown: dict[str, list] | None = None, *, raw: bool = False):
        """All rows as the final estimator sees them, or `raw` as they are in the table.

        `shown` maps names of further columns to lists, which their values are appended to.
        """
        import numpy as np

        from openset.datasets.tables import TableError, read_batches, require

        names, shown = self.features(table), shown or {}
        require(table, list(shown), "which is to be shown")
        parts: list = []
        n_rows = 0
        for batch in read_batches(table, "read"):
            parts.append(self._matrix(table, batch, names, n_rows))
            n_rows += batch.num_rows
            for name, values in shown.items():
                values += [value if value is not None else "" for value in batch[name].to_pylist()]
        if n_rows == 0:
            raise TableError(f"{table.path} has a header and no rows")
        X = np.vstack(parts)
        return X if raw else self._transform(X)

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
        columns = [self._coded.get(name, (name,))[0] for name in names]
        require(table, list(dict.fromkeys(columns)), "which the model needs")
        return names

    def score(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The final estimator's input for features X, and the scores."""
        with warnings.catch_warnings():
            # The columns were selected by name already.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            Z = self._transform(X)
            return Z, self.final.decision_function(Z)

    def blocks(self, table: Table, title: str) -> Iterator[ScoredBlock]:
        """Score all rows in order; show progress on a terminal."""
        for batch, X in self.matrices(table, title):
            yield ScoredBlock(batch, X, *self.score(X))

    def matrices(self, table: Table, title: str) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
        """All rows in order, and their features; show progress on a terminal."""
        from openset.datasets.tables import TableError, read_batches

        names = self.features(table)
        n_rows = 0
        for batch in read_batches(table, title):
            yield batch, self._matrix(table, batch, names, n_rows)
            n_rows += batch.num_rows
        if n_rows == 0:
            raise TableError(f"{table.path} has a header and no rows")

    def _matrix(self, table, batch, names, n_before):
        from openset.cli._training import feature_matrix

        return feature_matrix(table, batch, (names, self._coded), n_before, self._fills_gaps)


class LabelReader:
    """Reads the classes of rows as codes; 1, 1.0 and "1" are one class.

    The code K is of a row whose class was not learned; `others` are the names of such classes.
    `unknown` names one that must not have been learned.
    """

    def __init__(self, scorer: TableScorer, table: Table, target: str, unknown: str | None):
        from openset.cli._training import label_text
        from openset.datasets.tables import TableError, require

        require(table, [target], "the target")
        self._text, self._path, self._target, self._n_rows = label_text, table.path, target, 0
        self._codes = {label_text(c): code for code, c in enumerate(scorer.final.classes_.tolist())}
        self.others: dict[str, None] = {}
        if unknown in self._codes:
            raise TableError(
                f"--unknown: the model has learned {unknown!r} as a class; fit it again with "
                f"--unknown {unknown!r}"
            )

    def codes(self, batch: pa.RecordBatch) -> np.ndarray:
        """The codes of the next rows; TableError if one has no class."""
        import numpy as np

        from openset.datasets.tables import TableError

        labels = batch.column(self._target).dictionary_encode()
        texts = [self._text(value) for value in labels.dictionary.to_pylist()]
        indices = labels.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
        blank = np.array([text is None for text in texts] + [True])[indices]
        if blank.any():
            raise TableError(
                f"{self._path} has no class in {self._target!r} in data row "
                f"{self._n_rows + np.argmax(blank) + 1}; fill it or drop the row"
            )
        self._n_rows += len(indices)
        self.others |= dict.fromkeys(text for text in texts if text not in self._codes)
        unknown = len(self._codes)
        return np.array([self._codes.get(text, unknown) for text in texts] + [unknown])[indices]


def read_labelled(
    scorer: TableScorer, table: Table, target: str, unknown: str | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Features and answers of all rows, and how many are unknown."""
    import numpy as np

    from openset.utils import answer_labels

    reader = LabelReader(scorer, table, target, unknown)
    blocks = [(block.X, reader.codes(block.batch)) for block in scorer.blocks(table, "read")]
    X, codes = map(np.concatenate, zip(*blocks, strict=True))
    labels = answer_labels(scorer.final.classes_, scorer.final.unknown_label_)
    return X, labels[codes], int(np.sum(codes == len(scorer.final.classes_)))
