"""Measures of a prediction: accuracies on known and on unknown samples, error rates, F-measures."""

from collections.abc import Hashable
from numbers import Real

from numpy.typing import ArrayLike

from ._counts import OpenSetCounts

_count = OpenSetCounts.from_labels


def accuracy_known(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Accuracy on known samples (AKS): share of known samples given their own class.

    Pooled over samples, not a mean over classes.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels. A label outside `known` is unknown, whatever it is.
    y_pred : array-like of shape (n,)
        Predicted labels: classes of `known` or `unknown_label`.
    known : array-like of shape (K,)
        The known classes, for example ``classes_`` of the estimator.
    unknown_label : label
        The label that predicts unknown, for example ``unknown_label_`` of the estimator.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is known.

    Examples
    --------
    >>> from openset.metrics import accuracy_known, false_unknown_rate, misclassification_rate
    >>> y_true, y_pred = ["a", "a", "b", "b", "x"], ["a", "?", "a", "b", "?"]
    >>> labels = {"known": ["a", "b"], "unknown_label": "?"}
    >>> accuracy_known(y_true, y_pred, **labels)
    0.5
    >>> false_unknown_rate(y_true, y_pred, **labels)
    0.25
    >>> misclassification_rate(y_true, y_pred, **labels)
    0.25
    """
    return float(_count(y_true, y_pred, known, unknown_label).accuracy_known())


def accuracy_unknown(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Accuracy on unknown samples (AUS): share of unknown samples predicted unknown.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label
        As for :func:`accuracy_known`.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is unknown.

    Examples
    --------
    >>> from openset.metrics import accuracy_unknown
    >>> accuracy_unknown(["a", "x", "y"], ["a", "?", "a"], known=["a", "b"], unknown_label="?")
    0.5
    """
    return float(_count(y_true, y_pred, known, unknown_label).accuracy_unknown())


def normalized_accuracy(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    known: ArrayLike,
    unknown_label: Hashable,
    weight: float = 0.5,
) -> float:
    """Mean of both accuracies (NA): ``weight * AKS + (1 - weight) * AUS``.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label
        As for :func:`accuracy_known`.
    weight : float, default=0.5
        The regulator lambda_r in [0, 1], the weight of the known samples.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is known or none is unknown.

    Examples
    --------
    >>> from openset.metrics import harmonic_normalized_accuracy, normalized_accuracy
    >>> y_true, y_pred = ["a", "b", "x", "y"], ["a", "?", "?", "?"]
    >>> normalized_accuracy(y_true, y_pred, known=["a", "b"], unknown_label="?")
    0.75
    >>> normalized_accuracy(y_true, y_pred, known=["a", "b"], unknown_label="?", weight=0.25)
    0.875
    >>> harmonic_normalized_accuracy(y_true, y_pred, known=["a", "b"], unknown_label="?")
    0.6666666666666666
    """
    if not (isinstance(weight, Real) and 0 <= weight <= 1):
        raise ValueError(f"weight={weight!r} must be a number in [0, 1].")
    return float(_count(y_true, y_pred, known, unknown_label).normalized_accuracy(weight))


def harmonic_normalized_accuracy(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Harmonic mean of both accuracies (HNA), ``2 / (1 / AKS + 1 / AUS)``.

    Unlike :func:`normalized_accuracy`, which has an example of both, it is 0 for a classifier that
    always or never rejects.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label
        As for :func:`accuracy_known`.

    Returns
    -------
    float
        In [0, 1]; 0 when AKS or AUS is 0; NaN when no sample is known or none is unknown.
    """
    return float(_count(y_true, y_pred, known, unknown_label).harmonic_normalized_accuracy())


def false_unknown_rate(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Share of known samples that are rejected (FU); AKS + FU + MIS = 1.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label
        As for :func:`accuracy_known`, which has an example of all three.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is known.
    """
    return float(_count(y_true, y_pred, known, unknown_label).false_unknown_rate())


def misclassification_rate(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Share of known samples given to another known class (MIS); AKS + FU + MIS = 1.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label
        As for :func:`accuracy_known`, which has an example of all three.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is known.
    """
    return float(_count(y_true, y_pred, known, unknown_label).misclassification_rate())


def open_set_f1(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    known: ArrayLike,
    unknown_label: Hashable,
    average: str = "macro",
) -> float:
    """F-measure over the known classes (OSFM).

    An unknown sample given to a class is a false positive of that class, and a rejected known
    sample is a false negative; a correctly rejected unknown sample is not a true positive.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label
        As for :func:`accuracy_known`.
    average : {"macro", "micro"}, default="macro"
        "macro" is **the F of the mean precision and the mean recall** over the classes, not the
        mean of the classes' F. "micro" sums the counts over the classes first.

    Returns
    -------
    float
        In [0, 1]. A precision or recall of 0/0 (a class never predicted, a class absent from the
        truth) counts as 0.

    Examples
    --------
    >>> from openset.metrics import f1_with_unknown, open_set_f1
    >>> y_true, y_pred = list("AAAABBCUUU"), list("AAUBBUUUAB")
    >>> labels = {"known": list("ABC"), "unknown_label": "U"}
    >>> round(open_set_f1(y_true, y_pred, **labels), 6)
    0.333333
    >>> round(open_set_f1(y_true, y_pred, **labels, average="micro"), 6)
    0.461538
    >>> round(f1_with_unknown(y_true, y_pred, **labels), 6)
    0.322581
    >>> f1_with_unknown(y_true, y_pred, **labels, average="micro")
    0.4
    """
    return float(_count(y_true, y_pred, known, unknown_label).open_set_f1(average))


def f1_with_unknown(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    known: ArrayLike,
    unknown_label: Hashable,
    average: str = "macro",
) -> float:
    """F-measure over the K known classes and unknown as one more class (FM).

    The micro average is the plain accuracy over all samples.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label, average
        As for :func:`open_set_f1`.

    Returns
    -------
    float
        In [0, 1]; 0/0 counts as 0, as in :func:`open_set_f1`, which has an example of both.
    """
    return float(_count(y_true, y_pred, known, unknown_label).f1_with_unknown(average))
