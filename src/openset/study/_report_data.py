"""The rows of a study as the report looks at them: cells, complete blocks, what is missing.

A cell is a dataset, a number of known classes and a method, over its runs; a block is the cells of
all methods for one dataset and one number of known classes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..datasets._catalogue import CATALOGUE
from ..utils import method_table
from . import _protocol
from ._measures import MEASURES
from ._published import DATASETS, METHODS
from ._store import Store
from ._tasks import COLUMNS

if TYPE_CHECKING:
    from ._spec import Study

KEY = ["dataset", "n_known", "run", "method"]
BLOCK = ["dataset", "n_known"]
CELL = [*BLOCK, "method"]


def short_names(methods: Iterable[str]) -> dict[str, str]:
    """Names of the literature for our classes."""
    names = {row.estimator: row.method for row in method_table()}
    return {method: names.get(method, method) for method in methods}


@dataclass(frozen=True)
class Results:
    """Rows of a study in the order of the report.

    Parameters
    ----------
    rows : DataFrame
        All rows, with the columns of a store; datasets and methods are ordered categories.
    runs : tuple of int
        The runs a complete cell has.
    missing : DataFrame
        Columns of `KEY`: tasks that are planned and not done.
    """

    rows: pd.DataFrame
    runs: tuple[int, ...]
    missing: pd.DataFrame

    @property
    def done(self) -> pd.DataFrame:
        """The rows that are done."""
        return self.rows[self.rows["status"] == "done"]

    @property
    def methods(self) -> list[str]:
        """Methods with a finished row, those of the paper first, in its order."""
        return list(self.done["method"].cat.remove_unused_categories().cat.categories)

    def complete(self) -> pd.Series:
        """Methods, as a set, that have done all runs, by block."""
        runs = self.done[self.done["run"].isin(self.runs)]
        count = runs.groupby(CELL, observed=True)["run"].nunique()
        full = count[count == len(self.runs)].reset_index()
        return full.groupby(BLOCK, observed=True)["method"].agg(set)


def collect(results: pd.DataFrame | Store, study: Study | None = None) -> Results:
    """Check the rows, order them, and find out what is missing.

    Parameters
    ----------
    results : DataFrame or Store
        With the columns of a store.
    study : Study, default=None
        What was planned; None takes every method in every block and every run that occurs.

    Returns
    -------
    Results
    """
    rows = results.frame() if isinstance(results, Store) else results.copy()
    if absent := [name for name in COLUMNS if name not in rows.columns]:
        raise ValueError(f"results has no column {absent[0]!r}; it must have those of a store.")
    if rows.duplicated(KEY).any():
        twice = ", ".join(map(str, rows.loc[rows.duplicated(KEY), KEY].iloc[0]))
        raise ValueError(f"results has two rows of the task ({twice}); keep one.")
    if not (rows["status"] == "done").any():
        raise ValueError(f"none of the {len(rows)} rows is done; there is nothing to report yet.")
    rows["dataset"] = _ordered(rows["dataset"], list(DATASETS))
    rows["method"] = _ordered(rows["method"], list(METHODS))
    rows = rows.sort_values(KEY, ignore_index=True)
    planned = _planned(rows, study)
    done = pd.MultiIndex.from_frame(rows.loc[rows["status"] == "done", KEY].astype(object))
    left = planned[~pd.MultiIndex.from_frame(planned.astype(object)).isin(done)]
    runs = tuple(sorted(planned["run"].unique().tolist()))
    return Results(rows, runs, left.reset_index(drop=True))


def _ordered(names: pd.Series, first: Sequence[str]) -> pd.Categorical:
    present = set(names)
    known = [name for name in first if name in present]
    return pd.Categorical(names, [*known, *sorted(present.difference(first))], ordered=True)


def _planned(rows: pd.DataFrame, study: Study | None) -> pd.DataFrame:
    if study is None:
        blocks = rows[BLOCK].drop_duplicates().astype({"dataset": str})
        runs = pd.DataFrame({"run": sorted(rows["run"].unique())})
        methods = pd.DataFrame({"method": list(rows["method"].cat.categories)})
        return blocks.merge(runs, how="cross").merge(methods, how="cross")
    n_classes = {name: _count_classes(name) for name in study.datasets}
    return pd.DataFrame(list(study.tasks(n_classes)), columns=KEY)


def _count_classes(dataset: str) -> float:
    if dataset in CATALOGUE:
        return CATALOGUE[dataset].shape[2]
    try:
        return len(np.unique(_protocol.load(dataset, None)[1]))
    except (ImportError, OSError, ValueError):
        return np.inf  # a report needs no data; then all numbers of known classes count as planned


def cells(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean, deviation, number of runs and standard error of every cell and measure.

    Parameters
    ----------
    rows : DataFrame
        Columns of `KEY` and the measures.

    Returns
    -------
    DataFrame
        Columns of `CELL`, ``measure, mean, std, n, se``.
    """
    long = rows.melt([*KEY], list(MEASURES), "measure", "value").dropna(subset="value")
    long["measure"] = pd.Categorical(long["measure"], list(MEASURES), ordered=True)
    table = (
        long.groupby([*CELL, "measure"], observed=True)["value"]
        .agg(mean="mean", std="std", n="count")
        .reset_index()
    )
    return table.assign(se=table["std"] / np.sqrt(table["n"]))


def bias_signs(results: Results) -> pd.DataFrame:
    """Percentage of machines with a negative bias, over all runs and numbers of known classes.

    Parameters
    ----------
    results : Results

    Returns
    -------
    DataFrame
        By dataset: ``ova, ova_machines, ovo, ovo_machines`` of the SVM; ``before`` and ``after``
        of OpenSetSVC, the SVM with its parameters and lambda = 0, and itself.
    """
    columns = {
        "ova": ("OneVsRestSVC", "bias_after"),
        "ovo": ("OneVsRestSVC", "ovo_bias"),
        "before": ("OpenSetSVC", "bias_before"),
        "after": ("OpenSetSVC", "bias_after"),
    }
    table = {}
    for name, (method, column) in columns.items():
        rows = results.done[results.done["method"] == method]
        pooled = rows[column].map(_numbers).groupby(rows["dataset"], observed=True).sum()
        pooled = pooled[pooled.map(len) > 0]
        table[name] = pooled.map(lambda biases: 100 * np.mean(np.array(biases) < 0))
        if name in ("ova", "ovo"):
            table[f"{name}_machines"] = pooled.map(len)
    return pd.DataFrame(table).sort_index()


def _numbers(text) -> list[float]:
    return json.loads(text) if isinstance(text, str) and text else []
