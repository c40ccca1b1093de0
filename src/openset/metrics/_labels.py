"""Encoding of labels as integers, once, so that every measure only counts integers.

Code ``k < K`` is the k-th class of `known`, code ``K`` is unknown. Labels are looked up in a dict
and never converted to a common array type, so ``1`` and ``"1"`` stay different and large integers
are not rounded.
"""

from collections.abc import Hashable
from itertools import repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..utils import refuse_masked


def as_labels(values: ArrayLike, name: str) -> list:
    """Return the labels as a list of unchanged Python objects; `name` is for error messages."""
    refuse_masked(name, values)
    if getattr(values, "ndim", 1) == 2:
        raise ValueError(
            f"{name} must be a 1-D sequence of labels; got shape {values.shape}. "  # type: ignore
            "Pass a single column, for an array y.ravel()."
        )
    if isinstance(values, set | frozenset):
        raise ValueError(f"{name} is a set, which has no order; pass a list, such as sorted(...).")
    if isinstance(values, str | bytes) or getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{name} must be a 1-D sequence of labels; got {values!r}.")
    try:
        labels = values.tolist() if hasattr(values, "tolist") else list(values)  # type: ignore
    except TypeError:
        raise ValueError(f"{name} must be a 1-D sequence of labels; got {values!r}.") from None
    if not labels:
        raise ValueError(f"{name} is empty; at least one label is needed.")
    return labels


def is_missing(label: Hashable) -> bool:
    """Whether a label is NaN, NaT or pandas.NA; None is a label like any other."""
    try:
        return bool(label != label)
    except TypeError:  # pandas.NA refuses to be a truth value
        return True


def index_known(known: ArrayLike, name: str = "known") -> dict:
    """Map each known class to its position in `known`."""
    labels = as_labels(known, name)
    try:
        index = {label: code for code, label in enumerate(labels)}
    except TypeError:
        raise ValueError(
            f"{name} must be a 1-D sequence of hashable labels; got {known!r}."
        ) from None
    if any(map(is_missing, labels)):
        raise ValueError(f"{name} contains a missing value: {labels!r}; remove it.")
    if len(index) < len(labels):
        raise ValueError(f"{name} contains a class twice: {labels!r}; list each class once.")
    return index


def _look_up(labels: list, index: dict, name: str) -> NDArray[np.intp]:
    """Return the code of each label, -1 where `index` does not have it."""
    try:
        return np.fromiter(map(index.get, labels, repeat(-1)), np.intp, len(labels))
    except TypeError:
        raise ValueError(f"{name} must be a 1-D sequence of hashable labels.") from None


def encode_true(y_true: ArrayLike, index: dict, name: str = "y_true") -> NDArray[np.intp]:
    """Return the codes of the true labels; `index` comes from `index_known`."""
    labels = as_labels(y_true, name)
    codes = _look_up(labels, index, name)
    outside = np.flatnonzero(codes < 0)
    if any(map(is_missing, {labels[i] for i in outside})):
        raise ValueError(f"{name} contains missing values; drop those samples or label them.")
    codes[outside] = len(index)
    return codes


def encode_labels(y: ArrayLike, classes: ArrayLike) -> NDArray[np.intp]:
    """Return the position of each label in `classes`, or K for a label that is not one of them.

    Parameters
    ----------
    y : array-like of shape (n,)
        True labels. A label outside `classes` is unknown, whatever it is.
    classes : array-like of shape (K,)
        The known classes, for example ``classes_`` of the estimator.

    Returns
    -------
    ndarray of shape (n,)
        Codes 0, ..., K; K means unknown, as in :func:`openset.utils.decide`.

    Examples
    --------
    >>> from openset.metrics import encode_labels
    >>> encode_labels(["b", "a", "x"], classes=["a", "b"])
    array([1, 0, 2])
    """
    return encode_true(y, index_known(classes, "classes"), "y")


def encode(
    y_true: ArrayLike, y_pred: ArrayLike, known: ArrayLike, unknown_label: Hashable
) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Return the codes of truth and prediction, each of shape (n,), and the number of classes K."""
    index = index_known(known)
    true = encode_true(y_true, index)
    n_known = len(index)

    if not isinstance(unknown_label, Hashable) or is_missing(unknown_label):
        raise ValueError(f"unknown_label must be a label; got {unknown_label!r}.")
    if unknown_label in index:
        raise ValueError(
            f"unknown_label={unknown_label!r} is also in known; choose a label that is not a class."
        )
    labels = as_labels(y_pred, "y_pred")
    if len(labels) != len(true):
        raise ValueError(
            f"y_true and y_pred must have the same length; got {len(true)} and {len(labels)}."
        )
    pred = _look_up(labels, {**index, unknown_label: n_known}, "y_pred")
    if pred.min() < 0:
        other = labels[int(np.argmin(pred))]
        raise ValueError(
            f"y_pred contains {other!r}, which is neither in known nor "
            f"unknown_label={unknown_label!r}; pass the classes and the unknown label of the "
            "estimator that predicted."
        )
    return true, pred, n_known
