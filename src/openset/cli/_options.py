"""Options that several commands share, and checks of their values."""

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from openset import registry
from openset.cli._paths import READS, REPLACES, WRITES

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        help="Table: CSV, TSV (also .gz), Parquet (a file or a folder of parts), Arrow, NPY/NPZ, "
        "SVMlight; - is standard input.",
    ),
    READS,
]
ModelFile = typer.Argument(metavar="MODEL", help="Model file from `openset fit`.")
Model = Annotated[Path, ModelFile, READS]
ReplacedModel = Annotated[Path, ModelFile, REPLACES]
Target = Annotated[str, typer.Option("--target", "-t", help="Column of the class.")]
TrueTarget = Annotated[
    str,
    typer.Option(
        "--target", "-t", help="Column of the class; classes that were not learned are unknown."
    ),
]
NewModel = Annotated[Path, typer.Option("--output", "-o", help="Model file to write."), WRITES]
NewPage = Annotated[Path, typer.Option("--output", "-o", help="HTML page to write."), WRITES]
Features = Annotated[
    str | None,
    typer.Option(help="Feature columns, comma-separated; default: all usable ones."),
]
Drop = Annotated[str | None, typer.Option(help="Columns to ignore, comma-separated.")]
Missing = Annotated[
    Literal["error", "drop", "median"],
    typer.Option(help="Rows with missing values: an error, drop them, or fill in the median."),
]
Unknown = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="Label of rows that are examples of the unknown."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Dask scheduler whose workers do the work, for example tcp://127.0.0.1:8786.",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random draws.")]


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("0 threads are not possible; use 1 or more, or -1 for all cores")
    return jobs


Jobs = Annotated[
    int, typer.Option(callback=_check_jobs, help="Number of threads; -1 uses all cores.")
]
Encoding = Annotated[str, typer.Option(help="Encoding of a text table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

METHODS = ", ".join(method.command for method in registry.METHODS if method.command)


def split(names: str | None, option: str) -> list[str] | None:
    """The items of a comma-separated list, at least one; None if the option was not given.

    A name that has a comma is in double quotes, as in a CSV file.
    """
    if names is None:
        return None
    found = next(csv.reader([names], skipinitialspace=True)) if '"' in names else names.split(",")
    items = [name.strip() for name in found if name.strip()]
    if not items:
        raise typer.BadParameter(f"{names!r} names nothing", param_hint=option)
    return items


def joined(names: Iterable) -> str:
    """A comma-separated list that `split` takes apart again."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def columns(features: str | None, drop: str | None) -> dict[str, list[str] | None]:
    """The options that choose columns, as arguments of ``read_training``."""
    return {"features": split(features, "--features"), "drop": split(drop, "--drop")}


def prepare_output(output: Path) -> None:
    """Create the folder of an output file; raise, before any work, if it cannot be written."""
    if str(output) == "-":
        return
    if output.is_dir():
        raise FileExistsError(f"cannot write {output}: it is a folder")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot write {output}: the folder {output.parent} cannot be created "
            f"({error.strerror})"
        ) from error
    if not os.access(output.parent, os.W_OK):
        raise PermissionError(f"cannot write {output}: the folder {output.parent} is read-only")
