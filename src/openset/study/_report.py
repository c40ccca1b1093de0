"""The report of a study: one HTML page, and its tables as CSV and LaTeX."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from ..evaluation import stats
from ..plots import CriticalDifferenceDisplay
from . import _ranks
from ._ranks import BLOCK, CELL, KEY, Ranking, Results
from ._store import Store
from ._study import MEASURES, Study
from .page import Cell, Page, Report, duration, mark_best, number, p_value, with_error

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
    """Write ``report.html``, which needs no other file, and its tables and diagrams as files.

    ``tables/`` has CSV and LaTeX, ``figures/`` critical-difference diagrams as PNG, PDF and SVG.

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
    data = _ranks.collect(results, study, control)
    given = None if reference is None else read_reference(reference)
    report = Report(f"Study {study.name}" if study else "Results of a study", Path(folder))
    groups = _ranks.rank_groups(data, control)
    _add_summary(report, data, groups, control)
    _add_ranks(report, data, groups, control)
    _add_results(report, data)
    _add_fits(report, data, study)
    if given is not None:
        add_reference(report, data, given, control)
    for add_section in sections:
        add_section(report, report.tables, data.done)
    _add_times(report, data)
    _add_missing(report, data)
    page = Path(folder, "report.html")
    report.write(page)
    return page


def _add_summary(report: Report, data: Results, groups: list[list[Ranking]], control: str) -> None:
    report.section("Summary")
    done, n_methods = data.done, len(data.methods)
    numbers = ", ".join(map(str, sorted(done["n_known"].unique())))
    n_failed = int((data.rows["status"] == "failed").sum())
    listed = ", ".join(f"{data.names[method]} ({method})" for method in data.methods)
    report.paragraph(
        f"{len(done)} tasks are done, {n_failed} failed, {len(data.missing)} planned ones are "
        f"missing. {done['dataset'].nunique()} datasets, {numbers} known classes, "
        f"{len(data.runs)} runs, {n_methods} methods: {listed}."
    )
    for rankings in groups[:1]:
        n_ranked, n_blocks = len(rankings[0].ranks), rankings[0].n_blocks
        who = "all methods" if n_ranked == n_methods else f"{n_ranked} methods"
        report.paragraph(f"Average ranks over the {n_blocks} blocks complete for {who}:")
        report.bullets(_place(ranking, data.names, control) for ranking in rankings)
    report.paragraph(
        "AKS and AUS: accuracy on samples of known classes and of unknown ones. NA: their mean. "
        "HNA: their harmonic mean. OSFM: F-measure over the known classes. FM: F-measure with "
        "unknown as one more class; FMmicro is the accuracy over all samples. The tables are also "
        "in the folder tables, as CSV with all digits and in LaTeX, the diagrams in the folder "
        "figures, as PNG, PDF and SVG."
    )
    for versions, n_rows in done["versions"].dropna().value_counts().items():
        listed = ", ".join(map(" ".join, json.loads(versions).items()))
        digest = hashlib.sha256(versions.encode()).hexdigest()[:8]  # the end of a fingerprint
        report.paragraph(f"{n_rows} tasks computed with {listed} (fingerprint -{digest}).")


def _place(ranking: Ranking, names: dict[str, str], control: str) -> str:
    """Who is first, and where the control is."""
    ranks, order = ranking.ranks, list(ranking.ranks)
    text = f"{ranking.measure}: {names[order[0]]} is first with {ranks[order[0]]:.2f}"
    if control not in order[1:]:
        return f"{text}, {names[order[1]]} second with {ranks[order[1]]:.2f}."
    place = order.index(control) + 1
    return f"{text}, {names[control]} is number {place} with {ranks[control]:.2f}."


