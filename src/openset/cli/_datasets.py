"""``openset datasets``: the datasets in the data home, and their published sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from openset.cli import _options as options
from openset.cli._options import printable, reported, say, say_wrapped

if TYPE_CHECKING:
    from openset.datasets import DatasetRow


@reported
def datasets(shared: options.Output, data_home: Path | None = None) -> None:
    """List datasets: sizes counted in the data home, or those of the paper where one is missing.

    The last column compares with the paper: the values by their SHA-256 where they are known,
    otherwise the size alone.

    data_home: Folder of the Parquet files; by default $OPENSET_DATA.
    """
    from openset.datasets import dataset_table, same_values
    from openset.utils.text import text_table

    try:
        rows = dataset_table(data_home)
        has_size = {r.name for r in rows if r.source == "file" and r.counted == r.published}
        values = {
            r.name: same_values(r.name, data_home) if r.name in has_size else None for r in rows
        }
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--data-home") from None
    if shared.as_json:
        found = [{**row._asdict(), "same_values": values[row.name]} for row in rows]
        typer.echo(json.dumps(found, indent=1))
        return
    titles = ["dataset", "classes", "samples", "features", "mean", "min", "max", "paper"]
    cells = [[printable(row.name), *_cells(row, values[row.name])] for row in rows]
    say(*text_table(titles, cells, gap=1, text_columns=(0, 7)).split("\n"), "")
    if by_size := [name for name in sorted(has_size) if values[name] is None]:
        say_wrapped(
            f"Same size: {', '.join(by_size)}. The paper's values are not public, so the features "
            "may be others; the page on datasets tells how they are made."
        )
    say_wrapped(*filter(None, dict.fromkeys(map(_remark, rows))))


def _cells(row: DatasetRow, same: bool | None) -> list[str]:
    figures = row.counted if row.source == "file" else row.published
    here = {"pmlb": "download", "": "not here"}
    if figures is None:
        return [""] * 6 + [here[row.source]]
    samples, features, classes, smallest, largest = (n or 0 for n in figures)
    sizes = (classes, samples, features, samples / classes, smallest, largest)
    cells = [f"{value:,.1f}" if value % 1 else f"{value:,.0f}" for value in sizes]
    if row.source != "file":
        return [*cells, here[row.source]]
    if not row.published:
        return [*cells, ""]
    if row.counted != row.published or same is False:
        return [*cells, "differs"]
    return [*cells, "same values" if same else "same size"]


def _remark(row: DatasetRow) -> str:
    """How to get a dataset, and how the published one differs."""
    sizes = ""
    if row.published:
        samples, features, classes, smallest, largest = row.published
        sizes = (
            f"; the paper has {classes:,} classes of {smallest:,} to {largest:,} samples, "
            f"{samples:,} in all, {features:,} features"
        )
    if row.source == "pmlb":
        return "Missing datasets that PMLB has are downloaded on first use (pip install pmlb)."
    if row.source == "file" and row.counted == (row.published or row.counted):
        return ""
    where = "here" if row.source == "" else "the paper's"
    return f"{row.name} is not {where}{sizes}: {row.where}."
