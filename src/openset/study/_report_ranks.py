"""Ranks of the methods and the tests on them: the numbers, and their section of the report."""

from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..plots import CriticalDifferenceDisplay
from . import stats
from ._report_data import BLOCK, CELL, Results, collect, number, p_value, short_names
from ._store import Store
from ._study import MEASURES, Study
from .page import Cell, Page, ReportTable


class Ranking(NamedTuple):
    """Average ranks of methods on one measure.

    Attributes
    ----------
    measure : str
    ranks : dict {str: float}
        Average rank of each method, best first.
    n_blocks : int
        Blocks that the ranks are means over.
    friedman : FriedmanResult
    """

    measure: str
    ranks: dict[str, float]
    n_blocks: int
    friedman: stats.FriedmanResult


def rank_methods(
    results: pd.DataFrame | Store, *, study: Study | None = None, control: str = "OpenSetSVC"
) -> list[list[Ranking]]:
    """Rank the methods of a study over complete blocks, as its report does.

    A block is a dataset and a number of known classes. All methods are ranked over the blocks that
    are complete for all of them. If the control has more complete blocks, the methods that are
    complete in all of those are also ranked over them.

    Parameters
    ----------
    results : DataFrame or Store
        One row per task, with the columns of a store.
    study : Study, default=None
        The plan, which says what is complete.
    control : str, default="OpenSetSVC"

    Returns
    -------
    list of list of Ranking
        For each group of methods that can be ranked together, one ranking per measure.
    """
    return rank_groups(collect(results, study, control), control)


def rank_groups(results: Results, control: str) -> list[list[Ranking]]:
    """Rank all methods, and those that are complete in all complete blocks of the control."""
    complete = results.complete()
    everywhere = set(results.methods)
    for methods in complete:
        if control in methods:
            everywhere &= methods
    found = []
    for methods in dict.fromkeys([frozenset(results.methods), frozenset(everywhere)]):
        blocks = complete.index[[methods <= present for present in complete]]
        if len(methods) >= 2 and len(blocks) >= 2:
            ordered = [m for m in results.methods if m in methods]
            found.append(_rank(results, ordered, blocks))
    return found


def _rank(results: Results, methods: list[str], blocks: pd.Index) -> list[Ranking]:
    done = results.done[results.done["run"].isin(results.runs)]
    means = done.groupby(CELL, observed=True)[list(MEASURES)].mean()
    rankings = []
    for measure in results.measures:
        scores = means[measure].unstack("method").loc[blocks, methods].to_numpy()
        average = pd.Series(stats.average_ranks(scores), methods).sort_values(kind="stable")
        rankings.append(Ranking(measure, average.to_dict(), len(scores), stats.friedman(scores)))
    return rankings


def add_ranks(
    page: Page, folder: Path, results: Results, groups: list[list[Ranking]], control: str
) -> None:
    """Add the section on ranks and tests."""
    page.section("Ranks and tests")
    n_blocks = len(results.rows.drop_duplicates(BLOCK))
    page.paragraph(
        "Within a block (a dataset and a number of known classes) the methods are ranked by the "
        "mean of their runs, 1 being the best, and the ranks are averaged over the blocks. Only "
        f"blocks in which every ranked method has done all {len(results.runs)} runs enter. The "
        "blocks of one dataset are not independent, which the tests ignore."
    )
    if not groups:
        page.paragraph(
            f"Of the {n_blocks} blocks fewer than two are complete for two methods or more: there "
            "is nothing to rank yet."
        )
    for rankings in groups:
        methods = [m for m in results.methods if m in rankings[0].ranks]
        names = short_names(methods)
        is_all = len(methods) == len(results.methods)
        who = "All methods" if is_all else ", ".join(names.values())
        page.section(f"{who}: {rankings[0].n_blocks} complete blocks of {n_blocks}", level=3)
        suffix = "" if is_all else f"-{len(methods)}-methods"
        _rank_table(rankings, names, suffix).write(folder, page)
        _test_table(rankings, names, control, suffix).write(folder, page)
        _pair_table(rankings, names, suffix).write(folder, page, folded=True)
        if control in methods:
            for ranking in rankings:
                _add_diagram(page, ranking, names, control)


