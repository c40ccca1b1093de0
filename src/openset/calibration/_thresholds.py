"""Thresholds of a fitted estimator, from samples that it was not fitted to."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.utils import _safe_indexing

from ..base import OpenSetClassifier
from ._curve import between, curve_of
from ._quantile import check_enough, kth_smallest

# How far above the score far away a threshold is raised, to bound the accepted region.
_MARGIN = 1e-3

# Slack of a threshold: the rounding error of double precision, plus _SAFETY times the largest
# difference, over _LOOKUPS samples, between the score of a sample alone and in a batch.
_ROUNDING = 1e-12
_SAFETY = 10.0
_LOOKUPS = 16


def conformal_thresholds(
    model: OpenSetClassifier,
    transform: Callable,
    X,
    codes: np.ndarray,
    alpha: float,
    per_class: bool,
    by: str,
) -> np.ndarray:
    """Thresholds that reject a known sample with a probability of at most alpha, shape (K,).

    A sample is rejected if its highest score is below a common threshold. It is not if its own
    class accepts it, whatever the thresholds of the other classes. The calibration samples X have
    the class indices `codes`; `transform` maps X to the input of the model. The other parameters
    are those of CalibratedRejector.
    """
    groups = [np.arange(len(codes))]
    if per_class:
        groups = [np.flatnonzero(codes == c) for c in range(len(model.classes_))]
        for label, rows in zip(model.classes_.tolist(), groups, strict=True):
            check_enough(alpha, len(rows), f"of class {label!r}")
    thresholds = np.zeros(len(model.classes_))

    def counting(Z, codes):
        moved = model.with_thresholds(thresholds)
        scores = finite_scores(moved, Z)
        return scores.max(axis=1) if by == "highest" else scores[np.arange(len(codes)), codes]

    Z = transform(X)
    # Where scores are exact near the threshold only, repeat once the threshold is nearly right.
    for _ in range(1 if np.isinf(model.exact_band) else 2):
        scores = counting(Z, codes)
        thresholds += [kth_smallest(scores[rows], alpha) for rows in groups]
    scores = counting(Z, codes)

    def alone(i):
        return counting(transform(_safe_indexing(X, [i])), codes[[i]])[0]

    rounding = _ROUNDING * max(1.0, np.abs(thresholds).max())
    return thresholds - rounding - _SAFETY * _noise(scores, alone, model.exact_band)


def _noise(scores, alone, exact_band):
    """Largest difference between batches of scores near the thresholds.

    Sums in single precision, of a kernel machine or of a wrapped classifier, depend on the number
    of samples in the batch. How much depends on the model, so it is measured.
    """
    nearest = np.argsort(np.abs(scores))[:_LOOKUPS]
    nearest = nearest[np.abs(scores[nearest]) <= exact_band]
    return max(abs(alone(i) - scores[i]) for i in nearest)


def score_slack(model: OpenSetClassifier, transform: Callable, X, scores: np.ndarray) -> float:
    """Difference below which two scores count as equal; `scores` are those of X in one batch."""
    rows = np.unique(np.linspace(0, len(scores) - 1, _LOOKUPS).astype(int))
    alone = np.vstack([finite_scores(model, transform(_safe_indexing(X, [i]))) for i in rows])
    largest = max(1.0, np.abs(scores).max())
    return float(_ROUNDING * largest + 2 * np.abs(alone - scores[rows]).max())


def tradeoff_thresholds(
    scores: np.ndarray, codes: np.ndarray, alpha: float, criterion: str
) -> np.ndarray:
    """One threshold, K times, from the scores (n, K) of known and unknown samples.

    The criterion is "aus" or "hna"; `codes` are the class indices of the samples, K for unknown.
    """
    n_classes = scores.shape[1]
    curve = curve_of(codes, scores, np.arange(n_classes))
    best = int(curve.hna.argmax())
    if criterion == "aus":
        # Allow for the rounding error of 1 - 0.95.
        best = int(np.flatnonzero(1.0 - curve.aus <= alpha + 1e-12)[-1])
    if best == 0:
        raise ValueError(
            f"Only a threshold that rejects all known samples satisfies criterion={criterion!r} "
            f"with alpha={alpha:g}: the samples of X_unknown score too high. Raise alpha, or train "
            "a better estimator."
        )
    return np.full(n_classes, between(curve.thresholds, best))


def resolve_conflict(
    thresholds: np.ndarray, far: np.ndarray, classes: np.ndarray, prefer: str, point: str
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
    warnings.warn(message, stacklevel=4)  # to the caller of fit, behind scikit-learn's decorator
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
