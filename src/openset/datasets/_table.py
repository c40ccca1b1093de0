"""The datasets in the data home, next to the figures of the paper's table."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ._catalogue import CATALOGUE
from ._parquet import find_home, stored


class DatasetRow(NamedTuple):
    """One row of the table of datasets.

    Attributes
    ----------
    name : str
    source : {"file", "pmlb", ""}
        "file" if it is in the data home, "pmlb" if it will be fetched on first use.
    n_samples, n_features, n_classes, smallest, largest : int or None
        Counted in the file; `smallest` and `largest` are class sizes. None without a file.
    published : tuple of int, or None
        The same five figures in the paper's table; None for a dataset that is not in it.
    where : str
        Where to get a dataset of the paper, in words.
    """

    name: str
    source: Literal["file", "pmlb", ""]
    n_samples: int | None = None
    n_features: int | None = None
    n_classes: int | None = None
    smallest: int | None = None
    largest: int | None = None
    published: tuple[int, int, int, int, int] | None = None
    where: str = ""

    @property
    def counted(self) -> tuple[int | None, ...]:
        """The five figures, in the order of `published`."""
        return self[2:7]


# In the catalogue but not in the paper's table.
_FIGURES = ("boat", "cone-torus", "four-gauss", "regular")


def dataset_table(data_home: str | os.PathLike | None = None) -> list[DatasetRow]:
    """List the datasets of the paper, then all others in the data home.

    Only the schema and the label column of each file are read.

    Parameters
    ----------
    data_home : path-like, default=None
        Folder of the files; None uses the environment variable ``OPENSET_DATA``.

    Returns
    -------
    list of DatasetRow

    Examples
    --------
    >>> import tempfile
    >>> from openset.datasets import dataset_table
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     row = dataset_table(empty)[0]
    >>> row.name, row.source, row.published
    ('yeast', 'pmlb', (1479, 8, 9, 20, 463))
    """
    home = find_home(data_home)
    here = [] if home is None else stored(home)
    rows = []
    for name in [*CATALOGUE, *(n for n in here if n not in CATALOGUE)]:
        entry = CATALOGUE.get(name)
        row = DatasetRow(
            name,
            "file" if name in here else "pmlb" if entry and entry.pmlb else "",
            published=entry.shape if entry and name not in _FIGURES else None,
            where=entry.where if entry else "",
        )
        if home is not None and name in here:
            row = row._replace(**_count(home / f"{name}.parquet"))
        rows.append(row)
    return rows


def _count(path: Path) -> dict[str, Any]:
    import pyarrow.parquet as parquet
    from pyarrow import ArrowException, types

    try:
        schema = parquet.read_schema(path)
        labels = parquet.read_table(path, columns=["target"])["target"]
    except (ArrowException, OSError, KeyError) as error:
        raise ValueError(f"{path} is not a dataset ({error}); fetch or write it again.") from error
    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    features = [f for f in schema if f.name != "target" and any(is_(f.type) for is_ in numeric)]
    sizes = labels.value_counts().field("counts").to_pylist()
    counts = {"n_samples": len(labels), "n_features": len(features), "n_classes": len(sizes)}
    return counts | {"smallest": min(sizes, default=0), "largest": max(sizes, default=0)}
