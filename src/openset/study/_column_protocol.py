"""The second protocol: a column of the dataset tells the split, a seed draws the known classes.

This is the protocol of TEXTOIR's table of open intent detection: the sorted classes of the training
split, ``np.random.seed(run)``, ``np.random.choice(labels, n_known, replace=False)``. Features are
used as they are.

References
----------
H. Zhang, X. Li, H. Xu, P. Zhang, K. Zhao, K. Gao, "TEXTOIR: An Integrated and Visualized Platform
for Text Open Intent Recognition", ACL-IJCNLP 2021, system demonstrations.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import datasets
from ..evaluation import Split


class ColumnDraw(NamedTuple):
    """Features, classes and rows of one draw.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
        Features and classes of all rows of the dataset.
    split : Split
        Known classes, training rows and test rows.
    validation : ndarray of shape (n_validation,)
        Sorted validation rows of the known classes.
    """

    X: np.ndarray
    y: np.ndarray
    split: Split
    validation: np.ndarray


class _Columns(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    part: np.ndarray  # what the column says about each row
    labels: np.ndarray  # the sorted classes of the training split


@lru_cache(maxsize=2)
def _load(dataset: str, data_home: Any, column: str, train: str) -> _Columns:
    found: Any = datasets.load_dataset(dataset, data_home=data_home)
    if column not in found or column in ("data", "target", "feature_names", "name"):
        raise ValueError(
            f"dataset {dataset!r} has no text column {column!r}, which [protocol] names; set "
            "column to the one that tells train, validation and test rows apart."
        )
    part = np.asarray(found[column]).astype(str)
    if not np.any(part == train):
        values = ", ".join(np.unique(part)[:10])
        raise ValueError(
            f"dataset {dataset!r} has no row with {column} = {train!r}; there are {values}. Set "
            "train in [protocol]."
        )
    return _Columns(found.data, found.target, part, np.unique(found.target[part == train]))


def count_labels(dataset: str, data_home: Any, column: str, train: str) -> int:
    """Number of classes in the training split, from which the known ones are drawn."""
    return len(_load(dataset, data_home, column, train).labels)


@lru_cache(maxsize=2)  # the methods of a draw follow each other
def draw_from_column(
    dataset: str,
    n_known: int,
    seed: int,
    data_home: Any,
    *,
    column: str,
    train: str,
    validation: str,
) -> ColumnDraw:
    """Draw the known classes of a dataset whose split stands in a column.

    Training and validation rows of other classes are left out. All rows of neither split are test
    rows.

    Parameters
    ----------
    dataset : str
    n_known : int
        Number of classes to draw from the sorted ones of the training rows.
    seed : int
    data_home : path-like or None
        Folder of the datasets; None takes it from the environment variable ``OPENSET_DATA``.
    column, train, validation : str
        The column, and its values for training and validation rows.

    Returns
    -------
    ColumnDraw

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from openset.study import draw_from_column
    >>> table = pd.DataFrame({"x": range(6), "target": list("abcabc"), "split": ["train"] * 6})
    >>> table.loc[3:, "split"] = "test"
    >>> columns = {"column": "split", "train": "train", "validation": "val"}
    >>> with tempfile.TemporaryDirectory() as home:
    ...     table.to_parquet(Path(home, "small.parquet"))
    ...     draw = draw_from_column("small", 2, 0, home, **columns)
    >>> draw.split.known, draw.split.train, draw.split.test
    (array(['b', 'c'], dtype=object), array([1, 2]), array([3, 4, 5]))
    """
    X, y, part, labels = _load(dataset, data_home, column, train)
    known = np.random.RandomState(seed).choice(labels, n_known, replace=False)
    is_known = np.isin(y, known)
    split = Split(
        np.sort(known),
        np.flatnonzero(is_known & (part == train)),
        np.flatnonzero((part != train) & (part != validation)),
    )
    return ColumnDraw(X, y, split, np.flatnonzero(is_known & (part == validation)))
