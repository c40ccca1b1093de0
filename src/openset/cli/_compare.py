"""The command that tells which method suits the data."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from openset.cli._failures import reported
from openset.cli._fit import check_folder, split

# Without 1-vs-Set, which is linear, and the SVM without bias, which takes longest to tune.
_DEFAULT = "ossvm,svm,dbc,ocsvm,svdd,w-svm,pi-svm,evm,osnn"


@reported
def compare(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Table: CSV, TSV, Parquet, Arrow, NPY/NPZ, SVMlight."),
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="Column of the class.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path(
        "compare.html"
    ),
    methods: Annotated[
        str, typer.Option(help="Methods to compare, with commas; all for every one.")
    ] = _DEFAULT,
    repeats: Annotated[int, typer.Option(min=2, help="Draws of known classes.")] = 10,
    max_rows: Annotated[
        int, typer.Option(min=20, help="Rows to compare on, at most, drawn from all.")
    ] = 1500,
    features: Annotated[
        str | None, typer.Option(help="Columns to learn from, with commas; default: all numeric.")
    ] = None,
    drop: Annotated[str | None, typer.Option(help="Columns to leave out, with commas.")] = None,
    missing: Annotated[
        Literal["error", "drop", "median"],
        typer.Option(help="Rows with missing values: an error, left out, or filled."),
    ] = "error",
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all.")] = -1,
    encoding: Annotated[str, typer.Option(help="Of a text table.")] = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="Print the ranking as JSON.")] = False,
) -> None:
    """Which method for these data? Try them with classes withheld, and write a page."""
    check_folder(output)
    # The page is loaded first: without matplotlib the end of a long run would come to nothing.
    from openset.cli import _compare_page as pages
    from openset.cli import _trials as trials
    from openset.cli._methods import get_method, make_model
    from openset.cli._methods import methods as every_method
    from openset.cli._tables import open_table, read_training

    names = list(every_method()) if methods == "all" else split(methods)
    names = {get_method(name).traits.name: name for name in names}
    if not names:
        raise typer.BadParameter("no method is named", param_hint="--methods")
    table = read_training(
        open_table(data, encoding),
        target,
        features=split(features),
        drop=split(drop),
        missing=missing,
    )
    rows, small = trials.subsample(table.y, max_rows, seed)
    X, y = table.X[rows], table.y[rows]
    trials.check_classes(y)
    notes = _notes(table, small)
    report = [*notes, f"comparing {len(names)} methods on {len(y):,} of {table.n_rows:,} rows"]
    print("\n".join(report), file=sys.stderr)
    outcomes = trials.compare(
        X,
        y,
        {
            name: make_model(short, jobs=jobs, impute=missing == "median")
            for name, short in names.items()
        },
        n_repeats=repeats,
        seed=seed,
        jobs=jobs,
        show_progress=sys.stderr.isatty(),
    )
    best = outcomes[0]
    if best.error:
        raise ValueError(f"no method could be fitted; {best.method}, {best.error}")
    options = {"features": features, "drop": drop, "encoding": encoding, "missing": missing}
    subject = pages.Subject(
        source=data.name,
        target=target,
        X=X,
        y=y,
        n_read=table.n_rows,
        n_repeats=repeats,
        seed=seed,
        notes=notes,
        fit_command=_fit_command(data, target, names[best.method], options),
    )
    pages.make_page(outcomes, subject).write(output)
    if as_json:
        typer.echo(json.dumps(_as_dict(outcomes, names, subject, output), indent=1))
        return
    Console().print(_as_table(outcomes))
    for line in [
        "",
        trials.verdict(outcomes),
        "To fit it on all the data:",
        f"  {subject.fit_command}",
        f"wrote {output}",
    ]:
        typer.echo(line)


def _notes(table, small):
    """What of the table takes no part, and why."""
    notes = [f"column {name!r} is left out: {why}" for name, why in table.dropped.items()]
    if len(table.y) < table.n_rows:
        notes.append(f"{table.n_rows - len(table.y):,} rows are left out: a value is missing")
    if small:
        named = ", ".join(map(str, small[:10])) + (", ..." if len(small) > 10 else "")
        notes.append(f"{len(small)} classes of too few rows are left out: {named}")
    return notes


def _fit_command(data, target, method, options):
    words = ["openset", "fit", str(data), "--target", target, "--method", method]
    defaults = {"encoding": "utf-8", "missing": "error"}
    for name, value in options.items():
        if value not in (None, defaults.get(name)):
            words += [f"--{name}", value]
    return shlex.join([*words, "-o", f"{data.stem}.model"])


def _as_table(outcomes):
    from openset.cli._trials import interval

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name in ("NA", "", "AKS", "AUS", "OSCR area", "tune"):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        if outcome.error:
            table.add_row(outcome.method, "failed")
            continue
        mean, half = interval(outcome.values("normalized_accuracy"))
        others = ("accuracy_known", "accuracy_unknown", "oscr_area")
        cells = [f"{outcome.values(name).mean():.3f}" for name in others]
        seconds = f"{outcome.median('seconds_tune'):.1f} s"
        table.add_row(outcome.method, f"{mean:.3f}", f"± {half:.3f}", *cells, seconds)
    return table


def _as_dict(outcomes, names, subject, output):
    from openset.cli._trials import differences, interval

    behind = differences(outcomes)
    ranking = []
    for outcome in outcomes:
        if outcome.error:
            continue
        gap, gap_half = behind.get(outcome.method, (0.0, 0.0))
        ranking.append(
            {
                "method": names[outcome.method],
                "normalized_accuracy_interval": interval(outcome.values("normalized_accuracy"))[1],
                "behind": gap,
                "behind_interval": gap_half,
                "measures": {
                    name: float(outcome.values(name).mean()) for name in outcome.trials[0].measures
                },
                "bounded": float(outcome.mean("bounded")),
                "seconds_tune": outcome.median("seconds_tune"),
                "seconds_predict": outcome.median("seconds_predict"),
            }
        )
    return {
        "data": str(subject.source),
        "target": subject.target,
        "n_rows": subject.n_read,
        "n_compared": len(subject.y),
        "n_repeats": subject.n_repeats,
        "seed": subject.seed,
        "notes": subject.notes,
        "ranking": ranking,
        "failed": {names[o.method]: o.error for o in outcomes if o.error},
        "fit_command": subject.fit_command,
        "page": str(output),
    }
