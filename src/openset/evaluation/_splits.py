"""Draws: which classes are known, and which rows are for training."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..base import known_classes
from ..model_selection import OpenSetSplit, Simulation

# Rows for a search, and rows per class if these are more: it fits on half of the rows of half of
# the classes.
_TUNING_ROWS, _TUNING_ROWS_PER_CLASS = 3000, 200


class Split(NamedTuple):
    """Rows of one experiment.

    Attributes
    ----------
    known : ndarray of shape (n_known,)
        The known classes, sorted.
    train : ndarray of shape (n_train,)
        Sorted rows to tune and fit on, all of known classes or known unknowns.
    test : ndarray of shape (n_test,)
        Sorted rows to measure on; those of other classes are unknown.
    """

    known: np.ndarray
    train: np.ndarray
    test: np.ndarray


def draw_split(
    y: ArrayLike, n_known: int, *, random_state: int | Sequence[int] | np.ndarray | None = None
) -> Split:
    """Draw known classes and the training half of their samples; all other rows are for testing.

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes of all rows.
    n_known : int
        Number of known classes, less than the number of classes.
    random_state : int, sequence of int or None, default=None
        Seed of the draw. The draw of a seed never changes, on any machine.

    Returns
    -------
    Split
        Trains on floor(n_c / 2) rows of each known class c.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import draw_split
    >>> split = draw_split(np.repeat([0, 1, 2], 5), n_known=2, random_state=0)
    >>> len(split.known), len(split.train), len(split.test)
    (2, 4, 11)
    """
    y = np.asarray(y)
    classes = np.unique(y)
    if not 1 <= n_known < len(classes):
        raise ValueError(
            f"n_known={n_known} must be from 1 to {len(classes) - 1}: there are {len(classes)} "
            "classes, and at least one must be unknown."
        )
    # RandomState, because NumPy promises that its numbers never change.
    rng = np.random.RandomState(random_state)
    known = np.sort(rng.permutation(len(classes))[:n_known])
    train = np.zeros(len(y), dtype=bool)
    for c in known:
        members = np.flatnonzero(y == classes[c])
        train[rng.permutation(members)[: len(members) // 2]] = True
    return Split(classes[known], np.flatnonzero(train), np.flatnonzero(~train))


def comparison_splits(
    y: ArrayLike,
    n_repeats: int = 10,
    *,
    random_state: int | None = None,
    unknown_label: Any = "auto",
) -> list[Simulation]:
    """Draw splits for a comparison of methods: half of the classes are known in each.

    Three are known where possible, so that a search can withhold one. Half of their samples train.

    Parameters
    ----------
    y : array-like of shape (n,)
        At least three classes.
    n_repeats : int, default=10
    random_state : int, default=None
    unknown_label : "auto" or label, default="auto"
        Rows that carry an explicit label are known unknowns: half of them train.

    Returns
    -------
    list of Simulation
    """
    classes, _ = known_classes(unknown_label, np.asarray(y))
    if len(classes) < 3:
        raise ValueError(
            "a comparison withholds classes and needs at least 3 with enough rows; there are "
            f"{len(classes)}: {', '.join(map(str, classes))}"
        )
    n_known = max((len(classes) + 1) // 2, min(3, len(classes) - 1))
    how: dict[str, Any] = {"random_state": random_state, "unknown_label": unknown_label}
    return OpenSetSplit(n_repeats, n_known=n_known, **how).simulate(y)


def stratified_rows(
    y: ArrayLike, max_rows: int, *, min_per_class: int = 2, random_state: int | None = None
) -> np.ndarray:
    """Draw rows with the class proportions of `y`.

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes of all rows.
    max_rows : int
        Approximate number of rows to keep; all rows if there are no more.
    min_per_class : int, default=2
        Rows that a class keeps at least, where it has as many.
    random_state : int, default=None
        Seed of the draw.

    Returns
    -------
    ndarray of shape (n_rows,)
        Sorted.
    """
    y = np.asarray(y)
    if len(y) <= max_rows:
        return np.arange(len(y))
    rng = np.random.default_rng(random_state)
    kept = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        n_kept = max(min_per_class, round(max_rows * len(rows) / len(y)))
        kept.append(rng.permutation(rows)[:n_kept])
    return np.sort(np.concatenate(kept))


def tuning_rows(y: ArrayLike) -> int:
    """Return how many rows a search should use: more where there are more classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes of all rows.

    Returns
    -------
    int
        Not more than n.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import tuning_rows
    >>> tuning_rows(np.repeat(np.arange(10), 1000)), tuning_rows(np.repeat(np.arange(150), 100))
    (3000, 15000)
    """
    y = np.asarray(y)
    return min(len(y), max(_TUNING_ROWS, _TUNING_ROWS_PER_CLASS * len(np.unique(y))))
