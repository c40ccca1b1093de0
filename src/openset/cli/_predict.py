"""``openset predict``: a table of any length in, the same with answers out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, starmap
from pathlib import Path
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._cluster import apply, connect
from openset.cli._monitor import as_dict
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
    from openset.tables import check_writable, open_writer

    if group is not None and scheduler is not None:
        raise UsageError("--group answers objects in this process; leave --scheduler out")
    options.prepare_output(output)
    check_writable(output)
    watch = _Watch(monitor)  # fails early
    jobs = shared.jobs if scheduler is None else 1  # a worker is one thread
    scorer, table = shared.model(model, jobs), shared.open(data)
    with ExitStack() as counting, connect(scheduler) as client:
        if group is None:
            kind, names, blocks = "rows", table.names, _rows(scorer, table, jobs, client)
        else:
            kind, names = "objects", [group, "rows"]
            blocks = _objects(scorer, table, group, watch)
        answers = _Answers(names, watch)
        answered = starmap(answers.added, blocks)
        first = next(answered)  # raises for a table without rows
        with open_writer(output, first.schema) as writer:
            for batch in chain([first], answered):
                writer.write(batch)
            counting.enter_context(watch.counted())
    n_rows, unknown = sum(answers.counts.values()), answers.counts[scorer.final.unknown_label_]
    to_stdout = str(output) == "-"  # then the summary must not mix with the table
    by_answer = {str(answer): n for answer, n in answers.counts.most_common()}
    told: dict[str, Any] = {kind: n_rows, "unknown": unknown, "answers": by_answer}
    lines = [
        f"{table.path}: {n_rows:,} {kind} answered, {unknown:,} ({unknown / n_rows:.1%}) unknown; "
        f"wrote {'standard output' if to_stdout else output}"
    ]
    state = watch.monitor
    if state is not None:
        told["monitor"] = as_dict(state)
        lines += [f"monitor: {state}", *["next: openset review shows the rows"] * state.alarm]
    shared.tell(told, lines, indent=None, err=to_stdout)
    if watch.alarm:
        raise typer.Exit(options.ALARM)


def _rows(scorer, table, jobs: int, client) -> Iterator[tuple]:
    """The batches of a table, each with its known scores and the columns of its answers."""
    from openset.base import PredictionExplainer

    answer = partial(_answer, scorer, PredictionExplainer(scorer.final, jobs))
    read = scorer.batches(table, "predict")
    pairs = ((batch, (X, scorer.categories(batch))) for batch, X in read)
    for batch, answered in apply(client, answer, pairs):
        yield batch, *answered


def _objects(scorer, table, group: str, watch: _Watch) -> Iterator[tuple]:
    """One batch of all objects, with the known scores of their rows."""
    import numpy as np
    import pyarrow as pa

    from openset.base import PredictionExplainer, group_scores

    scores, watch.groups = scorer.grouped(table, group, "predict")
    names, of_objects = group_scores(scores, watch.groups, aggregate=scorer.aggregate)
    counts = np.unique(watch.groups, return_counts=True)[1]
    batch = pa.RecordBatch.from_arrays([pa.array(names), pa.array(counts)], names=[group, "rows"])
    yield batch, scores.max(axis=1), PredictionExplainer(scorer.final).columns(None, of_objects)


def _answer(scorer, explainer, rows):
    """Known scores and columns of answers of features, here or on a worker."""
    X, categories = rows
    Z = scorer.transform(X)
    scores = scorer.scores(Z, categories)
    return scores.max(axis=1), explainer.columns(Z, scores)


class _Watch:
    """Keeps the scores of all rows for a monitor, if there is one."""

    def __init__(self, path: Path | None):
        from openset.monitoring import UnknownRateMonitor

        self._load, self._path = UnknownRateMonitor.load, path
        self.monitor = None if path is None else self._load(path)
        self.groups: Any = None  # the objects of the scores
        self._scores: list = []

    @property
    def alarm(self) -> bool:
        return self.monitor is not None and self.monitor.alarm

    def add(self, known_scores):
        import numpy as np

        if self.monitor is None:
            return
        if self.monitor.test == "rate" and self.groups is None:
            # Only the sign counts, and the table may be long.
            known_scores = np.where(known_scores < 0, -1, 1).astype(np.int8)
        self._scores.append(known_scores)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Tell the monitor the scores; save it when the answers are written."""
        if self._path is None:
            yield
            return
        from openset.utils import update_lock

        with update_lock(self._path):
            self.monitor = self._load(self._path)  # others may have counted meanwhile
            for scores in self._scores:
                self.monitor.update(scores, groups=self.groups)
            yield
            self.monitor.save(self._path)


class _Answers:
    """Adds the columns of answers to the rows of a table, and counts them."""

    def __init__(self, names: list[str], watch: _Watch):
        from openset.base import PredictionExplainer

        self.counts: Counter = Counter()
        self._names = [*names, *_free_names(names, PredictionExplainer.NAMES)]
        self._watch = watch

    def added(self, batch, known_scores, columns):
        import pyarrow as pa

        self._watch.add(known_scores)
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
