"""``openset fit``: a table in, a model file out."""

import sys
from functools import partial
from typing import Annotated, Any, Literal

import typer

from openset.cli import _options as options
from openset.cli._options import next_command, reported, stage

# One row of a class to hold out, one to fit and one to validate in the search.
_FEWEST_ROWS = 3
# Rows that are read here, where workers read all rows of a folder.
_HEADS = 200_000


@reported
def fit(
    shared: options.Working,
    data: options.Data,
    target: options.Target,
    output: options.NewModel,
    method: Annotated[str, typer.Option("--method", "-m")] = "ossvm",
    known: str | None = None,
    unknown: options.Unknown = None,
    features: str | None = None,
    drop: str | None = None,
    missing: options.Missing = "error",
    scale: Literal["minmax", "unit", "none"] = "minmax",
    group: options.Column = None,
    landmarks: Annotated[int | None, typer.Option(min=1)] = None,
    scheduler: options.Scheduler = None,
    turns: Annotated[int, typer.Option(min=0)] = 3,
    calibration: Annotated[float, typer.Option(min=0, max=0.9)] = 0.0,
    search_rows: Annotated[int | None, typer.Option(min=20)] = None,
    seed: options.Seed = 0,
) -> None:
    """Learn from a table: scale, tune with classes withheld, fit, report, save.

    known: Classes to learn, comma-separated (with a comma: in double quotes); others are unknown in
        the report.
    scale: Scale each feature to [0, 1], each row to length 1 (embeddings), or nothing.
    landmarks: Train on this many landmarks, for many rows (ossvm, svm).
    turns: Turns of the held-out report; 0 skips the report.
    calibration: Share of the rows to keep back, on which at most 5 % of known rows are promised to
        be rejected, and `openset traffic` rests its promise.
    search_rows: Rows for tuning; default: 3000, or 200 per class if more. The fit uses all.
    """
    from openset import evaluation, tables
    from openset.cli._cluster import connect
    from openset.cli._text import describe_data, describe_result
    from openset.model_selection import OpenSetSearchCV
    from openset.persistence import save_model
    from openset.utils import Progress, steps_of_fit

    how: dict[str, Any] = {"n_jobs": shared.jobs, "impute": missing == "median", "scale": scale}
    how |= {"landmarks": landmarks, "random_state": seed}
    how["verbose"] = shared.verbose
    if scheduler is not None and landmarks is None:
        raise options.UsageError("--scheduler needs --landmarks")
    with options.usage():  # for a wrong name, before the table is read
        evaluation.make_method(method, **how)
    options.prepare_output(output)
    table = shared.open(data)
    in_parts = scheduler is not None and table.parts is not None
    if calibration and in_parts:
        raise options.UsageError(
            f"--calibration {calibration:g} is for one file, not for a folder that workers read; "
            "use `openset calibrate` on another table"
        )
    training = tables.read_training(
        table.head(_HEADS) if in_parts else table,
        target,
        **options.columns(features, drop),
        missing=missing,
        group=group,
    )
    choice = training.choose(options.split(known, "--known"), unknown, _FEWEST_ROWS)
    summary = {"source": data.name, **training.describe(choice.used, unknown)}
    shared.note(*describe_data(summary))
    rows, unfitted = evaluation.hold_back(training, choice, calibration, _FEWEST_ROWS, seed)
    X, y, groups = training.take(rows)
    stage(f"tuning and fitting on {len(y):,} rows")
    search_rows = evaluation.tuning_rows(y, search_rows)
    # A simulation of the search is fitted on half of the rows of half of the classes.
    fit_steps = steps_of_fit(4 * len(y) / search_rows)
    bar = Progress((1 + 2 * turns) * fit_steps, "tuning and fitting", sys.stderr.isatty())
    model = evaluation.make_method(method, **how, unknown_label=choice.unknown_label)
    search = OpenSetSearchCV(model, n_jobs=shared.jobs, random_state=seed, verbose=bar)
    distributed: Any = scheduler is not None
    if in_parts:
        distributed = tables.part_readers(table, training, choice.labels)
    with connect(scheduler):
        fitted = evaluation.fit_method(
            search, X, y, groups=groups, max_tuning_rows=search_rows, distributed=distributed
        )
    if in_parts:
        summary |= fitted.counts
        shared.note(f"{data.name}: {fitted.n_rows:,} rows learned, read by the workers")
    on_turn = partial(_next_turn, bar, fit_steps)
    result, card = evaluation.complete_model(
        fitted, training, choice, unfitted, summary, n_turns=turns, seed=seed, on_turn=on_turn
    )
    bar.finish()
    card = save_model(result, output, card)
    lines = [*describe_result(card), *options.saved(output, size=True)]
    if not calibration:
        other = "calibrate", output, "TABLE", "--target", target
        lines.append(next_command("sets how many known rows are rejected", *other))
    shared.tell(card, lines)


def _next_turn(bar, fit_steps: int, turn: int, n_turns: int, withheld: list) -> None:
    """Count the fit before the first turn, or the two fits of the turn that ended."""
    bar.step(fit_steps if turn == 1 else 2 * fit_steps)
    bar.stage(f"held-out report, turn {turn} of {n_turns}")
