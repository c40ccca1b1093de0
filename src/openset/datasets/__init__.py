"""Datasets: loaders from Parquet files and PMLB, and generators of 2-D sets."""

from ._generators import make_boat, make_cone_torus, make_four_gauss, make_regular
from ._parquet import load_dataset
from ._table import DatasetRow, dataset_table

__all__ = [
    "DatasetRow",
    "dataset_table",
    "load_dataset",
    "make_boat",
    "make_cone_torus",
    "make_four_gauss",
    "make_regular",
]
