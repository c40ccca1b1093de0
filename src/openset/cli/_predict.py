"""``openset predict``: a table of any length in, the same with answers out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._monitor import ALARM, as_dict
from openset.cli._options import WRITES, UsageError, complain, reported


@reported
def predict(
    shared: options.Working,
    model: options.Model,
    data: options.Data,
    output: Annotated[Path, typer.Option("--output", "-o"), WRITES] = Path("-"),
    monitor: Annotated[Path | None, WRITES] = None,
    group: options.Column = None,
    scheduler: options.Scheduler = None,
) -> None:
    """Answer every row of a table: a class or unknown, with score, runner-up and reason.

    output: Table to write: .csv, .tsv (also .gz), .parquet, .arrow; - is standard output.
    monitor: State of `openset monitor` to update; exit code 3 on an alarm.
    group: One answer per object, the rows that are alike in this column (track, session).
    """
    from contextlib import ExitStack, nullcontext

    from openset.base import PredictionExplainer
    from openset.cli._cluster import apply, connect
    from openset.monitoring import UnknownRateMonitor
    from openset.tables import check_writable, open_writer
    from openset.utils import update_lock

    if group is not None and scheduler is not None:
        raise UsageError("--group answers objects in this process; leave --scheduler out")
    options.prepare_output(output)
    check_writable(output)
    watch = None if monitor is None else UnknownRateMonitor.load(monitor)  # fails early
    jobs = shared.jobs if scheduler is None else 1  # a worker is one thread
    scorer, table = shared.model(model, jobs), shared.open(data)
    kept = table.names if group is None else [group, "rows"]
    answers = _Answers(scorer, kept, None if watch is None else watch.test)
    where = nullcontext() if scheduler is None else connect(scheduler)
    with ExitStack() as updating, where as client:
        read = scorer.batches(table, "predict") if group is None else ()
        rows = ((batch, (X, scorer.categories(batch))) for batch, X in read)
        answer = partial(_answer, scorer, PredictionExplainer(scorer.final, jobs))
        blocks: Iterator = ((batch, answer(row)) for batch, row in rows)
        if client is not None:
            blocks = apply(client, answer, rows)
        elif group is not None:
            blocks = _objects(scorer, table, group, answers)
        first = answers.added(*next(blocks))  # raises for a table without rows
        with open_writer(output, first.schema) as writer:
            writer.write(first)
            for block in blocks:
                writer.write(answers.added(*block))
            if monitor is not None:  # others may have counted meanwhile
                updating.enter_context(update_lock(monitor))
                watch = UnknownRateMonitor.load(monitor)
                for scores in answers.watched:
                    watch.update(scores, groups=answers.groups)
        if watch is not None and monitor is not None:
            watch.save(monitor)
    n_rows, unknown = sum(answers.counts.values()), answers.counts[scorer.final.unknown_label_]
    kind = "rows" if group is None else "objects"
    to_stdout = str(output) == "-"  # then the summary must not mix with the table
    by_answer = {str(answer): n for answer, n in answers.counts.most_common()}
    told: dict[str, Any] = {kind: n_rows, "unknown": unknown, "answers": by_answer}
    lines = [
        f"{table.path}: {n_rows:,} {kind} answered, {unknown:,} ({unknown / n_rows:.1%}) unknown; "
        f"wrote {'standard output' if to_stdout else output}"
    ]
    if watch is not None:
        told["monitor"] = as_dict(watch)
        lines += [f"monitor: {watch}", *["next: openset review shows the rows"] * watch.alarm]
    shared.tell(told, lines, indent=None, err=to_stdout)
    if watch is not None and watch.alarm:
        raise typer.Exit(ALARM)


def _objects(scorer, table, group: str, answers: _Answers):
    """One batch of all objects, with what `_answer` gives; `answers` keeps their rows."""
    import numpy as np
    import pyarrow as pa

    from openset.base import PredictionExplainer, group_scores

    scores, answers.groups = scorer.grouped(table, group, "predict")
    names, of_objects = group_scores(scores, answers.groups, aggregate=scorer.aggregate)
    _, counts = np.unique(answers.groups, return_counts=True)
    batch = pa.RecordBatch.from_arrays([pa.array(names), pa.array(counts)], names=[group, "rows"])
    yield batch, (scores.max(axis=1), PredictionExplainer(scorer.final).columns(None, of_objects))


def _answer(scorer, explainer, rows):
    """Known scores and columns of answers of features, here or on a worker."""
    X, categories = rows
    Z = scorer.transform(X)
    scores = scorer.scores(Z, categories)
    return scores.max(axis=1), explainer.columns(Z, scores)


class _Answers:
    """Adds the columns of answers to the rows of a table, and counts them."""

    def __init__(self, scorer, names, test):
        from openset.base import PredictionExplainer

        self.counts: Counter = Counter()
        self.watched: list = []  # scores for a monitor
        self.groups: Any = None  # the objects of these scores
        self._names = [*names, *_free_names(names, PredictionExplainer.NAMES)]
        self._test = test

    def added(self, batch, answered):
        import numpy as np
        import pyarrow as pa

        known_scores, columns = answered
        if self._test == "rate" and self.groups is None:
            # Only the sign counts, and the table may be long.
            known_scores = np.where(known_scores < 0, -1, 1).astype(np.int8)
        if self._test is not None:
            self.watched.append(known_scores)
        for pair in columns[0].value_counts().to_pylist():
            self.counts[pair["values"]] += pair["counts"]
        return pa.RecordBatch.from_arrays([*batch.columns, *columns], names=self._names)


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
