"""Ranks of the methods and the tests on them: the numbers, and their part of the report."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from ..plots import CriticalDifferenceDisplay
from ..utils.page import Cell, Page
from . import stats
from ._measures import MEASURES
from ._report_data import BLOCK, CELL, Results, short_names
from ._report_tables import Table, number, p_value


class Ranking(NamedTuple):
    """Average ranks on one measure, and what the tests say of them.

    Attributes
    ----------
    measure : str
    ranks : dict {str: float}
        Average rank of each method, best first.
    n_blocks : int
    friedman : FriedmanResult
    """

    measure: str
    ranks: dict[str, float]
    n_blocks: int
    friedman: stats.FriedmanResult


class Group(NamedTuple):
    """Methods that are ranked together.

    Attributes
    ----------
    methods : list of str
    rankings : list of Ranking
        One for each measure.
    """

    methods: list[str]
    rankings: list[Ranking]


def rank_groups(results: Results, control: str) -> list[Group]:
    """Rank all methods over the blocks that are complete for all of them.

    Where the control has more complete blocks than that, the methods that are complete in all of
    those are ranked over them too.

    Parameters
    ----------
    results : Results
    control : str

    Returns
    -------
    list of Group
        Only with at least two methods and two blocks.
    """
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
            found.append(Group(ordered, _rank(results, ordered, blocks)))
    return found


def _rank(results: Results, methods: list[str], blocks: pd.Index) -> list[Ranking]:
    done = results.done[results.done["run"].isin(results.runs)]
    means = done.groupby(CELL, observed=True)[list(MEASURES)].mean()
    rankings = []
    for measure in MEASURES:
        scores = means[measure].unstack("method").loc[blocks, methods].to_numpy()
        average = pd.Series(stats.average_ranks(scores), methods).sort_values(kind="stable")
        rankings.append(Ranking(measure, average.to_dict(), len(scores), stats.friedman(scores)))
    return rankings


def add_ranks(
    page: Page, folder: Path, results: Results, groups: list[Group], control: str
) -> None:
    """Add the section on ranks and tests."""
    page.section("Ranks and tests")
    n_blocks = len(results.rows.drop_duplicates(BLOCK))
    page.paragraph(
        "Within a block (a dataset and a number of known classes) the methods are ranked by the "
        "mean of their runs, 1 being the best, and the ranks are averaged over the blocks. Only "
        f"blocks in which every ranked method has done all {len(results.runs)} runs enter. The "
        "blocks of one dataset are not independent, which the tests ignore, as the paper does."
    )
    if not groups:
        page.paragraph(
            f"Of the {n_blocks} blocks fewer than two are complete for two methods or more: there "
            "is nothing to rank yet."
        )
    for methods, rankings in groups:
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
    return Table(
        f"ranks{suffix}",
        "Average ranks; the best on each measure in bold.",
        ["method", *frame.columns],
        [
            [
                names[method],
                *(
                    Cell(number(value, 2), "best") if value == best[m] else number(value, 2)
                    for m, value in row.items()
                ),
            ]
            for method, row in frame.iterrows()
        ],
        frame.rename_axis("method").reset_index(),
    )


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
            verdicts = [
                ", ".join(names[c.method] for c in compared if chosen(c)) or "none"
                for chosen in (
                    lambda c: c.differs and c.difference < 0,
                    lambda c: not c.differs,
                    lambda c: c.differs and c.difference > 0,
                )
            ]
        record |= dict(zip(["better", "not_different", "worse"], verdicts, strict=True))
        values.append(record)
        rows.append(
            [
                r.measure,
                *verdicts,
                f"{r.friedman.chi2:.1f}",
                f"{r.friedman.f:.1f}",
                p_value(r.friedman.p_f),
            ]
        )
    limits = ", ".join(
        f"{number(record[key])} ({name})"
        for key, name in [
            ("cd_exact", "Bonferroni-Dunn, exact"),
            ("cd_tabulated", "Bonferroni-Dunn, tabulated, the paper's way"),
            ("cd_nemenyi", "Nemenyi, all pairs"),
        ]
        if key in record
    )
    return Table(
        f"tests{suffix}",
        f"Compared with {names.get(control, control)} by the Bonferroni-Dunn test at the level "
        "0.05 with the exact quantile: better, not different, worse; then Friedman's statistic and "
        f"that of Iman and Davenport with its p-value. Critical differences: {limits}.",
        ["measure", "better", "not different", "worse", "χ²", "F", "p"],
        rows,
        pd.DataFrame(values),
        text_columns=4,
    )


def _pair_table(rankings, names, suffix):
    frames, p_values = [], {}
    for r in rankings:
        compared = stats.compare_all(r.ranks, r.n_blocks)
        frames.append(pd.DataFrame(compared).assign(measure=r.measure))
        for c in compared:
            p_values[r.measure, frozenset((c.method, c.other))] = c.p_value
    rows = []
    for pair in combinations(names, 2):
        cells = [p_values[r.measure, frozenset(pair)] for r in rankings]
        shown = [Cell(p_value(p), "best") if p < 0.05 else p_value(p) for p in cells]
        rows.append([" – ".join(names[method] for method in pair), *shown])
    return Table(
        f"pairs{suffix}",
        "All pairs: p-values of Nemenyi's test, in bold where below 0.05.",
        ["pair", *(r.measure for r in rankings)],
        rows,
        pd.concat(frames)[["measure", "method", "other", "difference", "p_value", "differs"]],
    )


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
