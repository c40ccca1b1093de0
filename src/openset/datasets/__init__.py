"""Datasets: loaders from Parquet files and PMLB, and generators of 2-D sets."""

from ._datasets import DatasetRow, dataset_table, load_dataset
from ._generators import make_boat, make_cone_torus, make_four_gauss, make_regular

__all__ = [
    "DatasetRow",
    "dataset_table",
    "load_dataset",
    "make_boat",
    "make_cone_torus",
    "make_four_gauss",
    "make_regular",
]