def _add_ranks(report: Report, data: Results, groups: list[list[Ranking]], control: str) -> None:
    report.section("Ranks and tests")
    n_blocks = len(data.rows.drop_duplicates(BLOCK))
    report.paragraph(
        "Within a block (a dataset and a number of known classes) the methods are ranked by the "
        "mean of their runs, 1 being the best, and the ranks are averaged over the blocks. Only "
        f"blocks in which every ranked method has done all {len(data.runs)} runs enter. The "
        "blocks of one dataset are not independent, which the tests ignore; so the ranks are also "
        "given with one block per dataset, the mean of its complete blocks."
    )
    if not groups:
        report.paragraph(
            f"Of the {n_blocks} blocks fewer than two are complete for two methods or more: there "
            "is nothing to rank yet."
        )
    datasets = _ranks.rank_groups(data, control, ["dataset"])
    for rankings, by_dataset in zip(groups, datasets, strict=True):
        names = {m: data.names[m] for m in data.methods if m in rankings[0].ranks}
        is_all = len(names) == len(data.methods)
        who = "All methods" if is_all else ", ".join(names.values())
        report.section(f"{who}: {rankings[0].n_blocks} complete blocks of {n_blocks}", level=3)
        suffix = "" if is_all else f"-{len(names)}-methods"
        ranks = _rank_table(rankings)
        rows, head = _best_in_bold(ranks.map("{:.2f}".format), ranks, names), [*ranks.columns]
        caption = "Average ranks; the best on each measure in bold."
        report.add_table(f"ranks{suffix}", caption, ["method", *head], rows, ranks.reset_index())
        _add_tests(report, rankings, names, control, suffix)
        if by_dataset:
            _add_by_dataset(report, ranks, by_dataset, names, control, suffix)
        _add_pairs(report, rankings, names, suffix)
        for ranking in rankings:
            for against in (control, None) if control in names else (None,):
                _add_diagram(report, ranking, names, against, suffix)


def _rank_table(rankings: list[Ranking]) -> pd.DataFrame:
    """Ranks of the methods (rows, best first on the first measure) on the measures (columns)."""
    table = pd.DataFrame({r.measure: r.ranks for r in rankings}).loc[list(rankings[0].ranks)]
    return table.rename_axis("method")


def _best_in_bold(texts, ranks, names):
    """Rows of a table by method, marked where the rank of a column is the lowest."""
    return [
        [names[method], *mark_best(line, ranks.loc[method], ranks.min())]
        for method, line in texts.iterrows()
    ]


def _add_tests(report, rankings, names, control, suffix):
    k, n = len(rankings[0].ranks), rankings[0].n_blocks
    titles = {"cd_exact": "Bonferroni-Dunn, exact"}
    limits = {"cd_exact": stats.critical_difference(k, n)}
    if k <= 10:
        titles["cd_tabulated"] = "Bonferroni-Dunn, tabulated quantile"
        limits["cd_tabulated"] = stats.critical_difference(k, n, tabulated=True)
    titles["cd_nemenyi"] = "Nemenyi, all pairs"
    limits["cd_nemenyi"] = stats.critical_difference(k, n, test="nemenyi")
    rows, values = [], []
    for measure, ranks, _, test in rankings:
        verdicts = dict.fromkeys(["better", "not_different", "worse"], "–")
        if control in ranks:
            compared = stats.compare_with_control(ranks, control, n)
            signs = [(c.differs * np.sign(c.difference), names[c.method]) for c in compared]
            for sign, verdict in enumerate(verdicts, -1):
                verdicts[verdict] = ", ".join(name for s, name in signs if s == sign) or "none"
        sizes = {"measure": measure, "n_blocks": n, "n_methods": k}
        values.append(sizes | test._asdict() | limits | verdicts)
        friedman = [f"{test.chi2:.1f}", f"{test.f:.1f}", p_value(test.p_f)]
        rows.append([measure, *verdicts.values(), *friedman])
    shown = ", ".join(f"{number(limits[kind])} ({titles[kind]})" for kind in limits)
    caption = (
        f"Compared with {names.get(control, control)} by the Bonferroni-Dunn test at the level "
        "0.05 with the exact quantile: better, not different, worse; then Friedman's statistic and "
        f"that of Iman and Davenport with its p-value. Critical differences: {shown}."
    )
    header = ["measure", "better", "not different", "worse", "χ²", "F", "p"]
    report.add_table(f"tests{suffix}", caption, header, rows, pd.DataFrame(values), 4)


