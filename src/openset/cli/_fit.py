"""``openset fit``: a table in, a model file out."""

import json
import sys
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._failures import reported, say, stage

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
    import numpy as np
    from sklearn.base import clone

    from openset import evaluation
    from openset.cli._cluster import connect
    from openset.cli._parts import PartReader
    from openset.cli._text import describe_data, describe_result
    from openset.cli._training import read_training
    from openset.datasets.tables import heads, open_table
    from openset.model_selection import OpenSetSearchCV
    from openset.persistence import save_model

    def tell(*lines):
        if not as_json:
            say(*lines)

    how: dict[str, Any] = {"n_jobs": jobs, "impute": missing == "median"}
    how |= {"landmarks": landmarks, "random_state": seed}
    if scheduler is not None and landmarks is None:
        raise typer.BadParameter("--scheduler needs --landmarks", param_hint="--scheduler")
    evaluation.make_method(method, **how)  # raises for a wrong name before the table is read
    options.prepare_output(output)
    table = open_table(data, encoding)
    parts = table.parts if scheduler is not None else None
    some = table if parts is None else heads(table, _HEADS)
    training = read_training(some, target, **options.columns(features, drop), missing=missing)
    names = options.split(known, "--known")
    label = training.unknown_label(unknown, table.path, names)
    classes = training.known_classes(names, table.path, label)
    training.check_sizes(classes, _FEWEST_ROWS)
    rows = np.isin(training.y, [*classes, label] if unknown is not None else classes)
    model = evaluation.make_method(method, **how, unknown_label=label)
    verbose = int(sys.stderr.isatty())
    if landmarks is not None and verbose and not as_json:
        model[-1].set_params(verbose=1)  # many rows: one line per class as it is fitted
    search = OpenSetSearchCV(model, n_jobs=jobs, random_state=seed, verbose=verbose)
    summary = _summarize(training, rows, target, data.name) | {"unknown": unknown}
    tell(*describe_data(summary))
    X, y = training.X[rows], training.y[rows]
    stage(f"tuning and fitting on {len(y):,} rows")
    n_tuning = search_rows or evaluation.tuning_rows(y)
    distributed: Any = scheduler is not None
    if parts is not None:
        kept = None if known is None else np.unique(y)
        distributed = [PartReader(part, target, training, missing, kept) for part in parts]
    with nullcontext() if scheduler is None else connect(scheduler):
        fitted = evaluation.fit_method(
            search, X, y, max_tuning_rows=n_tuning, distributed=distributed
        )
    if parts is not None:
        summary["rows"] = summary["rows_used"] = fitted.n_rows
        summary["rows_by_class"] = {str(k): n for k, n in sorted(fitted.class_counts.items())}
        tell(f"{data.name}: {fitted.n_rows:,} rows learned, read by the workers")
    report = evaluation.HeldOutReport()
    if turns:
        report = evaluation.held_out_report(
            *(clone(fitted.model), training.X, training.y),  # the setting that is saved
            n_turns=turns,
            known=classes,
            random_state=seed,
            on_turn=_say_turn,
        )
    card = save_model(fitted.model, output, evaluation.model_card(fitted, report, summary))
    tell(*describe_result(card), f"saved {output} ({output.stat().st_size / 1e6:.2f} MB)")
    if as_json:
        typer.echo(json.dumps(card, indent=1))


def _say_turn(turn, n_turns, withheld):
    names = ", ".join(map(str, withheld)) or "no class"
    stage(f"turn {turn} of {n_turns}: {names} withheld")


def _summarize(data, rows, target, source):
    """What the card says about the training data, as JSON allows."""
    import numpy as np

    labels, counts = np.unique(data.y[rows], return_counts=True)
    low, high = np.nanmin(data.X[rows], axis=0), np.nanmax(data.X[rows], axis=0)
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return {
        "source": source,
        "target": target,
        "rows": data.n_rows,
        "rows_used": int(rows.sum()),
        "rows_by_class": {str(k): int(n) for k, n in zip(labels, counts, strict=True)},
        "features": data.features,
        "categories": data.categories,
        # NaN, from a column without values, is not valid JSON.
        "ranges": [[a, b] if np.isfinite(a) else None for a, b in ranges],
        "dropped": data.dropped,
    }
