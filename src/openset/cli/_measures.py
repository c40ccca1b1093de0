"""Answers and measures from the acceptance scores of a model, computed once."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from openset import metrics
from openset.utils import answer_labels, decide


def answers_of(final: BaseEstimator, scores: np.ndarray) -> np.ndarray:
    """The answers to (n, K) acceptance scores: what ``predict`` makes of them.

    Parameters
    ----------
    final : estimator
        The open-set estimator itself, unwrapped.
    scores : ndarray of shape (n, K)

    Returns
    -------
    ndarray of shape (n,)
    """
    return answer_labels(final.classes_, final.unknown_label_)[decide(scores)]


def measures(truth: np.ndarray, scores: np.ndarray, final: BaseEstimator) -> dict[str, float]:
    """Every measure that is defined for these rows.

    Parameters
    ----------
    truth : ndarray of shape (n,)
        True labels; what is no class of the model is unknown.
    scores : ndarray of shape (n, K)
        Acceptance scores.
    final : estimator
        The open-set estimator itself, unwrapped.

    Returns
    -------
    dict {str: float}
        By the names of the functions of openset.metrics. Measures of unknown rows are left out
        where there are none, and so are those of known rows.
    """
    known = final.classes_
    answers = answers_of(final, scores)
    report = metrics.open_set_report(
        truth, answers, known=known, unknown_label=final.unknown_label_
    )
    found = {name: value for name, value in report.items() if isinstance(value, float)}
    known_score = scores.max(axis=1)
    found["auroc_known"] = metrics.auroc_known(truth, known_score, known=known)
    found["fpr_at_tpr"] = metrics.fpr_at_tpr(truth, known_score, known=known)
    found["oscr_area"] = metrics.oscr_area(truth, scores, known=known)
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}
