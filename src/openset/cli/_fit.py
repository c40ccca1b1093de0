"""``openset fit``: a table in, a model file out."""

import sys
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any, Literal

import typer

from openset.cli import _options as options
from openset.cli._options import next_command, reported, say, stage

# One row of a class to hold out, one to fit and one to validate in the search.
_FEWEST_ROWS = 3
# Known rows with which 5 % of rejected ones can be promised.
_FEWEST_CALIBRATION = 19
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
    import numpy as np
    from sklearn.base import clone

    from openset import evaluation, tables
    from openset.cli._cluster import connect
    from openset.cli._text import describe_data, describe_result
    from openset.model_selection import OpenSetSearchCV
    from openset.persistence import save_model
    from openset.utils import Progress, steps_of_fit, unwrap

    how: dict[str, Any] = {"n_jobs": shared.jobs, "impute": missing == "median", "scale": scale}
    how |= {"landmarks": landmarks, "random_state": seed}
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
    model = evaluation.make_method(method, **how, unknown_label=choice.unknown_label)
    verbose = sys.stderr.isatty()
    if landmarks is not None and verbose and not shared.as_json:
        model[-1].set_params(verbose=1)  # many rows: one line per class as it is fitted
    summary = {"source": data.name, **training.describe(choice.used), "unknown": unknown}
    groups = None if training.groups is None else training.groups[choice.used]
    if groups is not None:
        summary |= {"group": group, "objects": len(np.unique(groups))}
    if not shared.as_json:
        say(*describe_data(summary))
    rows, unfitted = np.flatnonzero(choice.used), np.empty(0, dtype=np.intp)
    if calibration:
        unfitted = rows[_kept_back(training.y[rows], choice.classes, groups, calibration, seed)]
        rows = np.setdiff1d(rows, unfitted)
    X, y = training.X[rows], training.y[rows]
    groups = training.groups[rows] if training.groups is not None else None
    stage(f"tuning and fitting on {len(y):,} rows")
    search_rows = min(len(y), search_rows or evaluation.tuning_rows(y))
    # A simulation of the search is fitted on half of the rows of half of the classes.
    fit_steps = steps_of_fit(4 * len(y) / search_rows)
    bar = Progress((1 + 2 * turns) * fit_steps, "tuning and fitting", verbose)
    search = OpenSetSearchCV(model, n_jobs=shared.jobs, random_state=seed, verbose=bar)
    distributed: Any = scheduler is not None
    if in_parts:
        kept = None if known is None else np.unique(y)
        distributed = tables.part_readers(table, training, kept)
    with nullcontext() if scheduler is None else connect(scheduler):
        fitted = evaluation.fit_method(
            search, X, y, groups=groups, max_tuning_rows=search_rows, distributed=distributed
        )
    if in_parts:
        summary["rows"] = summary["rows_used"] = fitted.n_rows
        summary["rows_by_class"] = {str(k): n for k, n in sorted(fitted.class_counts.items())}
        if not shared.as_json:
            say(f"{data.name}: {fitted.n_rows:,} rows learned, read by the workers")
    report = evaluation.HeldOutReport()
    if turns:
        report = evaluation.held_out_report(
            *(clone(fitted.model), training.X, training.y),  # the setting that is saved
            groups=training.groups,
            n_turns=turns,
            known=choice.classes,
            random_state=seed,
            on_turn=partial(_next_turn, bar, fit_steps),
        )
    bar.finish()
    if len(report.known_rows):
        unwrap(fitted.model).fold_rows_ = report.known_rows
    card = evaluation.model_card(fitted, report, summary)
    model = fitted.model
    if calibration:
        model, point = _calibrated(fitted.model, training, unfitted, data.name, group)
        card |= point
    steps = [("table", training.encoder), *model.steps]
    card["steps"] = [type(step).__name__ for _, step in steps]
    card = save_model(type(model)(steps), output, card)
    lines = [*describe_result(card), *options.saved(output, size=True)]
    if not calibration:
        other = "calibrate", output, "TABLE", "--target", target
        lines.append(next_command("sets how many known rows are rejected", *other))
    shared.tell(card, lines)


def _kept_back(y, classes, groups, share: float, seed: int):
    """Indices of the rows to calibrate on: a share of each class, or whole objects."""
    import numpy as np
    from sklearn.model_selection import StratifiedGroupKFold

    from openset.evaluation import stratified_rows

    if groups is None:
        fit = stratified_rows(
            y, round((1 - share) * len(y)), min_per_class=_FEWEST_ROWS, random_state=seed
        )
    else:
        n_parts = min(max(2, round(1 / share)), len(np.unique(groups)))
        parts = StratifiedGroupKFold(n_parts, shuffle=True, random_state=seed)
        fit = next(parts.split(y, y, groups))[0]
    kept = np.setdiff1d(np.arange(len(y)), fit)
    lost = np.setdiff1d(classes, y[fit])
    n_known = int(np.isin(y[kept], classes).sum())
    if lost.size or n_known < _FEWEST_CALIBRATION:
        problem = f"{n_known} rows to calibrate on; at least {_FEWEST_CALIBRATION} are needed"
        if lost.size:
            problem = f"no row of {lost[0]!r} to fit"
        raise ValueError(f"--calibration {share:g} leaves {problem}: add rows, or change the share")
    return kept


def _calibrated(model, training, rows, source: str, group: str | None):
    """The model calibrated on rows that were kept back, and what its card says of it."""
    import numpy as np

    from openset.calibration import calibrate
    from openset.cli._calibrate import point_card
    from openset.utils import unwrap

    unknown = unwrap(model).unknown_label_
    groups = None if training.groups is None else training.groups[rows]
    result = calibrate(model, training.X[rows], training.y[rows], groups=groups)
    recorded = {"alpha": 0.05, "per_class": False, "by": None, "source": source}
    recorded["unknown_rows"] = int(np.sum(training.y[rows] == unknown))
    recorded |= {} if group is None else {"group": group}
    return result, point_card(unwrap(result), recorded)


def _next_turn(bar, fit_steps: int, turn: int, n_turns: int, withheld: list) -> None:
    """Count the fit before the first turn, or the two fits of the turn that ended."""
    bar.step(fit_steps if turn == 1 else 2 * fit_steps)
    bar.stage(f"held-out report, turn {turn} of {n_turns}")
