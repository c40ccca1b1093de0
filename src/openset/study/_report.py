"""The report of a study: one HTML page, and its tables as CSV and LaTeX."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from ._report_data import (
    BLOCK,
    KEY,
    Results,
    cells,
    collect,
    duration,
    number,
    short_names,
    with_error,
)
from ._report_ranks import Ranking, add_ranks, rank_groups
from ._report_reference import add_reference, read_reference
from .page import Cell, Page, ReportTable

if TYPE_CHECKING:
    from ._store import Store
    from ._study import Study

_SECONDS = ["seconds_search", "seconds_fit", "seconds_predict"]


def write_report(
    results: pd.DataFrame | Store,
    folder: str | os.PathLike,
    *,
    study: Study | None = None,
    reference: pd.DataFrame | str | os.PathLike | None = None,
    control: str = "OpenSetSVC",
    sections: Sequence[Callable[[Page, Path, pd.DataFrame], None]] = (),
) -> Path:
    """Write ``report.html``, which needs no other file, and ``tables/`` with CSV and LaTeX.

    Parameters
    ----------
    results : DataFrame or Store
        One row per task, with the columns of a store.
    folder : path-like
        Created if it does not exist; files of an earlier report are replaced.
    study : Study, default=None
        The plan, so that the report can list what is missing; None expects every method and run
        that occurs in every block that occurs.
    reference : DataFrame or path-like, default=None
        Other results to print next to ours, or a CSV file of them: columns ``dataset, n_known,
        method, measure, mean, standard_error``, methods and measures by the names of the study.
    control : str, default="OpenSetSVC"
        The method that the others are compared with.
    sections : sequence of callables, default=()
        Further sections: each is called with the :class:`openset.study.page.Page`, the folder of
        the tables and the DataFrame of finished rows.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from openset.study import MEASURES, Store, write_report
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder) / "results.sqlite", create=True) as store:
    ...         for method, value in [("OpenSetSVC", 0.8), ("PISVM", 0.7)]:
    ...             for n in (3, 6):
    ...                 store.put({"dataset": "digits", "n_known": n, "run": 0, "method": method,
    ...                            "status": "done", **dict.fromkeys(MEASURES, value)})
    ...         page = write_report(store, Path(folder) / "report")
    ...     page.name
    'report.html'
    """
    data = collect(results, study, control)
    given = None if reference is None else read_reference(reference)
    folder = Path(folder)
    tables = folder / "tables"
    tables.mkdir(parents=True, exist_ok=True)
    page = Page(f"Study {study.name}" if study else "Results of a study")
    groups = rank_groups(data, control)
    _add_summary(page, data, groups, control)
    add_ranks(page, tables, data, groups, control)
    _add_results(page, tables, data)
    if given is not None:
        add_reference(page, tables, data, given, control)
    for add_section in sections:
        add_section(page, tables, data.done)
    _add_times(page, tables, data)
    _add_missing(page, tables, data)
    page.write(folder / "report.html")
    return folder / "report.html"


def _add_summary(page: Page, data: Results, groups: list[list[Ranking]], control: str) -> None:
    page.section("Summary")
    done = data.done
    names = short_names(data.methods)
    numbers = ", ".join(str(n) for n in sorted(done["n_known"].unique()))
    n_failed = int((data.rows["status"] == "failed").sum())
    listed = ", ".join(f"{name} ({method})" for method, name in names.items())
    page.paragraph(
        f"{len(done)} tasks are done, {n_failed} failed, {len(data.missing)} planned ones are "
        f"missing. {done['dataset'].nunique()} datasets, {numbers} known classes, "
        f"{len(data.runs)} runs, {len(names)} methods: {listed}."
    )
    for rankings in groups[:1]:
        n_ranked = len(rankings[0].ranks)
        who = "all methods" if n_ranked == len(names) else f"{n_ranked} methods"
        page.paragraph(f"Average ranks over the {rankings[0].n_blocks} blocks complete for {who}:")
        page.bullets(_place(ranking, names, control) for ranking in rankings)
    page.paragraph(
        "AKS and AUS: accuracy on samples of known classes and of unknown ones. NA: their mean. "
        "HNA: their harmonic mean. OSFM: F-measure over the known classes. FM: F-measure with "
        "unknown as one more class; FMmicro is the accuracy over all samples. The tables are also "
        "in the folder tables, as CSV with all digits and in LaTeX."
    )
    for text in done["versions"].dropna().unique():
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
        "brackets is the number of runs, if some are missing."
    )
    names = short_names(data.methods)
    table = cells(data.done)
    for measure in data.measures:
        part = table[table["measure"] == measure]
        rows = []
        for (dataset, n), group in part.groupby(BLOCK, observed=True):
            row: dict[str, str | Cell] = dict.fromkeys(names, "–")
            for cell in group.itertuples():
                text = with_error(cell.mean, cell.std)
                text += f" ({cell.n})" if cell.n < len(data.runs) else ""
                is_best = cell.mean == group["mean"].max()
                row[cell.method] = Cell(text, "best") if is_best else text
            rows.append([dataset, str(n), *row.values()])
        head = ["dataset", "n", *names.values()]
        table_of = ReportTable(f"results-{measure}", f"{measure}.", head, rows, part)
        table_of.write(folder, page, folded=measure != data.measures[0])


def _add_times(page: Page, folder: Path, data: Results) -> None:
    page.section("Times")
    times = data.done[["dataset", "n_known", "method", *_SECONDS]].dropna()
    if times.empty:
        page.paragraph("No row has times.")
        return
    page.paragraph(
        "Wall-clock times of tasks that may have shared a machine: an order of magnitude, not a "
        "benchmark. Medians per task; totals over all tasks."
    )
    times = times.assign(total=times[_SECONDS].sum(axis=1))
    names = short_names(data.methods)
    grouped = times.groupby("method", observed=True)
    table = grouped[_SECONDS].median()
    table["longest"], table["total"] = grouped["total"].max(), grouped["total"].sum()
    rows = [
        [names[method], str(grouped.size()[method]), *map(duration, row)]
        for method, row in table.iterrows()
    ]
    head = ["method", "tasks", "search", "fit", "predict", "longest task", "total"]
    values = table.assign(tasks=grouped.size()).reset_index()
    ReportTable("times", "By method.", head, rows, values).write(folder, page)
    hours = times.pivot_table(
        "total", "dataset", "method", aggfunc=lambda seconds: seconds.sum() / 3600, observed=True
    )
    wide = hours.assign(all=hours.sum(axis=1))
    wide.loc["all"] = wide.sum()
    head = ["dataset", *(names.get(m, m) for m in wide.columns)]
    rows = [[name, *(number(hour) for hour in row)] for name, row in wide.iterrows()]
    caption = "Hours of all tasks, by dataset. Core-hours if a task used one thread."
    by_dataset = ReportTable("times-by-dataset", caption, head, rows, wide.reset_index())
    by_dataset.write(folder, page, folded=True)


def _add_missing(page: Page, folder: Path, data: Results) -> None:
    page.section("Missing tasks")
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
        caption = f"{len(data.missing)} planned tasks are not done."
        head = ["dataset", "n", "runs of methods", "tasks"]
        ReportTable("missing", caption, head, rows, data.missing, 3).write(folder, page)
    failed = data.rows.loc[data.rows["status"] == "failed", [*KEY, "error"]]
    if len(failed):
        names = short_names(failed["method"].unique())
        shown = failed.astype(str).replace({"method": names})
        head = ["dataset", "n", "run", "method", "error"]
        caption = f"{len(failed)} tasks failed."
        ReportTable("failed", caption, head, shown.to_numpy().tolist(), failed, 5).write(
            folder, page
        )
