"""Measures of a prediction: accuracies, error rates, F-measures, openness, and their report."""

from collections.abc import Hashable
from itertools import product
from math import sqrt
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from ..utils import unwrap
from ..utils.text import text_table
from ._counts import OpenSetCounts, encode, harmonic_mean, index_known

_count = OpenSetCounts.from_labels

_MEASURES = (
    *("accuracy_known", "accuracy_unknown", "normalized_accuracy", "harmonic_normalized_accuracy"),
    *("false_unknown_rate", "misclassification_rate"),
)


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


def openness(n_train: int, n_test: int, n_target: int | None = None) -> float:
    """Compute how open a problem is, ``1 - sqrt(2 n_train / (n_target + n_test))``.

    Parameters
    ----------
    n_train : int
        Number of classes in training.
    n_test : int
        Number of classes in testing, known and unknown: at least `n_train`.
    n_target : int, optional
        Number of classes to be recognised; `n_train` by default, for which the original and the
        recalibrated definition agree. With fewer targets than training classes, the original
        definition, computed here, can be negative.

    Returns
    -------
    float
        0 for a closed-set problem; approaches 1 as unknown classes are added.

    Examples
    --------
    >>> from openset.metrics import openness
    >>> round(openness(3, 26), 6)
    0.545141
    """
    n_target = n_train if n_target is None else n_target
    numbers = {"n_test": n_test, "n_train": n_train, "n_target": n_target}
    for name, value in numbers.items():  # n_test first: the others are compared with it
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name}={value!r} must be a number of classes, an integer >= 1.")
        if value > n_test:
            raise ValueError(
                f"{name}={value} exceeds n_test={n_test}; count the known classes in n_test too."
            )
    return 1 - sqrt(2 * n_train / (n_target + n_test))


def open_set_confusion_matrix(
    y_true: ArrayLike, y_pred: ArrayLike, *, known: ArrayLike, unknown_label: Hashable
) -> NDArray[np.intp]:
    """Count the samples of each true class (row) by their prediction (column), unknown last.

    Parameters
    ----------
    y_true, y_pred, known, unknown_label
        As for :func:`accuracy_known`; `known` gives the order of the rows and columns.

    Returns
    -------
    ndarray of shape (K + 1, K + 1)

    Examples
    --------
    >>> from openset.metrics import open_set_confusion_matrix
    >>> y_true, y_pred = ["a", "a", "b", "x", "y"], ["a", "?", "a", "?", "b"]
    >>> open_set_confusion_matrix(y_true, y_pred, known=["a", "b"], unknown_label="?")
    array([[1, 0, 1],
           [1, 0, 0],
           [0, 1, 1]])
    """
    true, pred, n_known = encode(y_true, y_pred, known, unknown_label)
    size = n_known + 1
    return np.bincount(size * true + pred, minlength=size**2).reshape(size, size)


class OpenSetReport(dict):
    """The measures of one prediction, as returned by `open_set_report`; ``str()`` is a table."""

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self, n_classes: int | None = 10) -> str:
        """Return the measures, and then the classes with the lowest F1, as a table.

        Parameters
        ----------
        n_classes : int or None, default=10
            Known classes to show, worst first; None shows all, in the order of `known`.

        Returns
        -------
        str
        """
        measures = [name for name, value in self.items() if isinstance(value, float)]
        width = max(map(len, measures))
        lines = [f"{'measure':<{width}}      value"]
        lines += [f"{name:<{width}}  {self[name]:9.4f}" for name in measures]
        return "\n".join([*lines, "", self.class_table(n_classes)])

    def class_table(self, n_classes: int | None = 10) -> str:
        """Return precision, recall, F1 and support of classes, and of unknown, as a table.

        Parameters
        ----------
        n_classes : int or None, default=10
            As for :meth:`as_text`.

        Returns
        -------
        str
        """
        *known, (label, last) = self["per_class"].items()
        shown, note = known, ""
        if n_classes is not None and n_classes < len(known):
            # Classes without samples come last: their F1 means nothing.
            shown = sorted(known, key=lambda item: (not item[1]["support"], item[1]["f1"]))
            shown = shown[:n_classes]
            note = (
                f"\nthe {n_classes} classes with the lowest f1 of {len(known)}; "
                "as_text(None) shows all"
            )
        rows = [(str(name), row) for name, row in shown]
        rows.append(("unknown" if label == "unknown" else f"{label} (unknown)", last))
        shares = ("precision", "recall", "f1")
        cells = [
            [name, *(f"{row[share]:.4f}" for share in shares), str(row["support"])]
            for name, row in rows
        ]
        return text_table(["class", *shares, "support"], cells) + note


