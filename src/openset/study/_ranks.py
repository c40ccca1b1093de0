"""The rows of a study: cells, complete blocks, missing tasks, and the ranks of the methods.

A cell is a dataset, a number of known classes and a method, over its runs; a block is the cells of
all methods for one dataset and one number of known classes. Nothing here draws.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..datasets import DatasetRow, dataset_table
from ..evaluation import stats
from ..metrics import openness
from ..registry import method_table
from ._store import Store
from ._study import MEASURES, Study
from ._tasks import COLUMNS, class_count

KEY = ["dataset", "n_known", "run", "method"]
BLOCK = ["dataset", "n_known"]
CELL = [*BLOCK, "method"]


@dataclass(frozen=True)
class Results:
    """Rows of a study in the order of the report."""

    rows: pd.DataFrame  # all, as in a store; datasets and methods are ordered categories
    runs: tuple[int, ...]  # of a complete cell
    measures: tuple[str, ...]  # to show
    missing: pd.DataFrame  # columns of `KEY`: tasks that are planned and not done
    names: dict[str, str]  # of all methods in the literature, by class name

    @property
    def done(self) -> pd.DataFrame:
        """The rows that are done."""
        return self.rows[self.rows["status"] == "done"]

    @property
    def methods(self) -> list[str]:
        """Methods with a finished row, in order."""
        return list(self.done["method"].cat.remove_unused_categories().cat.categories)


def collect(results: pd.DataFrame | Store, study: Study | None, control: str) -> Results:
    """Check the rows, order them as in the study, and find out what is missing."""
    # Without a study the control comes first and everything else is sorted by name.
    rows = results.frame() if isinstance(results, Store) else results.copy()
    _check_rows(rows)
    rows["dataset"] = _ordered(rows["dataset"], study.datasets if study else ())
    rows["method"] = _ordered(rows["method"], study.methods if study else (control,))
    rows = rows.sort_values(KEY, ignore_index=True)
    planned = _planned(rows, study)
    done = pd.MultiIndex.from_frame(rows.loc[rows["status"] == "done", KEY].astype(object))
    left = planned[~pd.MultiIndex.from_frame(planned.astype(object)).isin(done)]
    numbers = tuple(sorted(planned["run"].unique().tolist()))
    measures = study.measures if study else tuple(MEASURES)
    names = {name: name for name in [*rows["method"].cat.categories, *planned["method"].unique()]}
    names |= {row.estimator: row.method for row in method_table() if row.estimator}
    return Results(rows, numbers, measures, left.reset_index(drop=True), names)


def _check_rows(rows: pd.DataFrame) -> None:
    """Raise ValueError unless these are rows of a store, one per task, and one is done."""
    needed = [name for name in COLUMNS if name != "fingerprint"]  # old exports have none
    if absent := [name for name in needed if name not in rows.columns]:
        raise ValueError(f"results has no column {absent[0]!r}; it must have those of a store.")
    if (again := rows.duplicated(KEY)).any():
        twice = ", ".join(map(str, rows.loc[again, KEY].iloc[0]))
        raise ValueError(f"results has two rows of the task ({twice}); keep one.")
    if not (rows["status"] == "done").any():
        raise ValueError(f"none of the {len(rows)} rows is done; there is nothing to report yet.")


def _planned(rows: pd.DataFrame, study: Study | None) -> pd.DataFrame:
    """The tasks of a study, columns of `KEY`; all that rows may belong to, if it is not known."""
    tasks = [] if study is None else list(study.tasks(_class_counts(study, rows)))
    if tasks:
        return pd.DataFrame(tasks, columns=KEY)
    blocks = rows[BLOCK].drop_duplicates().astype({"dataset": str})
    runs = pd.DataFrame({"run": sorted(rows["run"].unique())})
    methods = pd.DataFrame({"method": list(rows["method"].cat.categories)})
    return blocks.merge(runs, how="cross").merge(methods, how="cross")


def _ordered(names: pd.Series, first: Sequence[str]) -> pd.Categorical:
    present = set(names)
    known = [name for name in first if name in present]
    return pd.Categorical(names, [*known, *sorted(present.difference(first))], ordered=True)


def _class_counts(study: Study | None, rows: pd.DataFrame) -> dict[str, float]:
    """Classes of each dataset, recorded in `rows` or listed; infinite if unknown without data."""
    fits = zip(rows["dataset"], rows["extra"].map(recorded), strict=True)
    counts: dict[str, float] = {name: e["fit"]["n_classes"] for name, e in fits if e.get("fit")}
    if study is None:
        return counts
    listed = {} if study.protocol else {row.name: row for row in dataset_table()}
    others = [name for name in study.datasets if name not in counts]
    return counts | {name: _class_count(study, name, listed.get(name)) for name in others}


def _class_count(study: Study, name: str, row: DatasetRow | None) -> float:
    if row and (known := row.n_classes or (row.published and row.published[2])):
        return known
    try:
        return class_count(study, name, None)
    except (ImportError, OSError, ValueError):
        return np.inf


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


def rank_groups(results: Results, control: str, unit: Sequence[str] = BLOCK) -> list[list[Ranking]]:
    """Rank all methods, and those that are complete in all complete blocks of the control."""
    # With `unit=["dataset"]` the complete blocks of a dataset are averaged and count as one; a
    # group of a single dataset then has no rankings.
    done = results.done[results.done["run"].isin(results.runs)]
    count = done.groupby(CELL, observed=True)["run"].nunique()
    full = count[count == len(results.runs)].reset_index()
    complete = full.groupby(BLOCK, observed=True)["method"].agg(set)  # methods by block
    means = done.groupby(CELL, observed=True)[list(MEASURES)].mean()
    everywhere = set(results.methods).intersection(*(m for m in complete if control in m))
    groups: list[list[Ranking]] = []
    for methods in dict.fromkeys([frozenset(results.methods), frozenset(everywhere)]):
        blocks = complete.index[[methods <= present for present in complete]]
        if len(methods) >= 2 and len(blocks) >= 2:
            ordered = [m for m in results.methods if m in methods]
            groups.append([])
            for measure in results.measures:
                table = means[measure].unstack("method").loc[blocks, ordered]
                scores = table.groupby(level=list(unit), observed=True).mean().to_numpy()
                if len(scores) >= 2:
                    order = pd.Series(stats.average_ranks(scores), ordered)
                    order = order.sort_values(kind="stable").to_dict()
                    test = stats.friedman(scores)
                    groups[-1].append(Ranking(measure, order, len(scores), test))
    return groups


def describe_cells(results: Results, study: Study | None) -> pd.DataFrame:
    """Columns of `BLOCK`, ``n_classes, openness`` of the finished cells; NaN where not known."""
    done = results.done
    counts = _class_counts(study, done)
    table = done[BLOCK].drop_duplicates().sort_values(BLOCK, ignore_index=True)
    table["n_classes"] = table["dataset"].astype(str).map(counts).astype(float)
    table["n_classes"] = table["n_classes"].where(np.isfinite(table["n_classes"]))
    pairs = zip(table["n_known"], table["n_classes"], strict=True)
    table["openness"] = [np.nan if np.isnan(k) else openness(int(n), int(k)) for n, k in pairs]
    return table


def lambda_used(done: pd.DataFrame) -> pd.DataFrame:
    """By method and dataset: tasks, the machines that recorded lambda, how often it was raised."""
    # Columns ``chosen`` (mean over tasks of the searched value, a dictionary by its mean), ``tasks,
    # machines, raised, median, largest``; only methods with a parameter ``lam``.
    rows = []
    columns = done[["method", "dataset", "params", "extra"]]
    for method, dataset, params, extra in columns.itertuples(index=False):
        chosen = recorded(params).get("lam")
        fit = recorded(extra).get("fit", {})
        if chosen is not None or "lam" in fit:
            values = list(chosen.values()) if isinstance(chosen, dict) else chosen
            mean = np.nan if values is None else float(np.mean(values))
            rows.append((method, dataset, mean, fit.get("lam", []), fit.get("raised", 0)))
    names = ["method", "dataset", "chosen", "lam", "raised"]
    lines = []
    for key, part in pd.DataFrame(rows, columns=names).groupby(names[:2], observed=True):
        lam = np.concatenate([np.zeros(0), *part["lam"]])
        spread = (np.median(lam), lam.max()) if len(lam) else (np.nan, np.nan)
        counts = len(part), len(lam), part["raised"].sum()
        lines.append((*key, part["chosen"].mean(), *counts, *spread))
    found = ["tasks", "machines", "raised", "median", "largest"]
    return pd.DataFrame(lines, columns=[*names[:3], *found])


def recorded(text: object) -> dict:
    """The JSON of a column; empty where there is none."""
    return json.loads(text) if isinstance(text, str) and text else {}
