"""The Extreme Value Machine: a Weibull model of the margins around each training point."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from ..base import OpenSetClassifier, SearchSpec, Traits, validate_samples, validate_training_data
from ..base.fitted import require
from ..base.machines import row_keys
from ..base.parameters import COUNT, FRACTIONS, POSITIVE, SHARE, param, with_parameters
from ..solver.points import DistancesTo, row_blocks
from ..utils import thread_map
from ._weibull import WeibullTail

# Long tails matter where classes are large.
_TAILS = [5, 10, 25, 50, 100, 200, 1000]

# Largest class for which it is stored who covers whom, in 64 MB.
_STORED = 8192


@with_parameters
class ExtremeValueMachine(OpenSetClassifier):
    """Extreme Value Machine (EVM) with rejection.

    Around each training point a Weibull model of its smallest margins, a fraction of the distances
    to the other classes, gives the probability that a sample at some distance belongs with it. A
    greedy set cover keeps the extreme vectors of each class; the probability of a class is the
    mean of its few largest, and a class accepts if that reaches `threshold`.

    Parameters
    ----------
    tail_size : int, default=50
        Number of smallest margins in each Weibull fit; all if there are fewer.
    cover_threshold : float in (0, 1], default=0.5
        A point covers another if it gives it at least this probability. 1 keeps all points.
    n_fused : int, default=4
        Number of largest probabilities of a class that are averaged.
    threshold : float in [0, 1], default=0.5
        Smallest probability that accepts; 0 accepts everything. Changing it needs no new fit.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance between samples.
    weibull : {"libmr", "survivor"}, default="libmr"
        "libmr": the form in which the method has been published as code, fitted to reflected
        margins; the probability is exactly 0 from a distance on. "survivor": the form of the
        article, exp(-(distance / scale)**shape).
    margin_factor : float, default=0.5
        Margin of a point to one of another class, as a fraction of their distance.
    n_jobs, unknown_label
        As for :class:`openset.OpenSetSVC`.

    Attributes
    ----------
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: threshold > 0 and metric="euclidean". False for
        the cosine metric, which does not see how far a sample is.
    extreme_index_ : ndarray of shape (n_extreme,)
        Rows of the training set that are extreme vectors, by class, in the order of their choice.
    extreme_vectors_ : ndarray of shape (n_extreme, d)
    n_extreme_ : ndarray of shape (K,)
        Number of extreme vectors of each class.
    weibull_ : WeibullTail
        Models of the extreme vectors.
    classes_, unknown_label_, n_known_unknowns_, n_features_in_, feature_names_in_
        As for :class:`openset.OpenSetSVC`.

    Notes
    -----
    The models depend on the unit of the features ("libmr" adds the constant 1 to each margin):
    scale the features, for example to [0, 1]. Of points of a class that cover equally many others,
    the one with the largest ball is taken; the published code takes the first in the file.

    References
    ----------
    E. Rudd, L. Jain, W. Scheirer, T. Boult, "The Extreme Value Machine", IEEE TPAMI 40(3), 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evt import ExtremeValueMachine
    >>> X = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.1], [1.0, 1.0], [1.1, 1.0], [1.0, 1.1]])
    >>> y = ["a", "a", "a", "b", "b", "b"]
    >>> machine = ExtremeValueMachine(n_fused=1).fit(X, y)
    >>> machine.predict([[0.05, 0.05], [1.0, 0.95], [5.0, -5.0]])
    array(['a', 'b', 'unknown'], dtype='<U7')
    >>> machine.inclusion_proba([[0.55, 0.5], [5.0, -5.0]]).round(3)
    array([[0.253, 0.034],
           [0.   , 0.   ]])
    """

    tail_size: int = param(50, COUNT)
    cover_threshold: float = param(0.5, Interval(Real, 0, 1, closed="right"))
    n_fused: int = param(4, COUNT)
    threshold: float = param(0.5, SHARE)
    metric: str = "euclidean"
    weibull: str = param("libmr", StrOptions({"libmr", "survivor"}))
    margin_factor: float = param(0.5, POSITIVE)
    n_jobs: int | None = None
    unknown_label: Any = "auto"

    traits = Traits(
        "EVM",
        extreme_value=True,
        bounded=True,
        condition="threshold > 0 and the Euclidean metric",
        known_unknowns="they limit the margins, as the samples of other classes do",
    )
    stored_types = (WeibullTail,)
    fitted_attributes = {
        **{"extreme_index_": "n int", "extreme_vectors_": "n d dense", "n_extreme_": "K int"},
        "weibull_": "n models",
    }
    search_spec = SearchSpec(
        {"default": {"tail_size": _TAILS, "threshold": FRACTIONS}}, after_fit=("threshold",)
    )

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike) -> ExtremeValueMachine:
        """Fit one Weibull model per training point and keep the extreme vectors.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            Labels of at least two classes.

        Returns
        -------
        self
        """
        X, codes, _, _ = validate_training_data(self, X, y, min_classes=2)
        order = np.argsort(codes, kind="stable")
        X = X[order]  # known unknowns last: they are negatives and have no model of their own
        stops = np.cumsum(np.bincount(codes)[: len(self.classes_)])
        classes = list(zip(np.r_[0, stops[:-1]], stops, strict=True))
        distances = DistancesTo(X, self.metric)
        tasks = [(*rows, block) for rows in classes for block in row_blocks(*rows, len(X))]
        fit = partial(self._fit_block, X, distances)
        weibull = WeibullTail.concatenate(list(thread_map(fit, tasks, self.n_jobs)))
        if self.cover_threshold == 1:
            chosen = [np.arange(start, stop) for start, stop in classes]
        else:  # probabilities fall with the distance, so a point covers a ball
            cover = partial(self._cover, X, distances, weibull.score_at(self.cover_threshold))
            chosen = list(thread_map(cover, classes, self.n_jobs))
        rows = np.concatenate(chosen)
        self.extreme_index_ = order[rows]
        self.extreme_vectors_ = X[rows]
        self.n_extreme_ = np.array([len(part) for part in chosen])
        self.weibull_ = weibull[rows]
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The mean of several probabilities is low where a class keeps few extreme vectors.
        tags.classifier_tags.poor_score = True
        return tags

    def _fit_block(self, X, distances, task):
        """Weibull models of the margins of some points of a class."""
        start, stop, block = task
        others = (distances(X[block], 0, start), distances(X[block], stop, len(X)))
        form = WeibullTail.low_distances if self.weibull == "libmr" else WeibullTail.low_margins
        return form(self.margin_factor * np.hstack(others), self.tail_size)

    def _cover(self, X, distances, radius, rows):
        """Rows of X that are extreme vectors of a class."""
        members = slice(*rows)
        order = self._order(X[members], radius[members])
        return greedy_cover(X, distances, *rows, radius[members], order)

    def _order(self, X, radius):
        """The points of a class in the order in which those that cover equally many are taken."""
        # The largest ball comes first, then a hash of the features decides: not the order of rows.
        return np.lexsort((row_keys(X), -radius))

    def far_scores(self) -> np.ndarray:
        # All probabilities vanish with the distance.
        far = 0.0 if self.metric == "euclidean" else np.inf
        return self.decide(np.full(len(self.classes_), far))

    def check_fitted(self):
        sizes = super().check_fitted()
        fits = np.all(self.n_extreme_ > 0) and self.n_extreme_.sum() == sizes["n"]
        require(fits, "n_extreme_ does not add up to the number of extreme vectors")
        return sizes

    def take_classes(self, index):
        ends = np.cumsum(self.n_extreme_)
        rows = np.concatenate([np.arange(ends[k] - self.n_extreme_[k], ends[k]) for k in index])
        self.extreme_index_ = self.extreme_index_[rows]
        self.extreme_vectors_ = self.extreme_vectors_[rows]
        self.weibull_ = self.weibull_[rows]
        self.n_extreme_ = self.n_extreme_[index]

    def kept_samples(self):
        return self.extreme_vectors_, self.extreme_index_, self.metric

    def inclusion_proba(self, X: Any) -> np.ndarray:
        """Probability that each sample belongs to each class; rows need not sum to 1.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        X, stops = validate_samples(self, X), np.cumsum(self.n_extreme_)
        fuse = partial(self.weibull_.mean_of_largest, stops=stops, n=self.n_fused)
        return DistancesTo(self.extreme_vectors_, self.metric).reduced(X, fuse, self.n_jobs)

    raw_scores = inclusion_proba

    def decide(self, raw):
        return raw - self.threshold


