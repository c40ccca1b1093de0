"""The datasets that are here, beside the paper's table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from openset.cli._failures import reported

if TYPE_CHECKING:
    from openset.datasets import DatasetRow


@reported
def datasets(
    data_home: Annotated[
        Path | None,
        typer.Option(help="Folder of the Parquet files; by default $OPENSET_DATA."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """List the datasets that are here, with the paper's table counted from the data."""
    from openset.datasets import dataset_table  # loads scikit-learn, which --help does not need

    try:
        rows = dataset_table(data_home)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--data-home") from None
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=1))
        return
    console = Console()
    console.print(_as_table(rows))
    console.print()
    for remark in dict.fromkeys(map(_remark, rows)):
        if remark:
            console.print(remark, highlight=False)


def _as_table(rows: list[DatasetRow]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("dataset", no_wrap=True)
    for name in ("classes", "samples", "features", "mean", "min", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("paper")
    for row in rows:
        cells = ["-"] * 6
        verdict = ""
        if row.source == "file":
            samples, features, classes, smallest, largest = row.counted
            figures = (classes, samples, features, samples / classes, smallest, largest)
            cells = [f"{value:,.1f}" if value % 1 else f"{value:,.0f}" for value in figures]
            if row.published:
                verdict = "same" if row.counted == row.published else "differs"
        table.add_row(row.name, *cells, verdict)
    return table


def _remark(row: DatasetRow) -> str:
    """What the figures do not say: how to get a dataset, and in what the paper's is another."""
    if row.source == "pmlb":
        return "Of those not here, what PMLB has is fetched on first use (pip install pmlb)."
    if row.source == "" and row.published:
        return f"{row.name} is not here; {_figures(row)}: {row.where}."
    if row.source == "":
        return f"{row.name} is not here: {row.where}."
    if row.published and row.counted != row.published:
        return f"{row.name} is not the paper's; {_figures(row)}: {row.where}."
    return ""


def _figures(row: DatasetRow) -> str:
    samples, features, classes, smallest, largest = row.published
    return (
        f"the paper has {classes:,} classes of {smallest:,} to {largest:,} samples, "
        f"{samples:,} in all, {features:,} features"
    )
