"""The datasets of the paper: their sizes, checksums and sources, read from ``catalogue.csv``.

The rows are in the order of the paper's table; the four 2-D sets of its figures come last.
"""

from __future__ import annotations

import csv
import hashlib
from importlib.resources import files
from typing import NamedTuple

import numpy as np


class Entry(NamedTuple):
    """What is known about a dataset.

    The shape is the number of samples, features, classes, samples of the smallest and of the
    largest class, from the paper's table; for the 2-D sets, which are not in the table, from their
    files.
    """

    shape: tuple[int, int, int, int, int]
    where: str  # where to get it, in words
    pmlb: str = ""  # name of the set in PMLB; empty if PMLB does not have it
    sha256: str = ""  # content_sha256; empty if the paper's rows or features are not known


def content_sha256(X: np.ndarray, y: np.ndarray) -> str:
    """SHA-256 of the values in order, independent of the file format; y are integers.

    Values are rounded to six decimals, because programs differ in the last bit of the numbers that
    they parse from text.
    """
    digest = hashlib.sha256(repr(X.shape).encode())
    digest.update(np.rint(np.asarray(X, dtype=np.float64) * 1e6).astype("<i8").tobytes())
    digest.update(np.asarray(y).astype("<i8").tobytes())
    return digest.hexdigest()


def _read_catalogue() -> dict[str, Entry]:
    text = files(__package__).joinpath("catalogue.csv").read_text("utf-8")
    catalogue = {}
    for row in csv.DictReader(text.splitlines()):
        sizes = ("samples", "features", "classes", "smallest", "largest")
        n, d, k, smallest, largest = (int(row[name]) for name in sizes)
        where = row["where"] or "the package pmlb fetches it (pip install pmlb)"
        shape = (n, d, k, smallest, largest)
        catalogue[row["name"]] = Entry(shape, where, row["pmlb"], row["sha256"])
    return catalogue


CATALOGUE = _read_catalogue()
