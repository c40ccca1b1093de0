"""``openset fit``: a table in, a model file out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from openset.cli._failures import reported

_METHODS = "ossvm, svm, svm-without-bias, dbc, ocsvm, svdd, 1-vs-set, w-svm, pi-svm, evm, osnn"


@reported
def fit(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Table: CSV, TSV, Parquet, Arrow, NPY/NPZ, SVMlight."),
    ],
    target: Annotated[str, typer.Option("--target", "-t", help="Column of the class.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    method: Annotated[str, typer.Option("--method", "-m", help=f"One of {_METHODS}.")] = "ossvm",
    known: Annotated[
        str | None,
        typer.Option(help="Classes to learn, with commas; rows of others count as unknown."),
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns to learn from, with commas; default: all numeric.")
    ] = None,
    drop: Annotated[str | None, typer.Option(help="Columns to leave out, with commas.")] = None,
    missing: Annotated[
        Literal["error", "drop", "median"],
        typer.Option(help="Rows with missing values: an error, left out, or filled."),
    ] = "error",
    turns: Annotated[
        int, typer.Option(min=0, help="Turns of the held-out report; 0 leaves it out.")
    ] = 3,
    search_rows: Annotated[
        int, typer.Option(min=20, help="Rows the tuning looks at, at most; the fit takes all.")
    ] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all.")] = -1,
    encoding: Annotated[str, typer.Option(help="Of a text table.")] = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="Print the card as JSON.")] = False,
) -> None:
    """Learn from a table: scale, tune with classes withheld, fit, report, save."""
    from openset.cli import _card
    from openset.cli._methods import get_method, make_model
    from openset.cli._tables import open_table, read_training
    from openset.cli._training import FEWEST_ROWS, HeldOut, Tuning, held_out
    from openset.persistence import save_model

    get_method(method)  # a wrong name is an error before the table is read
    check_folder(output)
    table = open_table(data, encoding)
    training = read_training(
        table, target, features=split(features), drop=split(drop), missing=missing
    )
    others = training.keep_known(split(known), table.path)
    training.check_sizes(FEWEST_ROWS)
    summary = _card.summarize(training, target, data.name)

    def tell(*lines):
        if not as_json:
            typer.echo("\n".join(lines))

    tell(*_card.describe_data(summary))
    model = make_model(method, jobs=jobs, impute=missing == "median")
    tuning = Tuning(search_rows, seed, jobs)
    report = HeldOut()
    if turns:
        report = held_out(model, training.X, training.y, tuning, turns, others)
    tuned = tuning.fit(model, training.X, training.y)
    card = save_model(tuned.model, output, _card.make_card(summary, tuned, report))
    tell(
        _card.describe_search(card),
        *_card.describe_held_out(card),
        _card.describe_certificate(card),
        f"saved {output} ({output.stat().st_size / 1e6:.2f} MB)",
    )
    if as_json:
        typer.echo(json.dumps(card, indent=1))


def split(names: str | None) -> list[str] | None:
    """The parts of a list with commas."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def check_folder(output: Path) -> None:
    """Raise, before any work is done, if the file cannot be written."""
    if not output.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {output}: there is no folder {output.parent}; make it first"
        )
    if not os.access(output.parent, os.W_OK):
        raise PermissionError(f"cannot write {output}: the folder {output.parent} is read-only")
    if output.is_dir():
        raise FileExistsError(f"cannot write {output}: it is a folder")
