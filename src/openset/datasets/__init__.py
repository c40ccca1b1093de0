"""Datasets: the paper's, from a data home or from PMLB, and generators of its 2-D sets."""

from openset.datasets._generators import (
    make_boat,
    make_cone_torus,
    make_four_gauss,
    make_regular,
)
from openset.datasets._parquet import load_dataset
from openset.datasets._table import DatasetRow, dataset_table

__all__ = [
    "DatasetRow",
    "dataset_table",
    "load_dataset",
    "make_boat",
    "make_cone_torus",
    "make_four_gauss",
    "make_regular",
]
