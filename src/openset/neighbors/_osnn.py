"""Open-set nearest neighbours: reject what two classes are about equally near to."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from ..base import OpenSetClassifier, SearchSpec, Traits, validate_samples, validate_training_data
from ..base.fitted import require
from ..solver.points import METRICS, DistancesTo, row_blocks
from ..utils import thread_map

_GRID = {"threshold": [k / 100 for k in range(1, 100)]}


class OSNN(OpenSetClassifier):
    """Open-set nearest neighbours (OSNN), by the ratio of two distances.

    Let t be the training sample nearest to x, and u the nearest one of a class other than that of
    t. The ratio R = d(x, t) / d(x, u) is 0 at the training samples and tends to 1 both between
    classes and far away from all of them. The class of t accepts if R <= threshold.

    Parameters
    ----------
    threshold : float in [0, 1], default=0.7
        Largest ratio that accepts; 1 accepts everything. Changing it needs no new fit. Only for
        rule="ratio".
    rule : {"ratio", "agreement"}, default="ratio"
        "agreement" is OSNN-CV: a class accepts if the two nearest training samples are both of it.
        It has no threshold, and accepts samples however far away.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance between samples.
    n_jobs : int, default=None
        Number of threads; results do not depend on it.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: rule="ratio", threshold < 1 and
        metric="euclidean" (the cosine metric does not see how far a sample is).
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only if X has names of columns.

    Notes
    -----
    Where samples of two classes coincide, R = 0 / 0 is taken as 1. The score of a class that is
    not the nearest is threshold - (2 - 1 / R_c) with R_c > 1 its own ratio: continuous at R_c = 1,
    decreasing and finite.

    A patent application on the ratio method exists (US 2016/0092790).

    References
    ----------
    P. R. Mendes Júnior, R. M. de Souza, R. de O. Werneck, B. V. Stein, D. V. Pazinato,
    W. R. de Almeida, O. A. B. Penatti, R. da S. Torres, A. Rocha, "Nearest neighbors distance
    ratio open-set classifier", Machine Learning 106(3), 2017.

    Examples
    --------
    >>> from openset.neighbors import OSNN
    >>> X = [[0.0, 0.0], [0.0, 1.0], [4.0, 0.0], [4.0, 1.0]]
    >>> y = [1, 1, 2, 2]
    >>> model = OSNN().fit(X, y)
    >>> model.predict([[1.0, 0.5], [4.2, 0.5], [2.0, 0.5], [50.0, 0.5]])
    array([ 1,  2, -1, -1])
    """

    _parameter_constraints = {
        "threshold": [Interval(Real, 0, 1, closed="both")],
        "rule": [StrOptions({"ratio", "agreement"})],
        "metric": [StrOptions(set(METRICS))],
        "n_jobs": [Integral, None],
        "unknown_label": "no_validation",
    }

    traits = Traits(
        "OSNN",
        bounded=True,
        condition='rule="ratio", threshold < 1 and the Euclidean metric',
        known_unknowns="neighbours of another class, which no sample is assigned to",
    )
    fitted_attributes = {"_rows": "n int", "_X": "n d", "_starts": "groups int"}
    search_spec = SearchSpec({"default": _GRID}, after_fit=("threshold",))

    def __init__(
        self,
        threshold: float = 0.7,
        rule: str = "ratio",
        metric: str = "euclidean",
        n_jobs: int | None = None,
        unknown_label: Any = "auto",
    ):
        self.threshold = threshold
        self.rule = rule
        self.metric = metric
        self.n_jobs = n_jobs
        self.unknown_label = unknown_label

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike) -> OSNN:
        """Store the training samples.

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
        self._rows = np.argsort(codes, kind="stable")
        self._X = X[self._rows]
        self._starts = np.r_[0, np.cumsum(np.bincount(codes))[:-1]]
        return self

    def far_scores(self) -> np.ndarray:
        # Since d(x, u) <= d(x, t) + d(t, u), all ratios tend to 1, whatever the direction.
        far = -1.0 if self.metric == "euclidean" else np.inf
        return self.decide(np.full(len(self.classes_), far))

    def check_fitted(self):
        sizes = super().check_fitted()
        require(isinstance(self._X, np.ndarray), "_X is not an array")
        starts, n = self._starts, sizes["n"]
        require(len(starts) >= sizes["K"], "_starts has fewer groups than there are classes")
        fits = starts[0] == 0 and np.all(np.diff(starts) > 0) and starts[-1] < n
        require(fits, "_starts does not increase from 0 to below the number of samples")
        fits = np.array_equal(np.sort(self._rows), np.arange(n))
        require(fits, "_rows is not a permutation of the samples")
        return sizes

    def take_classes(self, index):
        # Samples of removed classes stay behind the others: their neighbourhood is still rejected.
        parts = np.split(np.arange(len(self._X)), self._starts[1:])
        order = [*index, *np.setdiff1d(np.arange(len(parts)), index)]
        rows = np.concatenate([parts[k] for k in order])
        self._X, self._rows = self._X[rows], self._rows[rows]
        self._starts = np.r_[0, np.cumsum([len(parts[k]) for k in order])[:-1]]

    def kept_samples(self):
        return self._X, self._rows, self.metric

    def decide(self, raw):
        # The threshold is an upper limit of the ratio.
        return raw + (self.threshold if self.rule == "ratio" else 1.0)

    def raw_scores(self, X):
        # Minus the ratio of each class: its distance over that of the nearest other class. Known
        # unknowns and removed classes are such classes and come last; none of them is answered.
        X = validate_samples(self, X)
        distances = DistancesTo(self._X, self.metric)

        def score(block):
            by_class = np.split(distances(X[block]), self._starts[1:], axis=1)
            nearest = np.column_stack([d.min(axis=1) for d in by_class])
            if self.rule == "ratio":
                return -_ratio(nearest, _nearest_other(nearest))
            # Both nearest samples are of a class iff its second is nearer than any of the others.
            second = np.column_stack([_second_smallest(d) for d in by_class])
            return -_ratio(second, _nearest_other(nearest))

        blocks = row_blocks(0, len(X), len(self._X))
        scores = np.concatenate(list(thread_map(score, blocks, self.n_jobs)))
        return scores[:, : len(self.classes_)]


def _nearest_other(nearest):
    """Distance to the nearest class other than that of the column."""
    two = np.partition(nearest, 1, axis=1)
    first = np.arange(nearest.shape[1]) == nearest.argmin(axis=1)[:, None]
    return np.where(first, two[:, 1:2], two[:, :1])


def _second_smallest(d):
    return np.partition(d, 1, axis=1)[:, 1] if d.shape[1] > 1 else np.full(len(d), np.inf)


def _ratio(own, other):
    """own / other up to 1, and 2 - other / own beyond; 1 where both are 0 or both infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(own < other, own / other, 2.0 - other / own)
    ratio[own == other] = 1.0
    return ratio
