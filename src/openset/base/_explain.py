"""Explanations of answers, and the certificate: how far a class accepts anything at most.

The words contain no comma, so a CSV file needs no quotes for them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, gen_batches, indexable
from sklearn.utils.validation import _num_samples

from ..solver.points import (
    DistancesTo,
    center_of,
    left_factor,
    right_factor,
    squared_norms,
)
from ..utils import answer_labels, decide, split_fitted, thread_map
from ._validation import validate_samples

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

# Samples per batch: their scores are in memory at the same time.
_ROWS = 4096

# Rows per tile in `outside`: their products stay in the CPU cache.
_TILE = 256
# Error of a squared distance in float32, relative to the norms: rows closer than this to the edge
# of a certificate are not reported as outside.
_ROUNDING = 1e-5
# Largest coordinate, in units of the certificate: its square stays within float32, and farther away
# is outside anyway.
_FAR = 1e6


class Certificate:
    """Where a fitted model certainly rejects, by ``known_radius_`` and its support vectors.

    Parameters
    ----------
    model : estimator
        Fitted, with ``known_radius_``, ``support_vectors_`` and ``dual_coef_``.

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.base import Certificate
    >>> model = OpenSetSVC(gamma=0.5).fit([[0, 0], [0, 1], [5, 5], [5, 6]], [0, 0, 1, 1])
    >>> certificate = Certificate(model)
    >>> certificate.margin([[9.0, 9.0]]).round(1)
    array([[8.3, 1.2]])
    >>> certificate.outside([[0.0, 0.0], [9.0, 9.0]])
    array([False,  True])
    """

    def __init__(self, model: BaseEstimator):
        self.radius = model.known_radius_
        self._vectors = model.support_vectors_
        self._positive = model.dual_coef_ > 0
        self._owner, self._column = np.nonzero(self._positive)
        self._balls: tuple | None = None

    @property
    def complete(self) -> bool:
        """Whether every class has a certificate, so that :meth:`outside` is defined."""
        return bool(np.isfinite(self.radius).all() and self._positive.any())

    def margin(self, X) -> np.ndarray:
        """How far each of n samples lies beyond the certificate of each class, (n, K)."""
        # The distance to the nearest positive support vector of the class less its radius: where
        # positive, the class rejects, and everything it accepts is at least this far away. -inf
        # for a class without certificate, inf for one without positive support vectors.
        X = X if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        return DistancesTo(self._vectors, "euclidean").reduced(X, self._margin_of)

    def _margin_of(self, distances):
        """:meth:`margin` from distances of shape (n, n_sv) to the support vectors."""
        nearest = np.full((len(distances), len(self.radius)), np.inf)
        present, starts = np.unique(self._owner, return_index=True)
        if present.size:
            own = distances[:, self._column]
            nearest[:, present] = np.minimum.reduceat(own, starts, axis=1)
        certified = np.isfinite(self.radius)
        return np.where(certified, nearest - np.where(certified, self.radius, 0.0), -np.inf)

    def outside(self, X, n_jobs: int | None = None) -> np.ndarray:
        """Which of n samples (n, d) certainly lie outside the certificate of every class, fast."""
        # Each support vector carries the largest radius of the classes it is positive for. Then one
        # comparison per support vector suffices, |x - s|^2 - r_s^2 <= 0, from one product in
        # float32 with an allowance for rounding.
        if self._balls is None:
            if not self.complete:
                raise ValueError("outside() needs a certificate of every class; see bounded_.")
            reach = np.where(self._positive, self.radius[:, None], -np.inf).max(axis=0)
            used = np.isfinite(reach)
            support, reach = self._vectors[used], reach[used]
            center = center_of(support)
            # In units of the largest distance that matters: float32 holds no 1e25 squared.
            size = max(np.abs(support - center).max(), reach.max()) or 1.0
            support = (support - center) / size
            balls = right_factor(support, np.float32, less=(reach / size) ** 2).T
            largest = squared_norms(support).max()
            self._balls = np.ascontiguousarray(balls), center, size, largest
        balls, center, size, largest = self._balls
        with np.errstate(over="ignore"):
            X = np.clip((np.asarray(X, dtype=np.float64) - center) / size, -_FAR, _FAR)
        points, norms = left_factor(X, np.float32), squared_norms(X)
        tiles = (points[start : start + _TILE] for start in range(0, len(X), _TILE))
        beyond = thread_map(lambda tile: (tile @ balls).min(axis=1), tiles, n_jobs)
        return np.concatenate([np.zeros(0), *beyond]) > _ROUNDING * (norms + largest)


class Ranking(NamedTuple):
    """The classes of each of n samples by score; with one class the second is the first."""

    best: np.ndarray
    second: np.ndarray
    score: np.ndarray  # of the best
    margin: np.ndarray  # by which the second is behind; NaN with one class
    n_accept: np.ndarray  # number of classes that accept

    @classmethod
    def of(cls, scores: np.ndarray) -> Ranking:
        """Rank by scores (n, K)."""
        rows = np.arange(len(scores))
        best = scores.argmax(axis=1)
        score, n_accept = scores[rows, best], (scores >= 0).sum(axis=1)
        if scores.shape[1] == 1:
            return cls(best, best, score, np.full(len(scores), np.nan), n_accept)
        others = scores.copy()
        others[rows, best] = -np.inf
        second = others.argmax(axis=1)
        return cls(best, second, score, score - others[rows, second], n_accept)

    def reasons(self, labels: np.ndarray, outside: np.ndarray) -> list[str]:
        """The answers in words; `outside` (n,): rejected samples that no certificate holds."""
        names = [str(label) for label in labels]
        missed = np.maximum(-self.score, 1e-4).round(4)  # a miss is never shown as zero
        columns = self.best, self.second, self.n_accept, missed, outside
        return [
            _reason(names[best], names[second], *others)
            for best, second, *others in zip(*(c.tolist() for c in columns), strict=True)
        ]


def _reason(nearest: str, second: str, n_accept: int, missed: float, outside: bool) -> str:
    if n_accept == 1:
        return f"accepted by {nearest}"
    if n_accept:
        count = "two" if n_accept == 2 else n_accept
        return f"{count} classes accept: {nearest} before {second}"
    far = "; outside every certificate" if outside else ""
    return f"none accepts; nearest is {nearest}; missed by {missed}{far}"


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
    (X,) = indexable(X)  # a COO matrix has no rows to take
    labels = answer_labels(model.classes_, model.unknown_label_)
    tables = []
    # Without any samples there is still one block, so that the estimator can complain.
    for rows in gen_batches(max(1, _num_samples(X)), _ROWS):
        block = transform(_safe_indexing(X, rows))
        scores = model.decision_function(block)
        ranking, answer = Ranking.of(scores), labels[decide(scores)]
        similar, distance, gap = model.neighbourhood(block)
        columns = {
            "answer": answer,
            "nearest_class": labels[ranking.best],
            "score": ranking.score,
            "deficit": np.maximum(0.0, -ranking.score),
            "similar": pd.arrays.IntegerArray(similar.astype(np.int64), similar < 0),
            "distance": distance,
            "region_gap": gap,
            "runner_up": labels[ranking.second] if len(labels) > 2 else None,
            "margin": ranking.margin,
            "reason": ranking.reasons(labels, gap > 0),
        }
        tables.append(pd.DataFrame(columns).astype({"runner_up": object, "reason": object}))
    table = pd.concat(tables, ignore_index=True)
    return table.set_axis(X.index) if isinstance(X, pd.DataFrame | pd.Series) else table


class PredictionExplainer:
    """Turns acceptance scores into answers: prediction, score, runner-up, margin and reason.

    Parameters
    ----------
    final : estimator
        The fitted open-set estimator itself, unwrapped.
    n_jobs : int, default=None
        Threads.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.base import PredictionExplainer
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [5.0, 5.0], [5.0, 6.0]])
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> rows = np.array([[0.0, 0.5], [9.0, 9.0]])
    >>> *_, reason = PredictionExplainer(model).columns(rows, model.decision_function(rows))
    >>> reason[0].as_py(), reason[1].as_py().endswith("outside every certificate")
    ('accepted by left', True)
    """

    NAMES = ("prediction", "known_score", "runner_up", "margin", "reason")

    def __init__(self, final: BaseEstimator, n_jobs: int | None = None):
        import pyarrow as pa

        self._final, self._n_jobs = final, n_jobs
        self._labels = answer_labels(final.classes_, final.unknown_label_)
        self._answers = pa.array(self._labels.tolist())
        # A model with moved thresholds has a certificate, but no support vectors of its own.
        by_vectors = hasattr(final, "known_radius_") and hasattr(final, "support_vectors_")
        self._certificate = Certificate(final) if by_vectors else None

    def columns(self, X: np.ndarray | None, scores: np.ndarray) -> list[pa.Array]:
        """The columns `NAMES` of n samples, as pyarrow Arrays."""
        # Rows X (n, d) are as the final estimator sees them; None for objects, which have no place.
        import pyarrow as pa

        ranking = Ranking.of(scores)
        runner_up = self._answers.take(pa.array(ranking.second))
        # Rounded: the last digits of a score depend on the size of the batch.
        margin = pa.array(ranking.margin.round(5))
        if scores.shape[1] == 1:
            runner_up, margin = (pa.nulls(len(scores), a.type) for a in (runner_up, margin))
        reasons = ranking.reasons(self._labels, self._outside(X, ranking.n_accept == 0))
        answers = self._answers.take(pa.array(decide(scores)))
        return [answers, pa.array(ranking.score), runner_up, margin, pa.array(reasons, pa.string())]

    def _outside(self, X, rejected):
        """Which of the rejected rows lie outside every certificate, (n,) bool."""
        outside = np.zeros(len(rejected), dtype=bool)
        if X is None or not hasattr(self._final, "known_radius_") or not rejected.any():
            return outside
        if self._certificate is None:
            outside[rejected] = self._final.neighbourhood(X[rejected])[2] > 0
        elif self._certificate.complete:
            outside[rejected] = self._certificate.outside(X[rejected], n_jobs=self._n_jobs)
        return outside


def neighbourhood_of(model: BaseEstimator, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``neighbourhood`` of a fitted open-set classifier, by its ``kept_samples``."""
    # Those of a model with `known_radius_` are its support vectors.
    kept = model.kept_samples()
    if kept is None:
        missing = np.full(_num_samples(X), np.nan)
        return np.full(len(missing), -1), missing, missing
    vectors, index, metric = kept
    certificate = Certificate(model) if hasattr(model, "known_radius_") else None
    X = validate_samples(model, X, accept_sparse="csr")
    nearest = DistancesTo(vectors, metric).reduced(X, partial(_nearest, certificate))
    return index[nearest[:, 0].astype(np.intp)], nearest[:, 1].copy(), nearest[:, 2].copy()


def _nearest(certificate, distances):
    """Index and distance of the nearest samples, and how far the certificate is, (n, 3)."""
    gap = np.full(len(distances), np.nan)
    if certificate is not None:
        gap = np.maximum(0.0, certificate._margin_of(distances)).min(axis=1)
    return np.column_stack([distances.argmin(axis=1), distances.min(axis=1), gap])
