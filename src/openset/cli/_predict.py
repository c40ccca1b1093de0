"""``openset predict``: a table of any length in, the same with answers out."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from openset.cli import _options as options
from openset.cli._failures import complain, reported, say
from openset.cli._monitor import ALARM, as_dict
from openset.cli._paths import WRITES


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
        WRITES,
    ],
    monitor: Annotated[
        Path | None,
        typer.Option(help="State of `openset monitor` to update; exit code 3 on an alarm."),
        WRITES,
    ] = None,
    scheduler: options.Scheduler = None,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Answer every row of a table: a class or unknown, with score, runner-up and reason."""
    import numpy as np
    import pyarrow as pa

    from openset.base import PredictionExplainer
    from openset.cli._cluster import workers
    from openset.cli._scoring import TableScorer
    from openset.datasets.tables import check_writable, open_table, open_writer
    from openset.monitoring import UnknownRateMonitor
    from openset.utils import update_lock

    options.prepare_output(output)
    check_writable(output)
    watch = None if monitor is None else UnknownRateMonitor.load(monitor)  # fails early
    jobs = jobs if scheduler is None else 1  # a worker is one thread
    scorer = TableScorer(model, jobs)
    table = open_table(data, encoding)
    explainer = PredictionExplainer(scorer.final, jobs)
    names = _free_names(table.names, explainer.NAMES)
    counts: Counter = Counter()
    watched: list[np.ndarray] = []

    def answer(X):
        Z, scores = scorer.score(X)
        return scores.max(axis=1), explainer.columns(Z, scores)

    def joined(batch, answered):
        known_scores, answers = answered
        if watch is not None:  # of rates only the sign counts, and the table may be long
            rates = np.where(known_scores < 0, -1, 1).astype(np.int8)
            watched.append(known_scores if watch.test == "scores" else rates)
        counts.update({n["values"]: n["counts"] for n in answers[0].value_counts().to_pylist()})
        columns = [*batch.columns, *answers]
        return pa.RecordBatch.from_arrays(columns, names=[*table.names, *names])

    with ExitStack() as updating, workers(scheduler) as apply:
        blocks = apply(answer, scorer.matrices(table, "predict"))
        first = joined(*next(blocks))  # raises for a table without rows
        with open_writer(output, first.schema) as writer:
            writer.write(first)
            for block in blocks:
                writer.write(joined(*block))
            if monitor is not None:  # others may have counted meanwhile
                updating.enter_context(update_lock(monitor))
                watch = UnknownRateMonitor.load(monitor)
                for scores in watched:
                    watch.update(scores)
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
