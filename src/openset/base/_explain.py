"""Explanations: what each sample is nearest to, and by how much it misses acceptance."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, gen_batches, indexable
from sklearn.utils.validation import _num_samples

from ..utils import answer_labels, decide, split_fitted
from ..utils.distances import DistancesTo, row_blocks
from ._certificate import Certificate
from ._validation import validate_samples

if TYPE_CHECKING:
    import pandas

# Samples per batch: their scores are in memory at the same time.
_ROWS = 4096


def explain(estimator: BaseEstimator, X: Any) -> pandas.DataFrame:
    """Explain each answer in a table.

    Parameters
    ----------
    estimator : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d)
        Samples, or whatever the estimator takes.

    Returns
    -------
    DataFrame of n rows
        With the index of X, if that is a DataFrame, and the columns

        answer
            What ``predict`` answers.
        nearest_class, score
            The class with the highest score, accepted or not, and that score.
        deficit
            How far the score is below 0, the threshold of acceptance; 0 for accepted samples.
        similar, distance
            Row, in the X of fit, of the nearest training sample among those that the method keeps
            (support vectors, extreme vectors, all neighbours), and its distance in the metric of
            the method. Missing if it keeps none.
        region_gap
            A lower bound of the distance from the sample to everything that any class accepts, by
            the certificate ``known_radius_``: the smallest :meth:`Certificate.margin` over the
            classes, or 0, which says nothing, where that is negative. Missing for a method without
            certificate.
        runner_up, margin
            The class with the second highest score, and by how much that is lower. Missing for a
            model of one class. A small margin means that the answer is ambiguous.
        reason
            The answer in words: which class accepts, or that several do, or which one is nearest.

    Notes
    -----
    Behind a Pipeline all distances are measured in the transformed space, the input of its last
    step.

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.base import explain
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> table = explain(model, [[0, 0.5], [9, 9]])
    >>> table[["answer", "nearest_class", "similar", "distance"]]
        answer nearest_class  similar  distance
    0     left          left        0       0.5
    1  unknown         right        3       5.0
    >>> table.reason[0]
    'accepted by left'
    >>> bool(table.region_gap[1] > 1)  # no accepted sample is nearer to (9, 9) than this
    True
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            'explain gives a table and needs pandas; run: pip install "openset[data]"',
            name=error.name,
        ) from error
    transform, model = split_fitted(estimator)
    surroundings = model.surroundings()
    (X,) = indexable(X)  # a COO matrix has no rows to take

    def columns(rows):
        block = transform(_safe_indexing(X, rows))
        scores = model.decision_function(block)
        return decide(scores), *best_two(scores), *surroundings(block)

    # Without any samples there is still one block, so that the estimator can complain.
    parts = [columns(rows) for rows in gen_batches(max(1, _num_samples(X)), _ROWS)]
    answer, best, second, score, margin, n_accept, similar, distance, gap = map(
        np.concatenate, zip(*parts, strict=True)
    )
    labels = answer_labels(model.classes_, model.unknown_label_)
    runner_up = labels[second].astype(object)
    if len(labels) == 2:  # one class
        runner_up[:] = None
    reasons = zip(labels[best], labels[second], score, n_accept, gap, strict=True)
    return pd.DataFrame(
        {
            "answer": labels[answer],
            "nearest_class": labels[best],
            "score": score,
            "deficit": np.maximum(0.0, -score),
            "similar": pd.arrays.IntegerArray(similar.astype(np.int64), similar < 0),
            "distance": distance,
            "region_gap": gap,
            "runner_up": runner_up,
            "margin": margin,
            "reason": [_reason(*row) for row in reasons],
        },
        index=X.index if isinstance(X, pd.DataFrame | pd.Series) else None,
    )


def best_two(scores: np.ndarray) -> tuple[np.ndarray, ...]:
    """Rank the classes of each sample: best, second, score, margin and n_accept, each (n,).

    With one class the second is the first, and the margin NaN.
    """
    rows = np.arange(len(scores))
    best = scores.argmax(axis=1)
    score, n_accept = scores[rows, best], (scores >= 0).sum(axis=1)
    if scores.shape[1] == 1:
        return best, best, score, np.full(len(scores), np.nan), n_accept
    others = scores.copy()
    others[rows, best] = -np.inf
    second = others.argmax(axis=1)
    return best, second, score, score - others[rows, second], n_accept


def _reason(nearest, second, score, n_accept, gap) -> str:
    """The words of :class:`openset.base.PredictionExplainer`, for one sample."""
    if n_accept == 1:
        return f"accepted by {nearest}"
    if n_accept:
        count = "two" if n_accept == 2 else n_accept
        return f"{count} classes accept: {nearest} before {second}"
    far = "; outside every certificate" if gap > 0 else ""
    return f"none accepts; nearest is {nearest}; missed by {round(max(-score, 1e-4), 4)}{far}"


def surroundings_of(model: BaseEstimator) -> Callable:
    """``surroundings`` of a fitted open-set classifier, by its ``kept_samples``.

    Those of a model with ``known_radius_`` are its support vectors.
    """
    kept = model.kept_samples()
    if kept is None:
        return _nothing_around
    vectors, index, metric = kept
    certificate = Certificate(model) if hasattr(model, "known_radius_") else None
    distances = DistancesTo(vectors, metric)

    def surroundings(X):
        X = validate_samples(model, X, accept_sparse="csr")
        n = X.shape[0]
        nearest, distance, gap = np.empty(n, dtype=np.intp), np.empty(n), np.full(n, np.nan)
        for rows in row_blocks(0, n, vectors.shape[0]):
            d = distances(X[rows])
            nearest[rows] = d.argmin(axis=1)
            distance[rows] = d.min(axis=1)
            if certificate is not None:
                gap[rows] = np.maximum(0.0, certificate._margin_of(d)).min(axis=1)
        return index[nearest], distance, gap

    return surroundings


def _nothing_around(X):
    """The surroundings of samples where no training sample is kept."""
    missing = np.full(_num_samples(X), np.nan)
    return np.full(len(missing), -1), missing, missing
