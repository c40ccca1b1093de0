"""Our results beside the published ones, cell by cell, and their part of the report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from ..utils.page import Cell, Page
from ._measures import MEASURES
from ._report_data import CELL, Results, cells, short_names
from ._report_tables import Table, with_error

# What is known to be another than the paper's.
_OTHER_DATA = {
    "cifar10": "other features, and training and test samples are halves of one set",
    "mnist-cnn": "other features, and training and test samples are halves of one set",
    "15-scenes": "other features",
    "kddcup": "other rows, and symbols coded another way perhaps",
}


def beside(ours: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Our cells beside the published ones.

    The draws of classes and samples are not the same, so the standard error of the difference is
    that of two independent means.

    Parameters
    ----------
    ours, published : DataFrame
        As `cells` gives them.

    Returns
    -------
    DataFrame
        Columns of `CELL`, ``measure, ours, se, published, published_se, difference,
        difference_se, below``; the cells that both have. ``below`` is whether ours is below by
        more than two standard errors.
    """
    keys = [*CELL, "measure"]
    left = ours.astype(dict.fromkeys(["dataset", "method", "measure"], str))
    right = published.astype(dict.fromkeys(["dataset", "method", "measure"], str))
    both = left.merge(right, on=keys, suffixes=("", "_published"))
    return with_difference(
        both.rename(
            columns={"mean": "ours", "mean_published": "published", "se_published": "published_se"}
        )[[*keys, "ours", "se", "published", "published_se"]]
    )


def over_n(table: pd.DataFrame) -> pd.DataFrame:
    """The same by dataset: means over the numbers of known classes that both have."""
    keys = ["dataset", "method", "measure"]
    squared = table.assign(se=table["se"] ** 2, published_se=table["published_se"] ** 2)
    grouped = squared.groupby(keys, sort=False)
    mean = grouped[["ours", "se", "published", "published_se"]].mean(skipna=False)
    count = grouped.size()
    for name in ("se", "published_se"):
        mean[name] = np.sqrt(mean[name] / count)
    return with_difference(mean.reset_index())


def with_difference(table: pd.DataFrame) -> pd.DataFrame:
    """Add the difference, its standard error, and whether ours is below by more than two."""
    difference = table["ours"] - table["published"]
    error = np.hypot(table["se"], table["published_se"])
    return table.assign(
        difference=difference, difference_se=error, below=difference < -2 * error - 1e-12
    )


def add_published(
    page: Page,
    folder: Path,
    results: Results,
    published: pd.DataFrame | None,
    control: str,
) -> None:
    """Add the section that sets our results beside the published ones, if these were given."""
    page.section("Beside the published results")
    if published is None:
        page.paragraph(
            "The published results were not given (published=, a folder that holds "
            "paper_raw_results.parquet), so this part is left out."
        )
        return
    table = beside(cells(results.done), cells(published))
    if table.empty:
        page.paragraph("No cell of this study is among the published results.")
        return
    n_below = int(table["below"].sum())
    page.paragraph(
        "Published: the paper's raw results with the open-set grid search, 10 runs a cell. In "
        "those files the names of the two F-measures are exchanged, OSFM for FM; they are "
        "exchanged back here. Numbers are means ± standard errors, ours above the published ones. "
        "The draws of classes and samples are not the same, so the standard error of a difference "
        "is that of two independent means. Ours is below by more than two of them, marked, in "
        f"{n_below} of {len(table)} cells and measures; by chance alone about 2.3 % would be."
    )
    remarks = [
        f"{name}: {_OTHER_DATA[name]}." for name in _OTHER_DATA if name in set(table["dataset"])
    ]
    if remarks:
        page.paragraph("Data that are not the paper's:")
        page.bullets(remarks)
    by_dataset = over_n(table)
    _add_verdict(page, by_dataset, control)
    names = short_names(m for m in results.methods if m in set(table["method"]))
    for prefix, where, frame, keys in (
        ("published-by-dataset", "by dataset, over its n", by_dataset, ["dataset"]),
        ("published", "cell by cell", table, ["dataset", "n_known"]),
    ):
        page.section(f"{where[0].upper()}{where[1:]}", level=3)
        for measure in MEASURES:
            part = frame[frame["measure"] == measure]
            caption = f"{measure}, {where}."
            comparison = _comparison(f"{prefix}-{measure}", caption, part, keys, names)
            comparison.write(folder, page, folded=measure != "NA")


def _add_verdict(page, by_dataset, control):
    """Say in words how the control stands on NA, dataset by dataset."""
    part = by_dataset[(by_dataset["method"] == control) & (by_dataset["measure"] == "NA")]
    if part.empty:
        return
    below = [
        f"{row.dataset} ({row.difference:+.3f}, {row.difference / row.difference_se:+.1f} errors)"
        for row in part[part["below"]].itertuples()
    ]
    page.paragraph(
        f"{control}, mean NA of a dataset: below the published one by more than two standard "
        f"errors on {len(below)} of {len(part)} datasets"
        + (f": {', '.join(below)}. " if below else ". ")
        + f"Over all of them the mean is {part['ours'].mean():.3f}, published "
        f"{part['published'].mean():.3f}."
    )


def _comparison(name, caption, part, keys, names):
    rows = []
    for key, group in part.groupby(keys, sort=False):
        cells_of = {cell.method: cell for cell in group.itertuples()}
        ours, theirs = [", ".join(map(str, key))], [Cell("published", "soft")]
        for method in names:
            if cell := cells_of.get(method):
                text = with_error(cell.ours, cell.se)
                ours.append(Cell(text, "flag") if cell.below else text)
                theirs.append(Cell(with_error(cell.published, cell.published_se), "soft"))
            else:
                ours.append("–")
                theirs.append("–")
        rows += [ours, theirs]
    head = "dataset" if len(keys) == 1 else "dataset, n"
    return Table(name, caption, [head, *names.values()], rows, part)
