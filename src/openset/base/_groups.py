"""One answer per object: a track, a session, a document whose samples are alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils import answer_labels, decide, unwrap
from ._validation import group_codes

AGGREGATES = ("mean", "median", "votes")


def predict_groups(
    model: Any, X: Any, groups: Any, *, aggregate: str | None = None, categories: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Answer each group of samples once: a class, or unknown.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d), or whatever the model takes
    groups : array-like of shape (n,)
        The object of each sample: a track, a speaker, a session.
    aggregate : {"mean", "median", "votes"}, default=None
        As for :func:`group_scores`. None is that of the ``KnownRejected(aggregate=...)`` which the
        model was calibrated for, or else "mean".
    categories : array-like of shape (n,), default=None
        As for :meth:`CalibratedRejector.predict`.

    Returns
    -------
    names : ndarray of shape (G,)
        The groups, sorted.
    answers : ndarray of shape (G,)
        The answer to each.

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.base import predict_groups
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> X_new = [[0, 0.4], [0, 0.6], [2, 2], [9, 9], [5, 5.5]]
    >>> names, answers = predict_groups(model, X_new, ["a", "a", "a", "b", "c"])
    >>> dict(zip(names.tolist(), answers.tolist(), strict=True))
    {'a': 'left', 'b': 'unknown', 'c': 'right'}
    """
    final = unwrap(model)
    calibrated = getattr(getattr(final, "criterion_", None), "aggregate", None)
    given = {} if categories is None else {"categories": categories}
    scores = model.decision_function(X, **given)
    names, scores = group_scores(scores, groups, aggregate=aggregate or calibrated or "mean")
    return names, answer_labels(final.classes_, final.unknown_label_)[decide(scores)]


def group_scores(
    scores: np.ndarray, groups: Any, *, aggregate: str = "mean"
) -> tuple[np.ndarray, np.ndarray]:
    """Acceptance scores of groups from those of their samples.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Of ``decision_function``; 0 or more accepts, also for the result.
    groups : array-like of shape (n,)
        The object of each sample.
    aggregate : {"mean", "median", "votes"}, default="mean"
        "mean" and "median": of the scores of the samples, class by class. "votes": the share of a
        class among the answers to the samples, less that of unknown; so the most frequent answer
        wins, of equally frequent ones the first class, and unknown last.

    Returns
    -------
    names : ndarray of shape (G,)
        The groups, sorted.
    scores : ndarray of shape (G, K)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import group_scores
    >>> group_scores(np.array([[1.0, -1.0], [3.0, -1.0], [-1.0, -2.0]]), ["a", "a", "b"])
    (array(['a', 'b'], dtype='<U1'), array([[ 2., -1.],
           [-1., -2.]]))
    """
    if aggregate not in AGGREGATES:
        raise ValueError(f"aggregate={aggregate!r} must be one of {', '.join(AGGREGATES)}.")
    names, codes = group_codes(groups, len(scores))
    if aggregate == "median":
        parts = [np.median(scores[codes == g], axis=0) for g in range(len(names))]
        return names, np.stack(parts)
    sums = scores
    if aggregate == "votes":
        votes = np.eye(scores.shape[1] + 1)[decide(scores)]
        sums = votes[:, :-1] - votes[:, -1:]
    totals = np.zeros((len(names), scores.shape[1]))
    np.add.at(totals, codes, sums)
    return names, totals / np.bincount(codes)[:, None]