def _add_by_dataset(report, by_block, rankings, names, control, suffix):
    """The ranks per block and, with one block per dataset, per dataset, side by side."""
    n = rankings[0].n_blocks
    limit = stats.critical_difference(len(names), n)
    ranks = _rank_table(rankings).loc[by_block.index]
    behind = ranks - (ranks.loc[control] if control in names else np.nan)
    columns = {"rank": by_block, "rank_by_dataset": ranks, "n_datasets": ranks * 0 + n}
    columns["worse_by_dataset"] = behind > limit
    values = pd.DataFrame({name: table.T.stack() for name, table in columns.items()})
    values = values.rename_axis(["measure", "method"]).reset_index()
    values = values[["method", "measure", *columns]].astype({"n_datasets": int})
    texts = by_block.map("{:.2f} / ".format) + ranks.map("{:.2f}".format)
    caption = (
        f"Average ranks per block / with one block per dataset ({n} datasets; the best in bold). "
        f"Critical difference with one block per dataset: {number(limit)} (Bonferroni-Dunn, exact)."
    )
    rows, head = _best_in_bold(texts, ranks, names), ["method", *ranks.columns]
    report.add_table(f"ranks-by-dataset{suffix}", caption, head, rows, values)


def _add_pairs(report, rankings, names, suffix):
    compared = {r.measure: stats.compare_all(r.ranks, r.n_blocks) for r in rankings}
    rows = {frozenset(p): [" – ".join(map(names.get, p))] for p in combinations(names, 2)}
    for c in (c for comparisons in compared.values() for c in comparisons):
        cell = mark_best([p_value(c.p_value)], [c.p_value < 0.05], [True])
        rows[frozenset((c.method, c.other))] += cell
    caption = "All pairs: p-values of Nemenyi's test, in bold where below 0.05."
    values = pd.concat([pd.DataFrame(c).assign(measure=m) for m, c in compared.items()])
    values = values[["measure", *stats.Comparison._fields]]
    report.add_table(
        f"pairs{suffix}", caption, ["pair", *compared], [*rows.values()], values, folded=True
    )


def _add_diagram(report, ranking, names, control, suffix):
    ranks, n = {names[m]: value for m, value in ranking.ranks.items()}, ranking.n_blocks
    display = CriticalDifferenceDisplay.from_ranks(ranks, control=names.get(control), n_datasets=n)
    kind, other = "pairs", "each other"
    alike = "; ".join(map(", ".join, display.cliques))
    bars = "each red bar joins methods no two of which differ"
    if control is not None:
        kind, other, alike = "control", names[control], ", ".join(display.not_different)
        bars = f"the red bar covers what does not differ from {other}"
    listed = ", ".join(f"{name} {value:.2f}" for name, value in ranks.items())
    alt = f"Critical-difference diagram on {ranking.measure}. Average ranks: {listed}. "
    alt += f"Not different from {other}: {alike or 'none'}."
    caption = f"{ranking.measure}: average ranks over {n} blocks; {bars}."
    name = f"{kind}-{ranking.measure}{suffix}"
    report.add_figure(name, display.figure_, alt=alt, caption=caption, half=True)


def _add_results(report: Report, data: Results) -> None:
    report.section("Results by dataset")
    report.paragraph(
        "Means over the runs ± standard deviations; the best mean of a row in bold. A number in "
        "brackets is the number of runs, if some are missing."
    )
    table = _ranks.cells(data.done)
    for measure in data.measures:
        part = table[table["measure"] == measure]
        rows = []
        for (dataset, n), group in part.groupby(BLOCK, observed=True):
            counts = [f" ({n})" if n < len(data.runs) else "" for n in group["n"]]
            texts = map(str.__add__, map(with_error, group["mean"], group["std"]), counts)
            shown = mark_best(texts, group["mean"], group["mean"].max())
            by_method = dict(zip(group["method"], shown, strict=True))
            rows.append([dataset, str(n), *(by_method.get(m, "–") for m in data.methods)])
        head = ["dataset", "n", *(data.names[m] for m in data.methods)]
        caption = (  # stands alone in LaTeX
            f"{measure} ({MEASURES[measure].replace('_', ' ')}) with n known classes: means over "
            "the runs and standard deviations; the best of each row in bold."
        )
        folded = measure != data.measures[0]
        report.add_table(f"results-{measure}", caption, head, rows, part, folded=folded)


