"""Our results next to reference results, cell by cell, and their section of the report."""

import os

import numpy as np
import pandas as pd

from ._ranks import CELL, Results, cells, short_names
from .page import Cell, Report, mark_best, number, with_error

REFERENCE = [*CELL, "measure", "mean", "standard_error"]


def read_reference(reference: pd.DataFrame | str | os.PathLike) -> pd.DataFrame:
    """Reference results from a table or a CSV file, with exactly the columns `REFERENCE`."""
    what = "reference"
    if not isinstance(reference, pd.DataFrame):
        what = f"reference={str(reference)!r}"
        reference = pd.read_csv(reference, keep_default_na=False, na_values={"standard_error": ""})
    if absent := [name for name in REFERENCE if name not in reference.columns]:
        raise ValueError(f"{what} has no column {absent[0]!r}; it needs {', '.join(REFERENCE)}.")
    if twice := reference.duplicated(REFERENCE[:4]).sum():
        raise ValueError(f"{what} has {twice} rows twice; each cell and measure may occur once.")
    return reference[REFERENCE]


def join_reference(ours: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Join the cells that both tables have.

    `below` tells whether ours is below by more than two standard errors of the difference; the
    draws are not the same, so these are errors of two independent means.
    """
    keys = [*CELL, "measure"]
    as_text = dict.fromkeys(["dataset", "method", "measure"], str)
    both = ours.astype(as_text).merge(
        reference.astype(as_text), on=keys, suffixes=("", "_reference")
    )
    columns = ["mean", "standard_error", "mean_reference", "standard_error_reference"]
    names = dict(zip(columns, ["ours", "se", "reference", "reference_se"], strict=True))
    return _with_difference(both[[*keys, *columns]].rename(columns=names))


def over_n(table: pd.DataFrame) -> pd.DataFrame:
    """The same by dataset: means over the numbers of known classes that both have."""
    keys = ["dataset", "method", "measure"]
    squared = table.assign(se=table["se"] ** 2, reference_se=table["reference_se"] ** 2)
    grouped = squared.groupby(keys, sort=False)
    values = grouped[["ours", "se", "reference", "reference_se"]]
    mean = values.agg(lambda column: column.mean(skipna=False))  # as pandas 2 has it
    for name in ("se", "reference_se"):
        mean[name] = np.sqrt(mean[name] / grouped.size())
    return _with_difference(mean.reset_index())


def _with_difference(table: pd.DataFrame) -> pd.DataFrame:
    difference = table["ours"] - table["reference"]
    error = np.hypot(table["se"], table["reference_se"])
    return table.assign(
        difference=difference, difference_se=error, below=difference < -2 * error - 1e-12
    )


def add_reference(report: Report, data: Results, reference: pd.DataFrame, control: str) -> None:
    """Add the section that prints the reference results next to ours."""
    report.section("Compared with the reference results")
    ours = cells(data.done)
    table = join_reference(ours, reference)
    n_others = _add_others(report, ours, reference, control)
    if table.empty:
        if not n_others:
            report.paragraph("No cell of this study is among the reference results.")
        return
    report.paragraph(
        "Means ± standard errors, ours above the reference, and below them the difference in "
        "standard errors of the difference. The draws of classes and samples are "
        "not the same, so the standard error of a difference is that of two independent means. "
        f"Ours is below by more than two of them, marked, in {int(table['below'].sum())} of "
        f"{len(table)} cells and measures; by chance alone about 2.3 % would be."
    )
    by_dataset = over_n(table)
    _add_verdict(report, by_dataset, control)
    names = short_names(m for m in data.methods if m in set(table["method"]))
    for prefix, where, frame, keys in (
        ("reference-by-dataset", "by dataset, over its n", by_dataset, ["dataset"]),
        ("reference", "cell by cell", table, ["dataset", "n_known"]),
    ):
        report.section(f"{where[0].upper()}{where[1:]}", level=3)
        head = ["dataset" if len(keys) == 1 else "dataset, n", *names.values()]
        for measure in data.measures:
            part = frame[frame["measure"] == measure]
            rows = _rows(part, keys, names)
            title, folded = f"{measure}, {where}.", measure != data.measures[0]
            report.add_table(f"{prefix}-{measure}", title, head, rows, part, folded=folded)


def _add_others(report, ours, reference, control) -> int:
    """Add tables of our methods and of reference methods that the study does not have.

    Returns the number of such methods.
    """
    as_text = dict.fromkeys(["dataset", "method", "measure"], str)
    ours, cell = ours.astype(as_text), ["dataset", "n_known", "measure"]
    others = reference[~reference["method"].isin(ours["method"])].astype(as_text)
    both = pd.concat([ours, others]).merge(others[cell].drop_duplicates(), on=cell)
    wide = both.pivot_table(index="method", columns=["measure", *cell[:2]], values="mean")
    if control not in wide.index:
        return 0
    wide = wide.reindex([m for m in both["method"].unique() if m in wide.index])
    mine = wide.loc[control].dropna()
    theirs = wide.loc[[m for m in others["method"].unique() if m in wide.index], mine.index]
    report.paragraph(
        f"{control} next to methods that the study does not run, by their published means. It is "
        f"above all of them in {int((mine > theirs.max()).sum())} of {len(mine)} figures."
    )
    report.bullets(
        f"above {method} in {int((mine > row).sum())} of {int(row.notna().sum())}"
        for method, row in theirs.iterrows()
    )
    names = short_names(wide.index)
    for measure in wide.columns.unique("measure"):
        part = wide[measure]
        rows = [
            [names[method], *mark_best(map(number, row), row, part.max())]
            for method, row in part.iterrows()
        ]
        head = ["method", *(f"{dataset}, {n}" for dataset, n in part.columns)]
        values = both[both["measure"] == measure][[*CELL, "measure", "mean", "standard_error"]]
        caption = f"{measure}, our methods and others."
        report.add_table(f"others-{measure}", caption, head, rows, values)
    return len(theirs)


def _add_verdict(report, by_dataset, control):
    """Say in words how the control compares on NA, dataset by dataset."""
    part = by_dataset[(by_dataset["method"] == control) & (by_dataset["measure"] == "NA")]
    if part.empty:
        return
    below = [
        f"{row.dataset} ({row.difference:+.3f}, {row.difference / row.difference_se:+.1f} errors)"
        for row in part[part["below"]].itertuples()
    ]
    report.paragraph(
        f"{control}, mean NA of a dataset: below the reference by more than two standard errors "
        f"on {len(below)} of {len(part)} datasets"
        + (f": {', '.join(below)}. " if below else ". ")
        + f"Over all of them the mean is {part['ours'].mean():.3f}, reference "
        f"{part['reference'].mean():.3f}."
    )


def _rows(part, keys, names):
    """Three rows per cell: ours, the reference, and the difference in its standard errors."""
    rows = []
    for key, group in part.groupby(keys, sort=False):
        ours, theirs, errors = (dict.fromkeys(names, "–") for _ in range(3))
        for cell in group.itertuples():
            text, error = with_error(cell.ours, cell.se), cell.difference_se
            ours[cell.method] = Cell(text, "flag") if cell.below else text
            theirs[cell.method] = Cell(with_error(cell.reference, cell.reference_se), "soft")
            shown = f"{cell.difference / error:+.1f}" if error > 0 else "–"
            errors[cell.method] = Cell(shown, "soft")
        rows.append([", ".join(map(str, key)), *ours.values()])
        rows.append([Cell("reference", "soft"), *theirs.values()])
        rows.append([Cell("difference in errors", "soft"), *errors.values()])
    return rows
