"""``openset monitor``: start the monitor of a stream, or show its state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from openset.cli import _options as options
from openset.cli._options import WRITES, UsageError, reported
from openset.cli._text import unknown_share
from openset.cli._traffic import estimated_share


@reported
def monitor(
    shared: options.Reading,
    file: Annotated[Path, typer.Argument(metavar="FILE"), WRITES],
    rate: options.Share = None,
    reference: options.ReadFile = None,
    group: options.Column = None,
    model: options.ReadFile = None,
    data: options.ReadFile = None,
    test: Literal["rate", "scores"] = "rate",
    alpha: Annotated[float, typer.Option(min=0, max=1)] = 0.05,
) -> None:
    """Start a monitor for `openset predict --monitor FILE`, or show its state.

    file: State of the monitor.
    rate: Start a monitor: normal share of unknown answers.
    reference: Start a monitor: answers of a normal period, from `openset predict`, one per row.
    model: With --data: tell how much of that table is unknown to this model.
    data: Unlabelled rows, for --model.
    test: What to watch: share of unknown, or scores.
    alpha: Largest probability of ever raising a false alarm.
    """
    from openset.monitoring import UnknownRateMonitor
    from openset.utils import update_lock

    if rate is not None and reference is not None:
        raise UsageError("--rate and --reference exclude each other; give one of them")
    share = _share(shared, model, data)
    if rate is reference is None:
        if not file.exists():
            raise FileNotFoundError(
                f"there is no monitor file {file}; give --rate or --reference to start one"
            )
        _tell(shared, UnknownRateMonitor.load(file), share)
        return
    options.prepare_output(file)
    _check_new(file)
    normal = {}
    if reference is not None:
        normal = _scores(reference, group, shared.encoding)
    elif group is not None:
        raise UsageError("--group is a column of the table --reference; give both, or neither")
    elif test == "scores":
        raise UsageError("--test scores needs --reference, the answers of a normal period")
    started = UnknownRateMonitor(rate, **normal, test=test, alpha=alpha)
    with update_lock(file.absolute().parent):  # another process may start it, too
        _check_new(file)
        started.save(file)
    counting = "predict", "MODEL", "TABLE", "--monitor", file
    _tell(shared, started, share, options.next_command("counts their answers", *counting))


def _share(shared: options.Reading, model: Path | None, data: Path | None) -> dict | None:
    """How much of the table is unknown, if there is one."""
    from openset.persistence import read_model
    from openset.tables import TableModel

    if model is data is None:
        return None
    if model is None or data is None:
        raise UsageError("--model and --data together tell the share of unknown rows; give both")
    scorer = TableModel(*read_model(model))
    X, _ = scorer.read(shared.open(data))
    share = estimated_share(scorer.final, scorer.transform(X))
    if share is None:
        raise ValueError(
            f"{model} holds no scores of rows that it was not fitted to, or {data} has fewer than "
            "10 rows: no share can be estimated; calibrate the model, or leave --model out"
        )
    return share


def _check_new(file: Path) -> None:
    if file.exists():
        raise FileExistsError(f"{file} exists; delete it to start again")


def _tell(shared: options.Output, state, share: dict | None, *following: str) -> None:
    """Print the evidence; exit with the code of an alarm if there is one."""
    told, lines = as_dict(state), [f"monitor: {state}"]
    if share is not None:
        told["traffic"] = share
        lines.append(f"{share['rows']:,} rows: {unknown_share(share)}")
    shared.tell(told, [*lines, *following], indent=None)
    if state.alarm:
        raise typer.Exit(options.ALARM)


def as_dict(state) -> dict:
    names = ("test", "n_samples", "n_unknown", "log_evidence", "log_threshold", "alarm_at")
    return {name: getattr(state, name) for name in names}


def _scores(path: Path, group: str | None, encoding: str) -> dict[str, Any]:
    """The known scores of a table of answers, and the texts of the column `group`, if any."""
    import numpy as np

    from openset.tables import TableError, numbers, open_table, required_texts

    table = open_table(path, encoding)
    table.require(["known_score"], "which `openset predict` writes")
    table.require([group], "which groups the rows")
    scores, groups = [np.empty(0)], [np.empty(0, dtype=object)]
    for batch in table.batches("read"):
        n_before = sum(map(len, scores))
        scores.append(numbers(batch.column("known_score"))[0])
        if group is not None:
            groups.append(required_texts(table, group, batch.column(group), n_before))
    if np.isnan(values := np.concatenate(scores)).any():
        raise TableError(f"{path} has rows without a number in 'known_score'")
    normal = {"reference": values}
    return normal if group is None else normal | {"reference_groups": np.concatenate(groups)}
