"""Measures of how well scores separate known from unknown samples, over all thresholds."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..utils import refuse_masked
from ._counts import encode_true, index_known, ratio


def _check_scores(scores: ArrayLike, shape: tuple[int, ...], remedy: str) -> NDArray[np.float64]:
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
    return is_known, _check_scores(scores, is_known.shape, remedy)


def _acceptance_curve(
    scores: NDArray[np.float64], *groups: NDArray[np.bool_]
) -> tuple[NDArray, ...]:
    """Count the samples of each group with score >= threshold, at every distinct threshold.

    Thresholds descend from infinity (nothing is accepted) through the distinct scores, so tied
    samples are accepted together.
    """
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
    _, accepted_known, accepted_unknown = _acceptance_curve(scores, is_known, ~is_known)
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
    scores = _check_scores(scores, shape, "one row per sample of y_true, one column per class")
    unknown = true == len(index)
    correct = scores.argmax(axis=1) == true
    thresholds, accepted_correct, accepted_unknown = _acceptance_curve(
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