def _rank_table(rankings, names, suffix):
    frame = pd.DataFrame({r.measure: r.ranks for r in rankings}).loc[list(rankings[0].ranks)]
    best = frame.min()

    def shown(measure, value):
        text = number(value, 2)
        return Cell(text, "best") if value == best[measure] else text

    rows = [[names[method], *map(shown, row.index, row)] for method, row in frame.iterrows()]
    caption = "Average ranks; the best on each measure in bold."
    values = frame.rename_axis("method").reset_index()
    return ReportTable(f"ranks{suffix}", caption, ["method", *frame.columns], rows, values)


def _test_table(rankings, names, control, suffix):
    rows, values = [], []
    for r in rankings:
        k, n = len(r.ranks), r.n_blocks
        record = {"measure": r.measure, "n_blocks": n, "n_methods": k, **r.friedman._asdict()}
        record["cd_exact"] = stats.critical_difference(k, n)
        if k <= 10:
            record["cd_tabulated"] = stats.critical_difference(k, n, tabulated=True)
        record["cd_nemenyi"] = stats.critical_difference(k, n, test="nemenyi")
        verdicts = ["–", "–", "–"]
        if control in r.ranks:
            compared = stats.compare_with_control(r.ranks, control, n)
            signs = [(c.differs * np.sign(c.difference), names[c.method]) for c in compared]
            verdicts = [
                ", ".join(name for found, name in signs if found == sign) or "none"
                for sign in (-1, 0, 1)
            ]
        record |= dict(zip(["better", "not_different", "worse"], verdicts, strict=True))
        values.append(record)
        friedman = [f"{r.friedman.chi2:.1f}", f"{r.friedman.f:.1f}", p_value(r.friedman.p_f)]
        rows.append([r.measure, *verdicts, *friedman])
    titles = {
        "cd_exact": "Bonferroni-Dunn, exact",
        "cd_tabulated": "Bonferroni-Dunn, tabulated quantile",
        "cd_nemenyi": "Nemenyi, all pairs",
    }
    limits = [f"{number(record[key])} ({title})" for key, title in titles.items() if key in record]
    caption = (
        f"Compared with {names.get(control, control)} by the Bonferroni-Dunn test at the level "
        "0.05 with the exact quantile: better, not different, worse; then Friedman's statistic and "
        "that of Iman and Davenport with its p-value. Critical differences: "
        f"{', '.join(limits)}."
    )
    header = ["measure", "better", "not different", "worse", "χ²", "F", "p"]
    return ReportTable(f"tests{suffix}", caption, header, rows, pd.DataFrame(values), 4)


def _pair_table(rankings, names, suffix):
    frames, found = [], {pair: [] for pair in map(frozenset, combinations(names, 2))}
    for r in rankings:
        compared = stats.compare_all(r.ranks, r.n_blocks)
        frames.append(pd.DataFrame(compared).assign(measure=r.measure))
        for c in compared:
            text = p_value(c.p_value)
            shown = Cell(text, "best") if c.p_value < 0.05 else text
            found[frozenset((c.method, c.other))].append(shown)
    pairs = [" – ".join(names[method] for method in pair) for pair in combinations(names, 2)]
    rows = [[pair, *cells] for pair, cells in zip(pairs, found.values(), strict=True)]
    caption = "All pairs: p-values of Nemenyi's test, in bold where below 0.05."
    head = ["pair", *(r.measure for r in rankings)]
    values = pd.concat(frames)[["measure", "method", "other", "difference", "p_value", "differs"]]
    return ReportTable(f"pairs{suffix}", caption, head, rows, values)


def _add_diagram(page, ranking, names, control):
    display = CriticalDifferenceDisplay(
        ranks={names[m]: value for m, value in ranking.ranks.items()},
        control=names[control],
        critical_difference=stats.critical_difference(len(ranking.ranks), ranking.n_blocks),
    ).plot()
    alike = ", ".join(display.not_different) or "none"
    listed = ", ".join(f"{name} {value:.2f}" for name, value in display.ranks.items())
    page.figure(
        display.figure_,
        alt=f"Critical-difference diagram on {ranking.measure}. Average ranks: {listed}. Not "
        f"different from {names[control]}: {alike}.",
        caption=f"{ranking.measure}: average ranks over {ranking.n_blocks} blocks; the red bar "
        f"covers what does not differ from {names[control]}.",
        half=True,
    )
