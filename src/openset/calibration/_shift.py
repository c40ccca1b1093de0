"""Scores under moved thresholds.

Where the score of a class is a kernel expansion plus a bias, a threshold is moved by moving the
bias. Then all that is true of the estimator at zero is true at the new place: decision values near
it are computed in double precision, so that rounding never decides an answer, and the certificate
holds. Elsewhere the threshold is subtracted.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from ..base import OpenSetClassifier
from ..base._machines import known_radius
from ..base._one_vs_rest import OneVsRestSVM
from ..kernels import get_kernel


def is_expansion(model: OpenSetClassifier) -> bool:
    """Whether the scores are kernel expansions, thresholds included in the bias."""
    return isinstance(model, OneVsRestSVM) and hasattr(model, "known_radius_")


def move_bias(model: OneVsRestSVM, thresholds: np.ndarray) -> OneVsRestSVM:
    """A copy, sharing its arrays, that accepts where the model scores at least the thresholds."""
    moved = copy(model)
    moved.intercept_ = model.intercept_ - thresholds
    moved.known_radius_ = known_radius(
        moved.dual_coef_, moved.intercept_, get_kernel(moved.kernel), moved.gamma_
    )
    moved.bounded_ = np.isfinite(moved.known_radius_)
    return moved


def move(model: OpenSetClassifier, X, thresholds: np.ndarray) -> np.ndarray:
    """Scores of X less the thresholds, shape (n, K)."""
    if is_expansion(model):
        return move_bias(model, thresholds).decision_function(X)
    return model.decision_function(X) - thresholds


def far_scores(model: OpenSetClassifier) -> np.ndarray:
    """Limit superior of the scores far away from all samples, shape (K,); inf where not known."""
    if is_expansion(model):
        return np.where(get_kernel(model.kernel).decaying, model.intercept_, np.inf)
    return model._far_scores()
