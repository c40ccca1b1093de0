"""Labels as integers, and the measures as functions of counts and of scores.

Code ``k < K`` is the k-th class of `known`, code ``K`` is unknown. Labels are looked up in a dict
and never converted to a common array type, so ``1`` and ``"1"`` stay different and large integers
are not rounded.

Three counts per class are enough for every measure of a prediction. They may carry leading
axes: a search encodes its labels once and counts all its grid cells together. Measures over all
thresholds need the scores themselves: how well do they separate known from unknown samples?
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import repeat
from numbers import Real

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


def ratio(numerator: ArrayLike, denominator: ArrayLike, undefined: float) -> NDArray[np.float64]:
    """Divide; where the denominator is 0, the result is `undefined`, without a warning."""
    numerator, denominator = np.asarray(numerator), np.asarray(denominator)
    out = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), undefined)
    return np.divide(numerator, denominator, out=out, where=denominator != 0)


def harmonic_mean(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return the harmonic mean of two non-negative arrays, element by element.

    Parameters
    ----------
    a, b : array-like
        Values >= 0 of broadcastable shapes.

    Returns
    -------
    ndarray
        0 where either value is 0, NaN where either is NaN.

    Examples
    --------
    >>> from openset.metrics import harmonic_mean
    >>> harmonic_mean([1.0, 0.5, 0.0], [0.5, 0.5, 0.0])
    array([0.66666667, 0.5       , 0.        ])
    """
    a, b = np.asarray(a), np.asarray(b)
    return ratio(2 * a * b, a + b, 0.0)


@dataclass(frozen=True)
class OpenSetCounts:
    """Number of samples per class, from which every measure of a prediction follows.

    All arrays have shape (..., K + 1); the last entry is unknown. Leading axes stand for several
    predictions of the same truth, and every measure keeps them. The methods are the functions of
    the same names in :mod:`openset.metrics`, without the encoding of labels.

    Parameters
    ----------
    hit, predicted, support : ndarray
        Samples of the class that were predicted as it, samples predicted as the class, and
        samples of the class.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.metrics import OpenSetCounts, encode_labels
    >>> from openset.utils import decide
    >>> true = encode_labels(["a", "b", "x"], classes=["a", "b"])
    >>> scores = np.array([[0.5, -0.2], [0.1, 0.3], [0.2, -0.1]])
    >>> thresholds = np.array([0.0, 0.25])
    >>> answers = decide(scores - thresholds[:, np.newaxis, np.newaxis])
    >>> counts = OpenSetCounts.from_codes(true, answers, n_known=2)
    >>> counts.accuracy_unknown()
    array([0., 1.])
    """

    hit: NDArray[np.intp]
    predicted: NDArray[np.intp]
    support: NDArray[np.intp]

    @classmethod
    def from_codes(
        cls, true: NDArray[np.intp], pred: NDArray[np.intp], n_known: int
    ) -> OpenSetCounts:
        """Count codes 0, ..., K.

        Parameters
        ----------
        true : ndarray of shape (n,)
            Codes of the true labels, from :func:`encode_labels`.
        pred : ndarray of shape (..., n)
            Codes of any number of predictions of the same truth, from
            :func:`openset.utils.decide`.
        n_known : int
            K; code K is unknown.

        Returns
        -------
        OpenSetCounts
        """
        size = n_known + 1
        rows = pred.reshape(-1, pred.shape[-1])
        # Each class of each prediction gets two bins, for wrong and right: one bincount serves all.
        bins = 2 * rows + (rows == true)
        bins += 2 * size * np.arange(len(rows))[:, np.newaxis]
        counts = np.bincount(bins.ravel(), minlength=2 * size * len(rows))
        counts = counts.reshape(*pred.shape[:-1], size, 2)
        hit, predicted = counts[..., 1], counts.sum(axis=-1)
        return cls(hit, predicted, np.bincount(true, minlength=size))

    @classmethod
    def from_labels(
        cls, y_true: ArrayLike, y_pred: ArrayLike, known: ArrayLike, unknown_label: Hashable
    ) -> OpenSetCounts:
        """Check, encode and count labels.

        Parameters
        ----------
        y_true, y_pred, known, unknown_label
            As for the functions of :mod:`openset.metrics`.

        Returns
        -------
        OpenSetCounts
        """
        return cls.from_codes(*encode(y_true, y_pred, known, unknown_label))

    @property
    def precision(self) -> NDArray[np.float64]:
        """Precision per class; 0 for a class never predicted."""
        return ratio(self.hit, self.predicted, 0.0)

    @property
    def recall(self) -> NDArray[np.float64]:
        """Recall per class; 0 for a class absent from the truth."""
        return ratio(self.hit, self.support, 0.0)

    def _known(self, count: NDArray[np.intp]) -> NDArray[np.intp]:
        return count[..., :-1].sum(axis=-1)

    def accuracy_known(self) -> NDArray[np.float64]:
        """AKS, pooled over samples.

        Returns
        -------
        ndarray
        """
        return ratio(self._known(self.hit), self._known(self.support), np.nan)

    def accuracy_unknown(self) -> NDArray[np.float64]:
        """AUS.

        Returns
        -------
        ndarray
        """
        return ratio(self.hit[..., -1], self.support[..., -1], np.nan)

    def normalized_accuracy(self, weight: float = 0.5) -> NDArray[np.float64]:
        """NA.

        Parameters
        ----------
        weight : float, default=0.5
            The regulator lambda_r.

        Returns
        -------
        ndarray
        """
        return weight * self.accuracy_known() + (1 - weight) * self.accuracy_unknown()

    def harmonic_normalized_accuracy(self) -> NDArray[np.float64]:
        """HNA.

        Returns
        -------
        ndarray
        """
        return harmonic_mean(self.accuracy_known(), self.accuracy_unknown())

    @property
    def _false_unknown(self) -> NDArray[np.intp]:
        return self.predicted[..., -1] - self.hit[..., -1]

    def false_unknown_rate(self) -> NDArray[np.float64]:
        """FU.

        Returns
        -------
        ndarray
        """
        return ratio(self._false_unknown, self._known(self.support), np.nan)

    def misclassification_rate(self) -> NDArray[np.float64]:
        """MIS.

        Returns
        -------
        ndarray
        """
        confused = self._known(self.support) - self._known(self.hit) - self._false_unknown
        return ratio(confused, self._known(self.support), np.nan)

    def open_set_f1(self, average: str = "macro") -> NDArray[np.float64]:
        """OSFM: the known classes only.

        Parameters
        ----------
        average : {"macro", "micro"}, default="macro"

        Returns
        -------
        ndarray
        """
        return self._f_measure(average, slice(None, -1))

    def f1_with_unknown(self, average: str = "macro") -> NDArray[np.float64]:
        """FM: unknown counts as one more class.

        Parameters
        ----------
        average : {"macro", "micro"}, default="macro"

        Returns
        -------
        ndarray
        """
        return self._f_measure(average, slice(None))

    def _f_measure(self, average: str, classes: slice) -> NDArray[np.float64]:
        if average == "macro":  # the F of the means, not the mean of the F's
            precision = self.precision[..., classes].mean(axis=-1)
            return harmonic_mean(precision, self.recall[..., classes].mean(axis=-1))
        if average == "micro":  # TP + FP are the predicted samples, TP + FN the true ones
            hit, predicted, support = (
                count[..., classes].sum(axis=-1)
                for count in (self.hit, self.predicted, self.support)
            )
            return ratio(2 * hit, predicted + support, 0.0)
        raise ValueError(f"average={average!r} must be 'macro' or 'micro'.")


