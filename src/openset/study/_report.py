"""The report of a study: one HTML page, and its tables as CSV and LaTeX."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from ..utils.page import Cell, Page
from ._measures import MEASURES
from ._published import DATASETS, read_published
from ._report_data import BLOCK, Results, bias_signs, cells, collect, short_names
from ._report_published import add_published
from ._report_ranks import Group, Ranking, add_ranks, rank_groups
from ._report_tables import Table, duration, number, with_error

if TYPE_CHECKING:
    from ._spec import Study
    from ._store import Store

_SECONDS = ["seconds_search", "seconds_fit", "seconds_predict"]


def write_report(
    results: pd.DataFrame | Store,
    folder: str | os.PathLike,
    *,
    study: Study | None = None,
    published: str | os.PathLike | None = None,
    control: str = "OpenSetSVC",
) -> Path:
    """Write ``report.html``, which needs no other file, and ``tables/`` with CSV and LaTeX.

    Parameters
    ----------
    results : DataFrame or Store
        One row a task, with the columns of a store.
    folder : path-like
        Made if it does not exist; files of an earlier report are replaced.
    study : Study, default=None
        What was planned, so that the report can say what is missing; None takes every method and
        every run that occurs for every dataset and number of known classes that occurs.
    published : path-like, default=None
        Folder that holds ``paper_raw_results.parquet``, the paper's published results, to be set
        beside ours.
    control : str, default="OpenSetSVC"
        The method that the others are compared with.

    Returns
    -------
    Path
        Of the page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from openset.study import Store, write_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder) / "results.sqlite", create=True) as store:
    ...         for n_known in (3, 6):
    ...             for method, na in [("OpenSetSVC", 0.8), ("PISVM", 0.7)]:
    ...                 store.put({"dataset": "digits", "n_known": n_known, "run": 0,
    ...                            "method": method, "status": "done", "NA": na, "HNA": na,
    ...                            "OSFMmacro": na, "OSFMmicro": na, "FMmacro": na,
    ...                            "FMmicro": na, "AKS": na, "AUS": na})
    ...         page = write_report(store, Path(folder) / "report")
    ...     page.name
    'report.html'
    """
    data = collect(results, study)
    reference = None if published is None else read_published(published)
    folder = Path(folder)
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    page = Page(f"Study {study.name}" if study else "Results of a study")
    groups = rank_groups(data, control)
    _add_summary(page, data, groups, control)
    add_ranks(page, tables, data, groups, control)
    _add_results(page, tables, data)
    add_published(page, tables, data, reference, control)
    _add_biases(page, tables, data)
    _add_times(page, tables, data)
    _add_missing(page, tables, data)
    page.write(folder / "report.html")
    return folder / "report.html"


def _add_summary(page: Page, data: Results, groups: list[Group], control: str) -> None:
    page.section("Summary")
    done = data.done
    names = short_names(data.methods)
    numbers = ", ".join(str(n) for n in sorted(done["n_known"].unique()))
    n_failed = int((data.rows["status"] == "failed").sum())
    page.paragraph(
        f"{len(done)} tasks are done, {n_failed} failed, {len(data.missing)} of the planned are "
        f"missing. {done['dataset'].nunique()} datasets, {numbers} known classes, "
        f"{len(data.runs)} runs, {len(names)} methods: "
        + ", ".join(f"{name} ({method})" for method, name in names.items())
        + "."
    )
    for methods, rankings in groups[:1]:
        who = "all methods" if len(methods) == len(names) else f"{len(methods)} methods"
        page.paragraph(f"Average ranks over the {rankings[0].n_blocks} blocks complete for {who}:")
        page.bullets(_place(ranking, names, control) for ranking in rankings)
    page.paragraph(
        "AKS and AUS: accuracy on samples of known classes and of unknown ones. NA: their mean. "
        "HNA: their harmonic mean. OSFM: F-measure over the known classes. FM: F-measure with "
        "unknown as one more class; FMmicro is the accuracy over all samples. The tables are also "
        "in the folder tables, as CSV with all digits and in LaTeX."
    )
    versions = done["versions"].dropna().unique()
    for text in versions:
        listed = ", ".join(f"{name} {version}" for name, version in json.loads(text).items())
        page.paragraph(f"Computed with {listed}.")


def _place(ranking: Ranking, names: dict[str, str], control: str) -> str:
    ranks = ranking.ranks
    first, second = list(ranks)[:2]
    text = f"{ranking.measure}: {names[first]} is first with {ranks[first]:.2f}"
    if control not in ranks or first == control:
        return f"{text}, {names[second]} second with {ranks[second]:.2f}."
    place = list(ranks).index(control) + 1
    return f"{text}, {names[control]} is number {place} with {ranks[control]:.2f}."


def _add_results(page: Page, folder: Path, data: Results) -> None:
    page.section("Results by dataset")
    page.paragraph(
        "Means over the runs ± standard deviations; the best mean of a row in bold. A number in "
        "brackets is how many runs there are where some are missing."
    )
    names = short_names(data.methods)
    table = cells(data.done)
    for measure in MEASURES:
        part = table[table["measure"] == measure]
        rows = []
        for (dataset, n), group in part.groupby(BLOCK, observed=True):
            cells_of = {cell.method: cell for cell in group.itertuples()}
            best = group["mean"].max()
            row = [dataset, str(n)]
            for method in names:
                if cell := cells_of.get(method):
                    text = with_error(cell.mean, cell.std)
                    text += f" ({cell.n})" if cell.n < len(data.runs) else ""
                    row.append(Cell(text, "best") if cell.mean == best else text)
                else:
                    row.append("–")
            rows.append(row)
        Table(
            f"results-{measure}", f"{measure}.", ["dataset", "n", *names.values()], rows, part
        ).write(folder, page, folded=measure != "NA")


def _add_biases(page: Page, folder: Path, data: Results) -> None:
    page.section("Signs of the biases")
    table = bias_signs(data)
    if table.empty:
        page.paragraph("No row tells the biases of an SVM.")
        return
    table["paper_ova"] = [DATASETS.get(name, (None,) * 3)[1] for name in table.index]
    table["paper_ovo"] = [DATASETS.get(name, (None,) * 3)[2] for name in table.index]
    table = table.astype({"paper_ova": float, "paper_ovo": float})
    numbers = ", ".join(str(n) for n in sorted(data.done["n_known"].unique()))
    page.paragraph(
        "Percentage of the binary machines whose bias is negative, so that the region they accept "
        f"is bounded, over all runs and {numbers} known classes together. One-vs-one: the class "
        "that comes first is positive; the other way round every sign would be the opposite, so "
        "about half is expected. The paper pools 3, 6, 9 and, where there are classes enough, 12 "
        "known classes; one-vs-all is marked where ours is more than 3 points away. OSSVM before: "
        "the SVM with the C and gamma chosen for OSSVM; after: OSSVM itself."
    )
    columns = ["ova", "paper_ova", "ovo", "paper_ovo", "before", "after"]
    mean = table[columns].mean()
    rows = []
    for name, row in [*table.iterrows(), ("mean", mean)]:
        shown = [number(row[c], 2) for c in columns]
        if abs(row["ova"] - row["paper_ova"]) > 3:
            shown[0] = Cell(shown[0], "flag")
        rows.append([name, *shown])
    header = ["dataset", "SVM one-vs-all", "paper", "SVM one-vs-one", "paper"]
    Table(
        "bias-signs",
        "Negative biases, %.",
        [*header, "OSSVM before", "OSSVM after"],
        rows,
        table.rename_axis("dataset").reset_index(),
    ).write(folder, page)


def _add_times(page: Page, folder: Path, data: Results) -> None:
    page.section("Times")
    times = data.done[["dataset", "n_known", "method", *_SECONDS]].dropna()
    if times.empty:
        page.paragraph("No row tells its times.")
        return
    page.paragraph(
        "Times on the clock, of tasks that may have shared a machine: an order of magnitude, not "
        "a benchmark. Median of a task; total of all."
    )
    times = times.assign(total=times[_SECONDS].sum(axis=1))
    names = short_names(data.methods)
    grouped = times.groupby("method", observed=True)
    table = (
        grouped[_SECONDS]
        .median()
        .assign(longest=grouped["total"].max(), total=grouped["total"].sum(), tasks=grouped.size())
    )
    Table(
        "times",
        "By method.",
        ["method", "tasks", "search", "fit", "predict", "longest task", "total"],
        [
            [names[method], str(int(row["tasks"]))]
            + [duration(row[c]) for c in (*_SECONDS, "longest", "total")]
            for method, row in table.iterrows()
        ],
        table.reset_index(),
    ).write(folder, page)
    wide = times.groupby(["dataset", "method"], observed=True)["total"].median().unstack("method")
    Table(
        "times-by-dataset",
        "Median of a task, by dataset.",
        ["dataset", *(names[m] for m in wide.columns)],
        [[name, *(duration(value) for value in row)] for name, row in wide.iterrows()],
        wide.reset_index(),
    ).write(folder, page, folded=True)


def _add_missing(page: Page, folder: Path, data: Results) -> None:
    page.section("What is missing")
    if data.missing.empty:
        page.paragraph("Nothing: every planned task is done.")
    else:
        names = short_names(data.missing["method"].unique())
        rows = []
        for (dataset, n), group in data.missing.groupby(BLOCK, sort=False):
            counts = group.groupby("method", sort=False)["run"].nunique()
            listed = "; ".join(
                f"{count} of {', '.join(names[m] for m in counts.index[counts == count])}"
                for count in sorted(counts.unique())
            )
            rows.append([dataset, str(n), listed, str(len(group))])
        Table(
            "missing",
            f"{len(data.missing)} planned tasks that are not done.",
            ["dataset", "n", "runs of methods", "tasks"],
            rows,
            data.missing,
            text_columns=3,
        ).write(folder, page)
    failed = data.rows[data.rows["status"] == "failed"]
    if len(failed):
        names = short_names(failed["method"].unique())
        Table(
            "failed",
            f"{len(failed)} tasks that failed.",
            ["dataset", "n", "run", "method", "error"],
            [
                [r.dataset, str(r.n_known), str(r.run), names[r.method], str(r.error)]
                for r in failed.itertuples()
            ],
            failed[["dataset", "n_known", "run", "method", "error"]],
            text_columns=5,
        ).write(folder, page)