def open_set_report(
    y_true: Any,
    y_pred: ArrayLike,
    y: ArrayLike | None = None,
    *,
    known: ArrayLike | None = None,
    unknown_label: Hashable = None,
) -> OpenSetReport:
    """Compute every measure of a prediction, and precision, recall and F1 per class.

    Call it as ``open_set_report(model, X, y)`` with a fitted estimator, samples and their true
    labels, or as ``open_set_report(y_true, y_pred, known=..., unknown_label=...)``.

    Parameters
    ----------
    y_true, y_pred
        As for :func:`accuracy_known`; with `y`, a fitted open-set estimator (or a Pipeline or a
        search of one) and X.
    y : array-like of shape (n,), default=None
        True labels of X; a label outside the classes of the estimator is unknown.
    known, unknown_label
        As for :func:`accuracy_known`; with `y`, those of the estimator.

    Returns
    -------
    OpenSetReport
        A dict whose ``str()`` is a table: the measures, then the ten classes with the lowest F1
        (``as_text(None)`` shows all). A measure is stored under the name of its function, an
        F-measure with ``_macro`` or ``_micro`` appended; ``"per_class"`` maps each known class,
        in the order of `known`, and finally `unknown_label`, to its precision, recall, f1 and
        support.

    Examples
    --------
    >>> from openset.metrics import open_set_report
    >>> report = open_set_report(
    ...     list("AAAABBCUUU"), list("AAUBBUUUAB"), known=list("ABC"), unknown_label="U"
    ... )
    >>> report["harmonic_normalized_accuracy"]
    0.375
    >>> print(report)
    measure                           value
    accuracy_known                   0.4286
    accuracy_unknown                 0.3333
    normalized_accuracy              0.3810
    harmonic_normalized_accuracy     0.3750
    false_unknown_rate               0.4286
    misclassification_rate           0.1429
    open_set_f1_macro                0.3333
    open_set_f1_micro                0.4615
    f1_with_unknown_macro            0.3226
    f1_with_unknown_micro            0.4000
    <BLANKLINE>
    class        precision  recall      f1  support
    A               0.6667  0.5000  0.5714        4
    B               0.3333  0.5000  0.4000        2
    C               0.0000  0.0000  0.0000        1
    U (unknown)     0.2500  0.3333  0.2857        3
    """
    if y is not None:
        if known is not None or unknown_label is not None:
            raise ValueError(
                "known and unknown_label are those of the estimator; leave them out of "
                "open_set_report(model, X, y)."
            )
        model = unwrap(y_true)
        check_is_fitted(model)
        known, unknown_label = model.classes_, model.unknown_label_
        y_true, y_pred = y, y_true.predict(y_pred)
    elif known is None or unknown_label is None:
        raise ValueError(
            "open_set_report(y_true, y_pred) also needs known and unknown_label, the classes_ and "
            "the unknown_label_ of the estimator; or call open_set_report(model, X, y)."
        )
    counts = OpenSetCounts.from_labels(y_true, y_pred, known, unknown_label)
    report = OpenSetReport({name: float(getattr(counts, name)()) for name in _MEASURES})
    for name, average in product(("open_set_f1", "f1_with_unknown"), ("macro", "micro")):
        report[f"{name}_{average}"] = float(getattr(counts, name)(average))
    if isinstance(unknown_label, np.generic):  # so that all keys are Python objects
        unknown_label = unknown_label.item()
    columns = {
        "precision": counts.precision,
        "recall": counts.recall,
        "f1": harmonic_mean(counts.precision, counts.recall),
        "support": counts.support,
    }
    rows = zip(*map(np.ndarray.tolist, columns.values()), strict=True)
    report["per_class"] = {
        label: dict(zip(columns, row, strict=True))
        for label, row in zip([*index_known(known), unknown_label], rows, strict=True)
    }
    return report