def _add_fits(report: Report, data: Results, study: Study | None) -> None:
    """How open each cell is, and which lambda was used."""
    report.section("Openness and lambda")
    report.paragraph(
        "Openness is 1 - sqrt(2 n / (n + N)) for n known classes of N. Chosen: the lambda of the "
        "search, as a mean over tasks. Used: that of the fitted machines, of those tasks that "
        "recorded it. Raised: machines whose lambda the fit had to raise for a bounded region."
    )
    table = _ranks.describe_cells(data, study)
    texts = table.assign(n_classes=[number(n, 0) for n in table["n_classes"]])
    texts["openness"] = table["openness"].map(number)
    head = ["dataset", "n", "classes", "openness"]
    report.add_table("openness", "Openness of each block.", head, _texts(texts), table, folded=True)
    lam = _ranks.lambda_used(data.done)
    if lam.empty:
        return
    total = lam.groupby("method", observed=True)[["tasks", "machines", "raised"]].sum()
    report.bullets(
        f"{data.names[method]}: raised in {row.raised} of {row.machines} machines that recorded it "
        f"({row.tasks} tasks)."
        for method, row in total.iterrows()
    )
    columns = ["method", "dataset", "tasks", "chosen", "machines", "median", "largest", "raised"]
    values = lam[["chosen", "median", "largest"]].map(number)
    shown = lam.assign(**values, method=[data.names[m] for m in lam["method"]])[columns]
    head = ["median used" if name == "median" else name for name in columns]
    caption = "Lambda by method and dataset: chosen by the search, and used by the machines."
    report.add_table("lambda", caption, head, _texts(shown), lam, 2, folded=True)


def _texts(table: pd.DataFrame) -> list[list[str]]:
    return table.astype(str).to_numpy().tolist()


def _add_times(report: Report, data: Results) -> None:
    report.section("Times")
    times = data.done[["dataset", "n_known", "method", *_SECONDS]].dropna()
    if times.empty:
        report.paragraph("No row has times.")
        return
    report.paragraph(
        "Wall-clock times of tasks that may have shared a machine: an order of magnitude, not a "
        "benchmark. Medians per task; totals over all tasks."
    )
    times = times.assign(total=times[_SECONDS].sum(axis=1))
    grouped = times.groupby("method", observed=True)
    table = grouped[_SECONDS].median()
    table["longest"], table["total"] = grouped["total"].max(), grouped["total"].sum()
    rows = [
        [data.names[method], str(grouped.size()[method]), *map(duration, row)]
        for method, row in table.iterrows()
    ]
    head = ["method", "tasks", "search", "fit", "predict", "longest task", "total"]
    values = table.assign(tasks=grouped.size()).reset_index()
    caption = "Times by method: medians per task, and the total of all tasks."
    report.add_table("times", caption, head, rows, values)
    by_dataset = times.groupby(["dataset", "method"], observed=True)["total"].sum() / 3600
    hours = by_dataset.unstack().rename(columns=str)
    hours["all"] = hours.sum(axis=1)
    hours.loc["all"] = hours.sum()
    head = ["dataset", *(data.names.get(m, m) for m in hours.columns)]
    rows = [[name, *map(number, row)] for name, row in hours.iterrows()]
    caption = "Hours of all tasks, by dataset. Core-hours if a task used one thread."
    report.add_table("times-by-dataset", caption, head, rows, hours.reset_index(), folded=True)


def _add_missing(report: Report, data: Results) -> None:
    report.section("Missing tasks")
    if data.missing.empty:
        report.paragraph("Nothing: every planned task is done.")
    else:
        rows = []
        for (dataset, n), group in data.missing.groupby(BLOCK, sort=False):
            counts = group.groupby("method", sort=False)["run"].nunique()
            listed = "; ".join(
                f"{count} of {', '.join(data.names[m] for m in counts.index[counts == count])}"
                for count in sorted(counts.unique())
            )
            rows.append([dataset, str(n), listed, str(len(group))])
        caption = f"{len(data.missing)} planned tasks are not done."
        head = ["dataset", "n", "runs of methods", "tasks"]
        report.add_table("missing", caption, head, rows, data.missing, 3)
    failed = data.rows.loc[data.rows["status"] == "failed", [*KEY, "error"]]
    if len(failed):
        rows = _texts(failed.astype(str).replace({"method": data.names}))
        caption, head = f"{len(failed)} tasks failed.", ["dataset", "n", "run", "method", "error"]
        report.add_table("failed", caption, head, rows, failed, 5)