def check_scores(scores: ArrayLike, shape: tuple[int, ...], remedy: str) -> NDArray[np.float64]:
    refuse_masked("scores", scores)
    try:
        scores = np.asarray(scores, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"scores must be numbers in an array of shape {shape}.") from None
    if scores.shape != shape:
        raise ValueError(f"scores has shape {scores.shape}, expected {shape}: {remedy}.")
    if not np.isfinite(scores).all():
        raise ValueError("scores contains NaN or infinity; scores must be finite.")
    return scores


def _known_scores(
    y_true: ArrayLike, scores: ArrayLike, known: ArrayLike
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which samples are known, and their scores, both of shape (n,)."""
    index = index_known(known)
    is_known = encode_true(y_true, index) < len(index)
    remedy = "pass one known_score per sample of y_true"
    return is_known, check_scores(scores, is_known.shape, remedy)


def acceptance_curve(
    scores: NDArray[np.float64], *groups: NDArray[np.bool_]
) -> tuple[NDArray, ...]:
    """Count the samples of each group with score >= threshold, at every distinct threshold."""
    # Thresholds descend from infinity (nothing is accepted) through the distinct scores, so tied
    # samples are accepted together.
    order = np.argsort(-scores, kind="stable")
    descending = scores[order]
    last = np.flatnonzero(np.append(np.diff(descending) != 0, True))
    accepted = (np.append(0, np.cumsum(group[order])[last]) for group in groups)
    return (np.append(np.inf, descending[last]), *accepted)


def auroc_known(y_true: ArrayLike, scores: ArrayLike, *, known: ArrayLike) -> float:
    """Area under the ROC curve of known against unknown samples.

    It is the probability that a known sample scores higher than an unknown one; ties count half.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels. A label outside `known` is unknown, whatever it is.
    scores : array-like of shape (n,)
        Larger is more known, for example ``known_score(X)`` of the estimator.
    known : array-like of shape (K,)
        The known classes, for example ``classes_`` of the estimator.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is known or none is unknown.

    Examples
    --------
    >>> from openset.metrics import auroc_known
    >>> auroc_known(["a", "b", "x", "y"], [0.9, 0.4, 0.5, -1.0], known=["a", "b"])
    0.75
    """
    is_known, scores = _known_scores(y_true, scores, known)
    _, accepted_known, accepted_unknown = acceptance_curve(scores, is_known, ~is_known)
    pairs = accepted_known[-1] * accepted_unknown[-1]
    return float(ratio(np.trapezoid(accepted_known, accepted_unknown), pairs, np.nan))


def fpr_at_tpr(
    y_true: ArrayLike, scores: ArrayLike, *, known: ArrayLike, tpr: float = 0.95
) -> float:
    """Share of unknown samples accepted when a share `tpr` of the known samples is.

    The threshold is the highest score at which at least `tpr` of the known samples are accepted
    (score >= threshold).

    Parameters
    ----------
    y_true, scores, known
        As for :func:`auroc_known`.
    tpr : float, default=0.95
        Share of known samples to accept, in (0, 1].

    Returns
    -------
    float
        In [0, 1], smaller is better; NaN when no sample is known or none is unknown.

    Examples
    --------
    >>> from openset.metrics import fpr_at_tpr
    >>> fpr_at_tpr(["a", "b", "x", "y"], [0.9, 0.4, 0.5, -1.0], known=["a", "b"])
    0.5
    """
    if not (isinstance(tpr, Real) and 0 < tpr <= 1):
        raise ValueError(f"tpr={tpr!r} must be a number in (0, 1].")
    is_known, scores = _known_scores(y_true, scores, known)
    n_known = np.count_nonzero(is_known)
    if n_known in (0, len(scores)):
        return float("nan")
    # k / n against tpr, not k against tpr * n: 0.07 * 100 > 7 in floating point.
    k = np.searchsorted(np.arange(1, n_known + 1) / n_known, tpr)
    threshold = np.sort(scores[is_known])[::-1][k]
    return float(np.mean(scores[~is_known] >= threshold))


def oscr_curve(
    y_true: ArrayLike, scores: ArrayLike, *, known: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Open-set classification rate: correct knowns against accepted unknowns, per threshold.

    A sample is accepted when its highest score reaches the threshold; a known sample counts when
    it is accepted and the highest score is that of its class (the first class on ties).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        True labels. A label outside `known` is unknown, whatever it is.
    scores : array-like of shape (n, K)
        Scores of the classes, columns in the order of `known`, for example
        ``decision_function(X)`` of the estimator.
    known : array-like of shape (K,)
        The known classes, for example ``classes_`` of the estimator.

    Returns
    -------
    fpr : ndarray of shape (n_thresholds,)
        Share of the unknown samples that are accepted, from 0 to 1; NaN if there are none.
    ccr : ndarray of shape (n_thresholds,)
        Share of the known samples that are accepted and correct, from 0 to the closed-set
        accuracy; NaN if there are none.
    thresholds : ndarray of shape (n_thresholds,)
        Descending; the first is infinite.

    Examples
    --------
    >>> from openset.metrics import oscr_curve
    >>> scores = [[0.9, 0.1], [0.7, 0.2], [0.3, 0.5]]
    >>> fpr, ccr, thresholds = oscr_curve(["a", "x", "b"], scores, known=["a", "b"])
    >>> fpr
    array([0., 0., 1., 1.])
    >>> ccr
    array([0. , 0.5, 0.5, 1. ])
    >>> thresholds
    array([inf, 0.9, 0.7, 0.5])
    """
    index = index_known(known)
    true = encode_true(y_true, index)
    shape = (len(true), len(index))
    scores = check_scores(scores, shape, "one row per sample of y_true, one column per class")
    unknown = true == len(index)
    correct = scores.argmax(axis=1) == true
    thresholds, accepted_correct, accepted_unknown = acceptance_curve(
        scores.max(axis=1), correct, unknown
    )
    fpr = ratio(accepted_unknown, np.count_nonzero(unknown), np.nan)
    ccr = ratio(accepted_correct, np.count_nonzero(~unknown), np.nan)
    return fpr, ccr, thresholds


def oscr_area(y_true: ArrayLike, scores: ArrayLike, *, known: ArrayLike) -> float:
    """Area under the open-set classification rate curve.

    It is the probability that a known sample is classified correctly and scores higher than an
    unknown one; ties count half. It equals `auroc_known` if every known sample is classified
    correctly.

    Parameters
    ----------
    y_true, scores, known
        As for :func:`oscr_curve`.

    Returns
    -------
    float
        In [0, 1]; NaN when no sample is known or none is unknown.

    Examples
    --------
    >>> from openset.metrics import oscr_area
    >>> scores = [[0.9, 0.1], [0.7, 0.2], [0.3, 0.5]]
    >>> oscr_area(["a", "x", "b"], scores, known=["a", "b"])
    0.5
    """
    fpr, ccr, _ = oscr_curve(y_true, scores, known=known)
    return float(np.trapezoid(ccr, fpr))
