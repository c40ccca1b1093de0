"""``openset fit``: a table in, a model file out."""

import json
import sys
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._options import reported, say, stage

# One row of a class to hold out, one to fit and one to validate in the search.
_FEWEST_ROWS = 3
# Rows that are read here, where workers read all rows of a folder.
_HEADS = 200_000


@reported
def fit(
    data: options.Data,
    target: options.Target,
    output: options.NewModel,
    method: Annotated[
        str, typer.Option("--method", "-m", help=f"One of {options.METHODS}.")
    ] = "ossvm",
    known: Annotated[
        str | None,
        typer.Option(
            help="Classes to learn, comma-separated (with a comma: in double quotes); others are "
            "unknown in the report."
        ),
    ] = None,
    unknown: options.Unknown = None,
    features: options.Features = None,
    drop: options.Drop = None,
    missing: options.Missing = "error",
    group: options.Group = None,
    landmarks: Annotated[
        int | None,
        typer.Option(min=1, help="Train on this many landmarks, for many rows (ossvm, svm)."),
    ] = None,
    scheduler: options.Scheduler = None,
    turns: Annotated[
        int, typer.Option(min=0, help="Turns of the held-out report; 0 skips the report.")
    ] = 3,
    search_rows: Annotated[
        int | None,
        typer.Option(
            min=20,
            help="Rows for tuning; default: 3000, or 200 per class if more. The fit uses all.",
        ),
    ] = None,
    seed: options.Seed = 0,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Learn from a table: scale, tune with classes withheld, fit, report, save."""
    from dataclasses import replace

    import numpy as np
    from sklearn.base import clone

    from openset import evaluation, tables
    from openset.cli._cluster import connect
    from openset.cli._text import describe_data, describe_result
    from openset.model_selection import OpenSetSearchCV
    from openset.persistence import save_model

    how: dict[str, Any] = {"n_jobs": jobs, "impute": missing == "median"}
    how |= {"landmarks": landmarks, "random_state": seed}
    if scheduler is not None and landmarks is None:
        raise typer.BadParameter("--scheduler needs --landmarks", param_hint="--scheduler")
    evaluation.make_method(method, **how)  # raises for a wrong name before the table is read
    options.prepare_output(output)
    table = tables.open_table(data, encoding)
    in_parts = scheduler is not None and table.parts is not None
    training = tables.read_training(
        table.head(_HEADS) if in_parts else table,
        target,
        **options.columns(features, drop),
        missing=missing,
        group=group,
    )
    choice = training.choose(options.split(known, "--known"), unknown, _FEWEST_ROWS)
    model = evaluation.make_method(method, **how, unknown_label=choice.unknown_label)
    verbose = int(sys.stderr.isatty())
    if landmarks is not None and verbose and not as_json:
        model[-1].set_params(verbose=1)  # many rows: one line per class as it is fitted
    search = OpenSetSearchCV(model, n_jobs=jobs, random_state=seed, verbose=verbose)
    summary = {"source": data.name, **training.describe(choice.used), "unknown": unknown}
    groups = None if training.groups is None else training.groups[choice.used]
    if groups is not None:
        summary |= {"group": group, "objects": len(np.unique(groups))}
    if not as_json:
        say(*describe_data(summary))
    X, y = training.X[choice.used], training.y[choice.used]
    stage(f"tuning and fitting on {len(y):,} rows")
    distributed: Any = scheduler is not None
    if in_parts:
        kept = None if known is None else np.unique(y)
        distributed = tables.part_readers(table, training, kept)
    with nullcontext() if scheduler is None else connect(scheduler):
        fitted = evaluation.fit_method(
            search,
            X,
            y,
            groups=groups,
            max_tuning_rows=search_rows or evaluation.tuning_rows(y),
            distributed=distributed,
        )
    if in_parts:
        summary["rows"] = summary["rows_used"] = fitted.n_rows
        summary["rows_by_class"] = {str(k): n for k, n in sorted(fitted.class_counts.items())}
        if not as_json:
            say(f"{data.name}: {fitted.n_rows:,} rows learned, read by the workers")
    report = evaluation.HeldOutReport()
    if turns:
        report = evaluation.held_out_report(
            *(clone(fitted.model), training.X, training.y),  # the setting that is saved
            groups=training.groups,
            n_turns=turns,
            known=choice.classes,
            random_state=seed,
            on_turn=_say_turn,
        )
    steps = [("table", training.encoder), *fitted.model.steps]
    fitted = replace(fitted, model=type(fitted.model)(steps))
    card = save_model(fitted.model, output, evaluation.model_card(fitted, report, summary))
    if as_json:
        typer.echo(json.dumps(card, indent=1))
        return
    say(*describe_result(card), f"saved {output} ({output.stat().st_size / 1e6:.2f} MB)")


def _say_turn(turn, n_turns, withheld):
    names = ", ".join(map(str, withheld)) or "no class"
    stage(f"turn {turn} of {n_turns}: {names} withheld")
