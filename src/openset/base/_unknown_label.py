"""The unknown label: its name, and which rows of y are known unknowns."""

from __future__ import annotations

import itertools
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


def set_labels(estimator: BaseEstimator, y: np.ndarray, min_classes: int = 1) -> np.ndarray:
    """Set ``classes_``, ``unknown_label_`` and ``n_known_unknowns_``; return the codes of y.

    Parameters
    ----------
    estimator : OpenSetClassifier
        Its ``traits`` say whether it takes known unknowns.
    y : ndarray of shape (n,)
        Validated labels.
    min_classes : int, default=1
        As for :func:`validate_training_data`.

    Returns
    -------
    ndarray of shape (n,)
        Index of each label in ``classes_``; K for known unknowns.
    """
    name, label = type(estimator).__name__, estimator.unknown_label
    classes, codes = known_classes(label, y)
    count = int(np.sum(codes == len(classes)))
    traits = getattr(estimator, "traits", None)
    if count and not getattr(traits, "known_unknowns", ""):
        reason = (
            "each of its machines is trained on the samples of one class alone"
            if getattr(traits, "one_class", False)
            else "its definition has no use for samples of no class"
        )
        raise ValueError(
            f"{name} cannot learn from the {count} rows of y that carry unknown_label={label!r}: "
            f"{reason}. Leave them out, or pass them to CalibratedRejector as X_unknown."
        )
    if len(classes) + (count > 0) < min_classes:
        explicit = not _is_auto(label)
        hint = f" No row carries unknown_label={label!r}." if explicit else ""
        raise ValueError(
            f"{name} needs at least {min_classes} classes; y has {len(classes)} class: "
            f"{classes.tolist()!r}.{hint}"
        )
    estimator.classes_ = classes
    estimator.unknown_label_ = resolve_unknown_label(label, classes)
    estimator.n_known_unknowns_ = count
    return codes


def known_classes(unknown_label: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes of y, and the codes of all labels.

    Parameters
    ----------
    unknown_label : "auto" or label
        Rows that carry an explicit label are known unknowns.
    y : ndarray of shape (n,)

    Returns
    -------
    classes : ndarray of shape (K,)
    codes : ndarray of shape (n,)
        Index of each label in `classes`; K for known unknowns.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import known_classes
    >>> known_classes("oos", np.array(["pay", "oos", "call", "pay"]))
    (array(['call', 'pay'], dtype='<U4'), array([1, 2, 0, 1]))
    """
    classes, codes = np.unique(y, return_inverse=True)
    unknown = find_unknown_label(unknown_label, classes)
    if unknown < 0:
        return classes, codes
    if len(classes) == 1:
        raise ValueError(
            f"y has no class: all {len(y)} rows carry unknown_label={unknown_label!r}, which is "
            "the label of the unknown. Add rows of at least one known class."
        )
    codes = np.where(codes == unknown, len(classes) - 1, codes - (codes > unknown))
    return np.delete(classes, unknown), codes


def find_unknown_label(unknown_label: Any, labels: np.ndarray) -> int:
    """Return the index of an explicit unknown label in sorted labels; -1 where it is missing.

    Parameters
    ----------
    unknown_label : "auto" or label
        "auto" is never found.
    labels : ndarray of distinct labels

    Returns
    -------
    int

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import find_unknown_label
    >>> find_unknown_label("oos", np.array(["balance", "oos", "transfer"]))
    1
    >>> find_unknown_label("auto", np.array(["auto", "bus"]))
    -1
    """
    if _is_auto(unknown_label):
        return -1
    values = labels.tolist()
    same_kind = isinstance(unknown_label, str if isinstance(values[0], str) else Real)
    return values.index(unknown_label) if same_kind and unknown_label in values else -1


def takes_known_unknowns(estimator: BaseEstimator, unknown_label: Any) -> bool:
    """Whether an estimator learns from training rows that carry a label.

    Parameters
    ----------
    estimator : OpenSetClassifier
    unknown_label : label

    Returns
    -------
    bool
        True if the label is its explicit unknown label and its method takes known unknowns.

    Examples
    --------
    >>> from openset import MulticlassSVDD, OpenSetSVC
    >>> from openset.base import takes_known_unknowns
    >>> takes_known_unknowns(OpenSetSVC(unknown_label="oos"), "oos")
    True
    >>> takes_known_unknowns(MulticlassSVDD(unknown_label="oos"), "oos")
    False
    """
    traits = getattr(estimator, "traits", None)
    same = find_unknown_label(estimator.unknown_label, np.array([unknown_label])) >= 0
    return same and bool(getattr(traits, "known_unknowns", ""))


def usable_rows(estimator: BaseEstimator, y: np.ndarray) -> np.ndarray:
    """Return the rows that an estimator can be fitted to.

    Parameters
    ----------
    estimator : OpenSetClassifier
    y : ndarray of shape (n,)

    Returns
    -------
    ndarray of shape (n_rows,)
        All rows, or those of known classes if the method refuses known unknowns.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import MulticlassSVDD
    >>> from openset.base import usable_rows
    >>> usable_rows(MulticlassSVDD(unknown_label="oos"), np.array(["pay", "oos", "call"]))
    array([0, 2])
    """
    if takes_known_unknowns(estimator, estimator.unknown_label):
        return np.arange(len(y))
    classes, codes = known_classes(estimator.unknown_label, y)
    return np.flatnonzero(codes < len(classes))


def resolve_unknown_label(unknown_label: Any, classes: np.ndarray) -> Any:
    """Return the label of unknown samples for a set of classes.

    Parameters
    ----------
    unknown_label : {"auto"} or int, float, str
        "auto": -1 for numeric classes, or one less than the smallest if -1 is a class (or the
        first of -2, -3, ... that is free, if that rounds to a class); "unknown" for strings, with
        underscores appended until it is free.
    classes : ndarray of shape (K,)
        The known classes.

    Returns
    -------
    int, float or str

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import resolve_unknown_label
    >>> resolve_unknown_label("auto", np.array([-1, 1]))
    -2
    >>> resolve_unknown_label("auto", np.array(["known", "unknown"]))
    'unknown_'
    """
    labels = classes.tolist()
    textual = isinstance(labels[0], str)
    if _is_auto(unknown_label):
        if textual:
            label = "unknown"
            while label in labels:
                label += "_"
            return label
        if not isinstance(labels[0], Real):
            raise ValueError(
                f"unknown_label='auto' cannot name the unknown among classes of type "
                f"{type(labels[0]).__name__}; pass unknown_label."
            )
        number = -1 if -1 not in labels else min(labels) - 1
        if number in labels:  # a float so large that less 1 it is still the same
            number = next(-n for n in itertools.count(2) if -n not in labels)
        return float(number) if isinstance(labels[0], float) else int(number)
    if not isinstance(unknown_label, str if textual else Real):
        raise ValueError(
            f"unknown_label={unknown_label!r} and the classes ({labels[0]!r}, ...) are of "
            "different kinds. Pass a string for string classes, a number for numeric ones."
        )
    if unknown_label != unknown_label:
        raise ValueError("unknown_label=nan is not equal to itself. Choose another number.")
    if unknown_label in labels:
        raise ValueError(
            f"unknown_label={unknown_label!r} is also a class in y. Choose a label that is not, "
            'or unknown_label="auto".'
        )
    return unknown_label


def _is_auto(unknown_label):
    return isinstance(unknown_label, str) and unknown_label == "auto"
