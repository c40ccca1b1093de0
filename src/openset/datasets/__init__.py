"""Datasets: a loader of Parquet files kept in a data home, and the 2-D sets of the figures."""

from openset.datasets._generators import (
    make_boat,
    make_cone_torus,
    make_four_gauss,
    make_regular,
)
from openset.datasets._parquet import load_dataset

__all__ = ["load_dataset", "make_boat", "make_cone_torus", "make_four_gauss", "make_regular"]