def greedy_cover(X, distances: DistancesTo, start, stop, radius, order) -> np.ndarray:
    """Rows of X (m, d), start to stop, whose balls cover this class, the most useful first."""
    # At each turn the point that covers most uncovered ones is taken, the first in `order` of
    # equals; points that no point covers, not even they themselves, come last. The gains are
    # counted once, and when a point becomes covered, which happens once, they fall for those that
    # cover it.
    coverage = _Coverage(X[start:stop], distances, (start, stop), radius)
    gain = coverage.count(np.arange(stop - start))
    uncovered = np.ones(stop - start, dtype=bool)
    chosen = []
    while uncovered.any():
        best = int(order[gain[order].argmax()])
        if gain[best] <= 0:
            break
        fresh = np.flatnonzero(uncovered & coverage.by(best))
        uncovered[fresh] = False
        gain -= coverage.count(fresh)
        gain[best] = 0  # rounding may differ between blocks: never come back to this point
        if fresh.size:
            chosen.append(start + best)
    return np.concatenate([np.array(chosen, dtype=np.intp), start + np.flatnonzero(uncovered)])


class _Coverage:
    """Which of the n points of a class cover which: i covers j iff d(i, j) <= ``radius[i]``."""

    # It is stored for classes of up to `_STORED` points; beyond, each distance is computed twice.

    def __init__(self, points, distances, rows, radius):
        self._points, self._distances, self._rows, self._radius = points, distances, rows, radius
        self._stored = None
        n = len(points)
        if n <= _STORED:
            self._stored = np.concatenate(
                [self._covering(np.arange(n)[block]) for block in row_blocks(0, n, n)]
            )

    def _covering(self, points):
        """Which points cover each of these, (n_points, n)."""
        if self._stored is not None:
            return self._stored[points]
        return self._distances(self._points[points], *self._rows) <= self._radius

    def count(self, points):
        """How many of these each point covers, (n,)."""
        counts = np.zeros(len(self._radius), dtype=np.intp)
        for block in row_blocks(0, len(points), len(counts)):
            counts += self._covering(points[block]).sum(axis=0)
        return counts

    def by(self, point):
        """Which points this one covers, (n,)."""
        if self._stored is not None:
            return self._stored[:, point]
        distances = self._distances(self._points[[point]], *self._rows)[0]
        return distances <= self._radius[point]
