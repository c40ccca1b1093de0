"""Why unknown: what each sample is nearest to, and what it lacks to be accepted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import _safe_indexing, gen_batches
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..utils import answer_labels, decide, split_fitted
from ..utils.distances import DistancesTo, row_blocks

# Samples whose scores are held at a time.
_ROWS = 4096

# (X) -> similar, distance, region_gap, each of shape (n,): what distances tell of samples.
Surroundings = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


def explain(estimator: BaseEstimator, X):
    """Why each sample was answered as it was, as a table.

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
            What the score lacks to 0, at which the class accepts; 0 for what is accepted.
        similar, distance
            Row, in the X that the estimator was fitted to, of the most similar training sample
            among those that the method keeps (support vectors, extreme vectors, all neighbours),
            and how far away it is in the metric of the method. Missing if it keeps none.
        region_gap
            A lower bound of the distance from the sample to everything that any class accepts, by
            the certificate ``known_radius_``: the least, over classes, of the distance to the
            nearest positive support vector less the radius, and never negative. 0 tells nothing.
            Missing for a method without certificate.

    Notes
    -----
    Behind a Pipeline all distances are those of the transformed space, in which the last step
    lives; undo a scaling before you read them in units of the features.

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
    check_is_fitted(model)
    surroundings = model._surroundings()
    parts = []
    # Without any samples there is still one block, so that the estimator can complain.
    for rows in gen_batches(max(1, _num_samples(X)), _ROWS):
        block = transform(_safe_indexing(X, rows))
        scores = model.decision_function(block)
        parts.append(
            (decide(scores), scores.argmax(axis=1), scores.max(axis=1), *surroundings(block))
        )
    answer, best, score, similar, distance, gap = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    labels = answer_labels(model.classes_, model.unknown_label_)
    return pd.DataFrame(
        {
            "answer": labels[answer],
            "nearest_class": labels[best],
            "score": score,
            "deficit": np.maximum(0.0, -score),
            "similar": pd.arrays.IntegerArray(similar.astype(np.int64), similar < 0),
            "distance": distance,
            "region_gap": gap,
        },
        index=X.index if isinstance(X, pd.DataFrame | pd.Series) else None,
    )


def surroundings_of(model: BaseEstimator) -> Surroundings:
    """Nearest kept training sample and distance to the accepted region, for validated samples.

    Parameters
    ----------
    model : OpenSetClassifier
        Fitted; it says by ``_training_samples`` what it keeps. With ``known_radius_`` its samples
        are support vectors, and ``dual_coef_`` tells which are positive.
    """
    kept = model._training_samples()
    if kept is None:
        return nothing_around
    vectors, index, metric = kept
    certified = hasattr(model, "known_radius_")
    if certified:
        owner, column = np.nonzero(model.dual_coef_ > 0)
        present, starts = np.unique(owner, return_index=True)
        radius = model.known_radius_
    dense = None if sparse.issparse(vectors) else DistancesTo(vectors, metric)

    def distances(X):
        if dense is None or sparse.issparse(X):
            return euclidean_distances(X, vectors)
        return dense(X)

    def surroundings(X):
        X = model._begin_predict(X, accept_sparse="csr")
        n = X.shape[0]
        nearest, distance, gap = np.empty(n, dtype=np.intp), np.empty(n), np.full(n, np.nan)
        for rows in row_blocks(0, n, vectors.shape[0]):
            d = distances(X[rows])
            nearest[rows] = d.argmin(axis=1)
            distance[rows] = d.min(axis=1)
            if certified:
                # A class without positive support vector is nowhere near.
                to_class = np.full((len(d), len(radius)), np.inf)
                to_class[:, present] = np.minimum.reduceat(d[:, column], starts, axis=1)
                beyond = np.maximum(0.0, to_class - np.where(np.isinf(radius), 0.0, radius))
                gap[rows] = np.where(np.isinf(radius), 0.0, beyond).min(axis=1)
        return index[nearest], distance, gap

    return surroundings


def nothing_around(X):
    """The surroundings of samples where no training sample is kept."""
    missing = np.full(_num_samples(X), np.nan)
    return np.full(len(missing), -1), missing, missing
