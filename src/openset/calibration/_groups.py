"""One answer per object: a track, a session, a document whose samples are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length

from ..utils import answer_labels, decide, unwrap

AGGREGATES = ("mean", "median", "votes")


def predict_groups(
    model: Any, X: Any, groups: Any, *, aggregate: str = "mean"
) -> tuple[np.ndarray, np.ndarray]:
    """Answer each group of samples once: a class, or unknown.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d), or whatever the model takes
    groups : array-like of shape (n,)
        The object of each sample: a track, a speaker, a session.
    aggregate : {"mean", "median", "votes"}, default="mean"
        "mean" and "median": of the scores of the samples, class by class; then the decision rule.
        "votes": the most frequent answer of the samples, unknown being one; of equally frequent
        ones the first class, and unknown last.

    Returns
    -------
    names : ndarray of shape (G,)
        The groups, sorted.
    answers : ndarray of shape (G,)
        The answer to each.

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.calibration import predict_groups
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> X_new = [[0, 0.4], [0, 0.6], [2, 2], [9, 9], [5, 5.5]]
    >>> names, answers = predict_groups(model, X_new, ["a", "a", "a", "b", "c"])
    >>> dict(zip(names.tolist(), answers.tolist(), strict=True))
    {'a': 'left', 'b': 'unknown', 'c': 'right'}
    """
    if aggregate not in AGGREGATES:
        raise ValueError(f"aggregate={aggregate!r} must be one of {', '.join(AGGREGATES)}.")
    final = unwrap(model)
    scores = model.decision_function(X)
    check_consistent_length(scores, groups)
    names, inverse = np.unique(np.asarray(groups), return_inverse=True)
    codes = decide(group_scores(scores, inverse, aggregate))
    return names, answer_labels(final.classes_, final.unknown_label_)[codes]


def group_scores(scores: np.ndarray, groups: np.ndarray, aggregate: str) -> np.ndarray:
    """Scores (G, K) of groups from those of their samples, (n, K); groups are 0 to G - 1.

    With votes the score of a class is its share of the answers less that of unknown.
    """
    n_groups, n_classes = int(groups.max()) + 1, scores.shape[1]
    if aggregate == "mean":
        sums = np.zeros((n_groups, n_classes))
        np.add.at(sums, groups, scores)
        return sums / np.bincount(groups)[:, None]
    if aggregate == "median":
        return np.stack([np.median(scores[groups == g], axis=0) for g in range(n_groups)])
    votes = np.zeros((n_groups, n_classes + 1))
    np.add.at(votes, (groups, decide(scores)), 1)
    votes /= np.bincount(groups)[:, None]
    return votes[:, :-1] - votes[:, -1:]
