"""F-measures of an open-set prediction: over the known classes, or with unknown as a class."""

from collections.abc import Hashable

from numpy.typing import ArrayLike

from ._counts import OpenSetCounts


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
    sample is a false negative; a correctly rejected unknown sample is not a true
    positive.

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
    >>> from openset.metrics import open_set_f1
    >>> y_true, y_pred = list("AAAABBCUUU"), list("AAUBBUUUAB")
    >>> round(open_set_f1(y_true, y_pred, known=list("ABC"), unknown_label="U"), 6)
    0.333333
    >>> round(open_set_f1(y_true, y_pred, known=list("ABC"), unknown_label="U", average="micro"), 6)
    0.461538
    """
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.open_set_f1(average))


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
    y_true : array-like of shape (n,)
        True labels. A label outside `known` is unknown, whatever it is.
    y_pred : array-like of shape (n,)
        Predicted labels: classes of `known` or `unknown_label`.
    known : array-like of shape (K,)
        The known classes, for example ``classes_`` of the estimator.
    unknown_label : label
        The label that predicts unknown, for example ``unknown_label_`` of the estimator.
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
    >>> from openset.metrics import f1_with_unknown
    >>> y_true, y_pred = list("AAAABBCUUU"), list("AAUBBUUUAB")
    >>> round(f1_with_unknown(y_true, y_pred, known=list("ABC"), unknown_label="U"), 6)
    0.322581
    >>> f1_with_unknown(y_true, y_pred, known=list("ABC"), unknown_label="U", average="micro")
    0.4
    """
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    return float(counts.f1_with_unknown(average))
