"""``openset datasets``: the datasets in the data home, and their published sizes."""

from __future__ import annotations

from collections.abc import Iterator
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
        sized = [r.name for r in rows if r.source == "file" and r.counted == r.published]
        values = {name: same_values(name, data_home) for name in sized}
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--data-home") from None
    if shared.as_json:
        shared.tell([{**r._asdict(), "same_values": values.get(r.name)} for r in rows], ())
        return
    titles = ["dataset", "classes", "samples", "features", "mean", "min", "max", "paper"]
    cells = [[printable(r.name), *_sizes(r), _verdict(r, values.get(r.name))] for r in rows]
    say(*text_table(titles, cells, gap=1, text_columns=(0, 7)).split("\n"), "")
    say_wrapped(*_remarks(rows, values))


def _sizes(row: DatasetRow) -> list[str]:
    figures = row.counted if row.source == "file" else row.published
    if figures is None:
        return [""] * 6
    samples, features, classes, smallest, largest = (n or 0 for n in figures)
    sizes = (classes, samples, features, samples / classes, smallest, largest)
    return [f"{value:,.1f}" if value % 1 else f"{value:,.0f}" for value in sizes]


def _verdict(row: DatasetRow, same: bool | None) -> str:
    if row.source != "file":
        return "download" if row.source == "pmlb" else "not here"
    if not row.published:
        return ""
    if row.counted != row.published or same is False:
        return "differs"
    return "same values" if same else "same size"


def _remarks(rows: list[DatasetRow], values: dict[str, bool | None]) -> Iterator[str]:
    if by_size := sorted(name for name, same in values.items() if same is None):
        yield (
            f"Same size: {', '.join(by_size)}. The paper's values are not public, so the features "
            "may be others; the page on datasets tells how they are made."
        )
    yield from filter(None, dict.fromkeys(map(_remark, rows)))


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
