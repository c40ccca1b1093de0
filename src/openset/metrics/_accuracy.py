"""Accuracy on known and on unknown samples, means of both, and error rates on known samples."""

from collections.abc import Hashable
from numbers import Real

from numpy.typing import ArrayLike

from ._counts import OpenSetCounts


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
    >>> from openset.metrics import accuracy_known
    >>> y_true, y_pred = ["a", "a", "b", "x"], ["a", "?", "a", "?"]
    >>> accuracy_known(y_true, y_pred, known=["a", "b"], unknown_label="?")
    0.3333333333333333
    """
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.accuracy_known())


def accuracy_unknown(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Accuracy on unknown samples (AUS): share of unknown samples predicted unknown.

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
        In [0, 1]; NaN when no sample is unknown.

    Examples
    --------
    >>> from openset.metrics import accuracy_unknown
    >>> accuracy_unknown(["a", "x", "y"], ["a", "?", "a"], known=["a", "b"], unknown_label="?")
    0.5
    """
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.accuracy_unknown())


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
    y_true : array-like of shape (n,)
        True labels. A label outside `known` is unknown, whatever it is.
    y_pred : array-like of shape (n,)
        Predicted labels: classes of `known` or `unknown_label`.
    known : array-like of shape (K,)
        The known classes, for example ``classes_`` of the estimator.
    unknown_label : label
        The label that predicts unknown, for example ``unknown_label_`` of the estimator.
    weight : float, default=0.5
        The regulator lambda_r in [0, 1], the weight of the known samples.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is known or none is unknown.

    Examples
    --------
    >>> from openset.metrics import normalized_accuracy
    >>> y_true, y_pred = ["a", "b", "x", "y"], ["a", "?", "?", "?"]
    >>> normalized_accuracy(y_true, y_pred, known=["a", "b"], unknown_label="?")
    0.75
    >>> normalized_accuracy(y_true, y_pred, known=["a", "b"], unknown_label="?", weight=0.25)
    0.875
    """
    if not (isinstance(weight, Real) and 0 <= weight <= 1):
        raise ValueError(f"weight={weight!r} must be a number in [0, 1].")
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.normalized_accuracy(weight))


def harmonic_normalized_accuracy(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Harmonic mean of both accuracies (HNA), ``2 / (1 / AKS + 1 / AUS)``.

    Unlike the normalized accuracy, it is 0 for a classifier that always or never rejects.

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
        In [0, 1]; 0 when AKS or AUS is 0; NaN when no sample is known or none is unknown.

    Examples
    --------
    >>> from openset.metrics import harmonic_normalized_accuracy
    >>> y_true, y_pred = ["a", "b", "x", "y"], ["a", "?", "?", "?"]
    >>> harmonic_normalized_accuracy(y_true, y_pred, known=["a", "b"], unknown_label="?")
    0.6666666666666666
    """
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.harmonic_normalized_accuracy())


def false_unknown_rate(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Share of known samples that are rejected (FU); AKS + FU + MIS = 1.

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
    >>> from openset.metrics import false_unknown_rate
    >>> y_true, y_pred = ["a", "a", "b", "b", "x"], ["a", "?", "a", "b", "?"]
    >>> false_unknown_rate(y_true, y_pred, known=["a", "b"], unknown_label="?")
    0.25
    """
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.false_unknown_rate())


def misclassification_rate(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> float:
    """Share of known samples given to another known class (MIS); AKS + FU + MIS = 1.

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
    >>> from openset.metrics import misclassification_rate
    >>> y_true, y_pred = ["a", "a", "b", "b", "x"], ["a", "?", "a", "b", "?"]
    >>> misclassification_rate(y_true, y_pred, known=["a", "b"], unknown_label="?")
    0.25
    """
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.misclassification_rate())