_CELL = [*CELL, "measure"]
REFERENCE = [*_CELL, "mean", "standard_error"]
_AS_TEXT = dict.fromkeys(["dataset", "method", "measure"], str)


def read_reference(reference: pd.DataFrame | str | os.PathLike) -> pd.DataFrame:
    """Reference results from a table or a CSV file, with exactly the columns `REFERENCE`."""
    source = "reference"
    if not isinstance(reference, pd.DataFrame):
        source = f"reference={str(reference)!r}"
        reference = pd.read_csv(reference, keep_default_na=False, na_values={"standard_error": ""})
    if absent := [name for name in REFERENCE if name not in reference.columns]:
        raise ValueError(f"{source} has no column {absent[0]!r}; it needs {', '.join(REFERENCE)}.")
    if twice := reference.duplicated(_CELL).sum():
        raise ValueError(f"{source} has {twice} rows twice; each cell and measure may occur once.")
    return reference[REFERENCE].astype(_AS_TEXT)


def _with_difference(table: pd.DataFrame) -> pd.DataFrame:
    # `below`: by more than two standard errors of the difference. The draws are not the same, so
    # these are errors of two independent means.
    difference = table["ours"] - table["reference"]
    error = np.hypot(table["se"], table["reference_se"])
    return table.assign(
        difference=difference, difference_se=error, below=difference < -2 * error - 1e-12
    )


def _over_n(table: pd.DataFrame) -> pd.DataFrame:
    """The same by dataset: means over the numbers of known classes that both have."""
    squared = table.assign(se=table["se"] ** 2, reference_se=table["reference_se"] ** 2)
    grouped = squared.groupby(["dataset", "method", "measure"], sort=False)
    values = grouped[["ours", "se", "reference", "reference_se"]]
    mean = values.agg(lambda column: column.mean(skipna=False))  # as pandas 2 has it
    for name in ("se", "reference_se"):
        mean[name] = np.sqrt(mean[name] / grouped.size())
    return _with_difference(mean.reset_index())


def add_reference(report: Report, data: Results, reference: pd.DataFrame, control: str) -> None:
    """Add the section that prints the reference results next to ours."""
    report.section("Compared with the reference results")
    ours = _ranks.cells(data.done).astype(_AS_TEXT)[REFERENCE]
    theirs = reference.set_axis([*_CELL, "reference", "reference_se"], axis=1)
    both = ours.set_axis([*_CELL, "ours", "se"], axis=1).merge(theirs, on=_CELL)
    table = _with_difference(both)
    n_others = _add_others(report, data, ours, reference, control)
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
    by_dataset = _over_n(table)
    _add_verdict(report, by_dataset, control)
    names = {m: data.names[m] for m in data.methods if m in set(table["method"])}
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


def _add_others(report, data, ours, reference, control) -> int:
    """Add tables of our methods and of reference methods that the study does not have."""
    # Returns the number of such methods.
    cell = ["dataset", "n_known", "measure"]
    others = reference[~reference["method"].isin(ours["method"])]
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
    for measure in wide.columns.unique("measure"):
        part = wide[measure]
        rows = [
            [data.names.get(method, method), *mark_best(map(number, row), row, part.max())]
            for method, row in part.iterrows()
        ]
        head = ["method", *(f"{dataset}, {n}" for dataset, n in part.columns)]
        caption = f"{measure}, our methods and others."
        values = both[both["measure"] == measure]
        report.add_table(f"others-{measure}", caption, head, rows, values)
    return len(theirs)


def _add_verdict(report, by_dataset, control):
    """Say in words how the control compares on NA, dataset by dataset."""
    part = by_dataset[(by_dataset["method"] == control) & (by_dataset["measure"] == "NA")]
    if part.empty:
        return
    below = ", ".join(
        f"{row.dataset} ({row.difference:+.3f}, {row.difference / row.difference_se:+.1f} errors)"
        for row in part[part["below"]].itertuples()
    )
    report.paragraph(
        f"{control}, mean NA of a dataset: below the reference by more than two standard errors "
        f"on {part['below'].sum()} of {len(part)} datasets{': ' if below else ''}{below}. Over all "
        f"of them the mean is {part['ours'].mean():.3f}, reference {part['reference'].mean():.3f}."
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
