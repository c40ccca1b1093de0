"""Thresholds of a fitted estimator, from samples that it was not fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from ..base import OpenSetClassifier
from ._curve import below, curve_of, is_gap
from ._gaps import width
from ._quantile import check_enough, rank_threshold

# How far above the score far away a threshold is raised, to bound the accepted region.
_MARGIN = 1e-3

# Scores closer than the band count as equal: those of equal samples may differ by rounding. It is
# _BAND and _SAFETY times the largest difference, over _LOOKUPS samples, between the score of a
# sample alone and in a batch.
_BAND = 1e-6
_SAFETY = 10.0
_LOOKUPS = 16


def settled_thresholds(
    model: OpenSetClassifier, transform: Callable, X, X_unknown, choose: Callable
) -> tuple[np.ndarray, Any]:
    """Thresholds (K,) that ``choose(scores, unknown_scores, band)`` returns, and what else it does.

    Where scores are exact near the thresholds only, it is asked again once they are nearly right.
    """
    n_classes = len(model.classes_)
    thresholds, Z = np.zeros(n_classes), transform(X)
    others = None if X_unknown is None else transform(X_unknown)
    for _ in range(1 if np.isinf(model.exact_band) else 2):
        moved = model.with_thresholds(thresholds)
        scores = finite_scores(moved, Z)
        band = _band(moved, transform, X, scores, thresholds)
        unknown = np.empty((0, n_classes))
        if others is not None:
            unknown = finite_scores(moved, others) + thresholds
        thresholds, more = choose(scores + thresholds, unknown, band)
    return thresholds, more


def _band(model, transform, X, scores, thresholds):
    """Difference below which two scores near the thresholds count as equal.

    Sums in single precision, of a kernel machine or of a wrapped classifier, depend on the number
    of samples in the batch. How much depends on the model, so it is measured.
    """
    best = scores.max(axis=1)
    # Those nearest to the thresholds; among equally near ones the scores, not the order, decide.
    rows = np.lexsort([*scores.T, np.abs(best)])[:_LOOKUPS]
    alone = np.vstack([finite_scores(model, transform(_safe_indexing(X, [i]))) for i in rows])
    noise = np.abs(alone.max(axis=1) - best[rows]).max()
    size = np.abs(scores + thresholds).max(axis=1)
    typical = np.median(size) or size.max() or 1.0
    return _BAND * min(1.0, typical) + _SAFETY * noise


def conformal_thresholds(
    scores: np.ndarray,
    codes: np.ndarray,
    alpha: float,
    per_class: bool,
    by: str,
    classes: np.ndarray,
    band: float,
    far: np.ndarray,
) -> np.ndarray:
    """Thresholds that reject a known sample with a probability of at most alpha, shape (K,).

    A sample is rejected if its highest score is below a common threshold. It is not if its own
    class accepts it, whatever the thresholds of the other classes. The calibration samples have the
    scores (n, K) and the class indices `codes`. The other parameters are those of
    CalibratedRejector.
    """
    counted = scores.max(axis=1) if by == "highest" else scores[np.arange(len(codes)), codes]
    if not per_class:
        return np.full(len(classes), rank_threshold(counted, alpha, band, far))
    groups = [counted[codes == c] for c in range(len(classes))]
    for label, group in zip(classes.tolist(), groups, strict=True):
        check_enough(alpha, len(group), f"of class {label!r}")
    each = zip(groups, far, strict=True)
    return np.array([rank_threshold(group, alpha, band, np.array([f])) for group, f in each])


def score_slack(model: OpenSetClassifier, transform: Callable, X, scores: np.ndarray) -> float:
    """Difference below which two scores count as equal; `scores` are those of X in one batch."""
    rows = np.unique(np.linspace(0, len(scores) - 1, _LOOKUPS).astype(int))
    alone = np.vstack([finite_scores(model, transform(_safe_indexing(X, [i]))) for i in rows])
    largest = max(1.0, np.abs(scores).max())
    return float(width(largest, 0.0) + 2 * np.abs(alone - scores[rows]).max())


def tradeoff_thresholds(
    scores: np.ndarray,
    codes: np.ndarray,
    alpha: float,
    criterion: str,
    band: float,
    far: np.ndarray,
) -> np.ndarray:
    """One threshold, K times, from the scores (n, K) of known and unknown samples.

    The criterion is "aus" or "hna"; `codes` are the class indices of the samples, K for unknown.
    """
    n_classes = scores.shape[1]
    curve = curve_of(codes, scores, np.arange(n_classes))
    separate = is_gap(curve.thresholds, band)
    best = int(np.where(separate, curve.hna, -1.0).argmax())
    if criterion == "aus":
        # Allow for the rounding error of 1 - 0.95.
        best = int(np.flatnonzero(separate & (1.0 - curve.aus <= alpha + 1e-12))[-1])
    if best == 0:
        raise ValueError(
            f"Only a threshold that rejects all known samples satisfies criterion={criterion!r} "
            f"with alpha={alpha:g}: the samples of X_unknown score too high. Raise alpha, or train "
            "a better estimator."
        )
    return np.full(n_classes, below(curve.thresholds, best, far))


def resolve_conflict(
    thresholds: np.ndarray,
    far: np.ndarray,
    classes: np.ndarray,
    prefer: str,
    point: str,
    stacklevel: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Resolve the conflict of thresholds (K,) that are too low to bound the accepted region.

    `far` are the scores far away from all samples, inf where they are not known; `point` describes
    the operating point in the message. Return the thresholds and which of them were lifted.
    """
    conflict = (thresholds <= far) & np.isfinite(far)
    if prefer == "bounded" and np.any(far == np.inf):
        raise ValueError(
            "prefer='bounded', but the scores of the estimator far away from all samples are not "
            "known, so no threshold is known to bound what it accepts. Use prefer='promise', or an "
            "estimator with bounded regions."
        )
    if not conflict.any():
        return thresholds, conflict
    where = f"the classes {classes[conflict].tolist()!r}"
    if prefer == "bounded":
        message = (
            f"The thresholds of {where} were lifted to keep their regions bounded: the operating "
            f"point ({point}) is not kept. See promise_ and lifted_."
        )
        thresholds = np.where(conflict, far + _MARGIN, thresholds)
    else:
        message = (
            f"At the operating point ({point}) {where} accept samples however far away: bounded_ "
            "is False for them. Use prefer='bounded' to raise their thresholds, or a larger "
            "alpha."
        )
    warnings.warn(message, stacklevel=stacklevel + 1)
    return thresholds, conflict & (prefer == "bounded")


def finite_scores(model: OpenSetClassifier, Z) -> np.ndarray:
    """Scores of transformed samples; ValueError if one is not finite."""
    scores = model.decision_function(Z)
    if not np.isfinite(scores).all():
        raise ValueError(
            f"decision_function of {type(model).__name__} gives scores that are not finite; an "
            "open-set estimator never does. Run check_open_set_estimator on it."
        )
    return scores
