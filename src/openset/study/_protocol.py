"""The protocol of the experiments: the data, the draw of classes and samples, the scaling."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits, load_iris, load_wine

from .. import datasets

# Datasets that need no file.
_EMBEDDED = {
    "digits": lambda: load_digits(return_X_y=True),
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "make_boat": lambda: datasets.make_boat(random_state=0),
    "make_cone_torus": lambda: datasets.make_cone_torus(random_state=0),
    "make_four_gauss": lambda: datasets.make_four_gauss(random_state=0),
    "make_regular": datasets.make_regular,
}


class Split(NamedTuple):
    """Rows of one draw.

    Parameters
    ----------
    known : ndarray of shape (n_known,)
        The known classes, sorted.
    train : ndarray of shape (n_train,)
        Sorted rows to train on: floor(n_c / 2) of each known class c.
    test : ndarray of shape (n_test,)
        All other rows; those of the other classes are unknown.
    """

    known: np.ndarray
    train: np.ndarray
    test: np.ndarray


def draw_seed(dataset: str, n_known: int, run: int, seed: int) -> np.ndarray:
    """Eight words that stand for a draw: the same on every machine and under every version."""
    key = f"{seed}/{dataset}/{n_known}/{run}".encode()
    return np.frombuffer(hashlib.sha256(key).digest(), dtype="<u4")


def make_split(y: np.ndarray, dataset: str, n_known: int, run: int, seed: int = 0) -> Split:
    """Draw known classes and their training halves, for the n-th run on a dataset.

    The draw is a function of the arguments alone, so that all methods, on all machines, see the
    same one.

    Parameters
    ----------
    y : ndarray of shape (m,)
        Classes of all rows of the dataset.
    dataset : str
        Its name.
    n_known : int
        Number of known classes, less than there are.
    run : int
        Number of the draw.
    seed : int, default=0
        Seed of the study.

    Returns
    -------
    Split

    Examples
    --------
    >>> import numpy as np
    >>> from openset.study import make_split
    >>> split = make_split(np.repeat([0, 1, 2], 5), "small", n_known=2, run=0)
    >>> len(split.known), len(split.train), len(split.test)
    (2, 4, 11)
    """
    classes = np.unique(y)
    if not 1 <= n_known < len(classes):
        raise ValueError(
            f"n_known={n_known} must be from 1 to {len(classes) - 1}: {dataset} has "
            f"{len(classes)} classes, and one at least has to be unknown."
        )
    # RandomState, because NumPy promises that its numbers never change.
    rng = np.random.RandomState(draw_seed(dataset, n_known, run, seed))
    known = np.sort(rng.permutation(len(classes))[:n_known])
    train = np.zeros(len(y), dtype=bool)
    for c in known:
        members = np.flatnonzero(y == classes[c])
        train[rng.permutation(members)[: len(members) // 2]] = True
    return Split(classes[known], np.flatnonzero(train), np.flatnonzero(~train))


@lru_cache(maxsize=2)
def load(dataset: str, data_home: str | os.PathLike | None) -> tuple[np.ndarray, np.ndarray]:
    """Features and classes of an embedded dataset or of one in the data home."""
    if dataset in _EMBEDDED:
        return _EMBEDDED[dataset]()
    return datasets.load_dataset(dataset, data_home=data_home, return_X_y=True)


class Problem(NamedTuple):
    """Training and test sets of a draw, scaled."""

    known: np.ndarray
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@lru_cache(maxsize=2)  # the methods of a draw come one after the other
def make_problem(
    dataset: str, n_known: int, run: int, seed: int, data_home: str | os.PathLike | None
) -> Problem:
    """The draw with every feature scaled to [0, 1] by its range over the training set.

    A feature that is constant there becomes 0; test values may leave the interval.
    """
    X, y = load(dataset, data_home)
    known, train, test = make_split(y, dataset, n_known, run, seed)
    low, high = X[train].min(axis=0), X[train].max(axis=0)
    varies = high > low
    scaled = np.where(varies, (X - low) / np.where(varies, high - low, 1.0), 0.0)
    return Problem(known, scaled[train], y[train], scaled[test], y[test])
