"""The rows of a study: cells, complete blocks, missing tasks, and the ranks of the methods.

A cell is a dataset, a number of known classes and a method, over its runs; a block is the cells of
all methods for one dataset and one number of known classes. Nothing here draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..datasets import dataset_table
from ..evaluation import stats
from ..registry import method_table
from ._store import Store
from ._study import MEASURES, Study
from ._tasks import COLUMNS, class_count

KEY = ["dataset", "n_known", "run", "method"]
BLOCK = ["dataset", "n_known"]
CELL = [*BLOCK, "method"]


def short_names(methods: Iterable[str]) -> dict[str, str]:
    """Names in the literature by class name."""
    names = {row.estimator: row.method for row in method_table()}
    return {method: names.get(method, method) for method in methods}


@dataclass(frozen=True)
class Results:
    """Rows of a study in the order of the report."""

    rows: pd.DataFrame  # all, as in a store; datasets and methods are ordered categories
    runs: tuple[int, ...]  # of a complete cell
    measures: tuple[str, ...]  # to show
    missing: pd.DataFrame  # columns of `KEY`: tasks that are planned and not done

    @property
    def done(self) -> pd.DataFrame:
        """The rows that are done."""
        return self.rows[self.rows["status"] == "done"]

    @property
    def methods(self) -> list[str]:
        """Methods with a finished row, in order."""
        return list(self.done["method"].cat.remove_unused_categories().cat.categories)

    def complete(self) -> pd.Series:
        """By block, the set of methods that have finished all runs."""
        runs = self.done[self.done["run"].isin(self.runs)]
        count = runs.groupby(CELL, observed=True)["run"].nunique()
        full = count[count == len(self.runs)].reset_index()
        return full.groupby(BLOCK, observed=True)["method"].agg(set)


def collect(results: pd.DataFrame | Store, study: Study | None, control: str) -> Results:
    """Check the rows, order them as in the study, and find out what is missing.

    Without a study the control comes first and everything else is sorted by name.
    """
    rows = results.frame() if isinstance(results, Store) else results.copy()
    needed = [name for name in COLUMNS if name != "fingerprint"]  # old exports have none
    if absent := [name for name in needed if name not in rows.columns]:
        raise ValueError(f"results has no column {absent[0]!r}; it must have those of a store.")
    if rows.duplicated(KEY).any():
        twice = ", ".join(map(str, rows.loc[rows.duplicated(KEY), KEY].iloc[0]))
        raise ValueError(f"results has two rows of the task ({twice}); keep one.")
    if not (rows["status"] == "done").any():
        raise ValueError(f"none of the {len(rows)} rows is done; there is nothing to report yet.")
    rows["dataset"] = _ordered(rows["dataset"], study.datasets if study else ())
    rows["method"] = _ordered(rows["method"], study.methods if study else (control,))
    rows = rows.sort_values(KEY, ignore_index=True)
    planned = _planned(rows, study)
    done = pd.MultiIndex.from_frame(rows.loc[rows["status"] == "done", KEY].astype(object))
    left = planned[~pd.MultiIndex.from_frame(planned.astype(object)).isin(done)]
    runs = tuple(sorted(planned["run"].unique().tolist()))
    measures = study.measures if study else tuple(MEASURES)
    return Results(rows, runs, measures, left.reset_index(drop=True))


def _ordered(names: pd.Series, first: Sequence[str]) -> pd.Categorical:
    present = set(names)
    known = [name for name in first if name in present]
    return pd.Categorical(names, [*known, *sorted(present.difference(first))], ordered=True)


def _planned(rows: pd.DataFrame, study: Study | None) -> pd.DataFrame:
    if study is not None and (tasks := list(study.tasks(_class_counts(study)))):
        return pd.DataFrame(tasks, columns=KEY)
    # Without a study, or if class counts are unknown: every method and run in every block.
    blocks = rows[BLOCK].drop_duplicates().astype({"dataset": str})
    runs = pd.DataFrame({"run": sorted(rows["run"].unique())})
    methods = pd.DataFrame({"method": list(rows["method"].cat.categories)})
    return blocks.merge(runs, how="cross").merge(methods, how="cross")


def _class_counts(study: Study) -> dict[str, float]:
    """Number of classes of each dataset; infinite if unknown, as a report needs no data."""
    counts: dict[str, float] = {}
    table = {row.name: row for row in dataset_table()}
    for name in study.datasets:
        row = None if study.protocol else table.get(name)
        known = row and (row.n_classes or (row.published and row.published[2]))
        if known:
            counts[name] = known
            continue
        try:
            counts[name] = class_count(study, name, None)
        except (ImportError, OSError, ValueError):
            counts[name] = np.inf
    return counts


def cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Columns of `CELL`, ``measure, mean, std, n, standard_error`` from rows with measures."""
    long = rows.melt([*KEY], list(MEASURES), "measure", "value").dropna(subset="value")
    long["measure"] = pd.Categorical(long["measure"], list(MEASURES), ordered=True)
    table = (
        long.groupby([*CELL, "measure"], observed=True)["value"]
        .agg(mean="mean", std="std", n="count")
        .reset_index()
    )
    return table.assign(standard_error=table["std"] / np.sqrt(table["n"]))


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
    groups = []
    for methods in dict.fromkeys([frozenset(results.methods), frozenset(everywhere)]):
        blocks = complete.index[[methods <= present for present in complete]]
        if len(methods) >= 2 and len(blocks) >= 2:
            ordered = [m for m in results.methods if m in methods]
            groups.append(_rank(results, ordered, blocks))
    return groups


def _rank(results: Results, methods: list[str], blocks: pd.Index) -> list[Ranking]:
    done = results.done[results.done["run"].isin(results.runs)]
    means = done.groupby(CELL, observed=True)[list(MEASURES)].mean()
    rankings = []
    for measure in results.measures:
        scores = means[measure].unstack("method").loc[blocks, methods].to_numpy()
        average = pd.Series(stats.average_ranks(scores), methods).sort_values(kind="stable")
        rankings.append(Ranking(measure, average.to_dict(), len(scores), stats.friedman(scores)))
    return rankings
