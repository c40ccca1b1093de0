"""Loaders of datasets kept as Parquet files in a data home."""

from openset.datasets._parquet import load_dataset

__all__ = ["load_dataset"]
