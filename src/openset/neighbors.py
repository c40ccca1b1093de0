"""Nearest-neighbour methods: the k-th neighbour of each class, and the ratio of two distances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from .base import (
    DistanceClassifier,
    OpenSetClassifier,
    SearchSpec,
    Traits,
    validate_samples,
    validate_training_data,
)
from .base.fitted import require
from .base.parameters import COUNT, QUANTILES, SHARE, param, with_parameters
from .solver.cuda import on_gpu, to_host
from .solver.points import (
    NARROW,
    DistancesTo,
    left_factor,
    right_factor,
    scaled_square,
    squared_norms,
)
from .utils import thread_map
from .utils.compiled import njit

__all__ = ["OSNN", "OpenSetKNN"]

# Small classes are multiplied together, up to about this many samples.
_COLUMNS = 4096
# Distances per block on the CPU and on the GPU.
_BLOCK = 2**21
_GPU_BLOCK = 2**27

# The product takes the directions that hold the share _VARIANCE of the variance if they are at most
# the share _DIRECTIONS of the features. They are found from _SAMPLES samples.
_VARIANCE = 0.97
_DIRECTIONS = 1 / 3
_SAMPLES = 4096
# Number of bounds that are compared with the limit at once.
_CHUNK = 64

_UNIT = np.finfo(np.float32).eps / 2

_GRID: dict[str, list] = {"n_neighbors": [1, 2, 5, 10, 20, 50], "quantile": QUANTILES}


@with_parameters
class OpenSetKNN(DistanceClassifier):
    """Distance to the k-th nearest training sample of each class.

    Class c accepts x if the distance from x to the k-th nearest training sample of the class is at
    most ``radius_``. The answer is the class with the smallest such distance. Distances are exact.

    Parameters
    ----------
    n_neighbors : int, default=2
        k. In a class with fewer samples the farthest one counts. With 1, a single mislabelled
        sample extends its class.
    quantile : float in [0, 1], default=0.95
        The radius is this quantile of the distances of training samples to the k-th nearest other
        sample of their class, over all classes. So about this share of new samples of known
        classes is accepted. Changing it needs no new fit.
    normalize : bool, default=False
        Divide each sample by its norm first. A sample of zeros is an error.
    n_jobs, device
        As for :class:`openset.OpenSetSVC`.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts. Training rows that carry an explicit label are
        known unknowns: they can lower the radius, see :class:`openset.base.DistanceClassifier`.

    Attributes
    ----------
    radius_ : ndarray of shape (K,)
        The largest distance that is accepted, the same for all classes.
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: always, except with ``normalize=True``, which
        accepts cones.
    classes_, unknown_label_, n_known_unknowns_, n_features_in_, feature_names_in_
        As for :class:`openset.OpenSetSVC`.

    References
    ----------
    Y. Sun, Y. Ming, X. Zhu, Y. Li, "Out-of-distribution detection with deep nearest neighbors",
    ICML 2022, where the neighbours are those of all classes together.

    Examples
    --------
    >>> from openset.neighbors import OpenSetKNN
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [4.0, 0.0], [4.0, 1.0], [5.0, 0.0]]
    >>> model = OpenSetKNN().fit(X, [1, 1, 1, 2, 2, 2])
    >>> model.predict([[0.5, 0.5], [4.2, 0.5], [2.5, 3.0], [50.0, 0.5]])
    array([ 1,  2, -1, -1])
    """

    n_neighbors: int = param(2, COUNT)
    quantile: float = 0.95
    normalize: bool = False
    n_jobs: int | None = None
    device: str = "cpu"
    unknown_label: Any = "auto"

    fitted_attributes = {"_rows": "n int", "_X": "n d dense", "_starts": "groups int"}
    traits = Traits(
        "k-NN",
        bounded=True,
        condition="normalize=False",
        known_unknowns="they can lower the radius",
    )
    search_spec = SearchSpec({"default": _GRID}, after_fit=("quantile",))

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        order = np.argsort(codes, kind="stable")
        self._X, self._rows = X[order], rows[order]
        self._starts = np.r_[0, np.cumsum(np.bincount(codes))]
        own = np.empty(len(X))
        own[order] = self._engine().within(self.n_neighbors)
        return own

    def distances(self, X: np.ndarray) -> np.ndarray:
        return self._engine()(X, self.n_neighbors)

    def take_classes(self, index):
        rows = np.concatenate([np.arange(*self._starts[k : k + 2]) for k in index])
        self._starts = np.r_[0, np.cumsum(np.diff(self._starts)[index])]
        self._X, self._rows = self._X[rows], self._rows[rows]
        self.take_distances(index)

    def check_fitted(self):
        sizes = super().check_fitted()
        require(len(self._starts) == sizes["K"] + 1, "_starts has not one group per class")
        fits = self._starts[0] == 0 and np.all(np.diff(self._starts) > 0)
        require(fits and self._starts[-1] == sizes["n"], "_starts does not divide the samples")
        return sizes

    def class_starts(self) -> np.ndarray:
        """Return where the samples of each class start among :meth:`kept_samples`.

        Returns
        -------
        ndarray of shape (K + 1,)
            The last entry is the number of samples.
        """
        return self._starts

    def _engine(self):
        """Distances to the training samples, prepared once per fitted model."""
        arrays, settings = (self._X, self._starts), (self.n_jobs, self.device)
        return self.prepared(lambda: KthDistances(*arrays, *settings), arrays, settings)

    def far_scores(self) -> np.ndarray:
        return np.full(len(self.classes_), np.inf if self.normalize else -np.inf)

    def kept_samples(self):
        return self._X, self._rows, "cosine" if self.normalize else "euclidean"


class KthDistances:
    """Distances from any points to the k-th nearest row of each class; the last if it has fewer.

    With many features a product in single precision gives lower bounds of the squared distances.
    They only choose candidates: all samples that could be among the k nearest, given a bound of the
    rounding error. Their distances are then computed in double precision.

    The product takes all features, or few directions that hold most of the variance, where there
    are such. With x = (u, v), u the part in these directions, a.b <= a_u.b_u + |a_v| |b_v|: the
    norm of the rest is one more feature.
    """

    # B (m, d) is sorted by class: the rows of class c are starts[c], ..., starts[c + 1] - 1.

    def __init__(self, B: np.ndarray, starts: np.ndarray, n_jobs: int | None, device: str):
        self._B, self._starts, self._n_jobs, self._size = B, starts, n_jobs, _BLOCK
        self._prepare: Callable = np.asarray
        gpu = on_gpu(device)
        if not gpu and B.shape[1] <= NARROW:
            self._block, self._to = self._narrow, DistancesTo(B, "euclidean")
            return
        # Centred, and scaled so that single precision neither over- nor underflows.
        self._center = B.mean(axis=0)
        centred = B - self._center
        self._scale = max(np.abs(centred).max(), np.finfo(np.float64).tiny)
        centred /= self._scale
        self._largest = np.sqrt(squared_norms(centred).max())
        if gpu:
            from .solver.cuda.points import DevicePoints

            self._points = DevicePoints(centred, self._center, 1.0 / self._scale, 1e150)
            self._block, self._size, self._n_jobs = self._gpu, _GPU_BLOCK, 1
        else:
            self._block, self._prepare = self._wide, self._queries
            self._basis = _main_directions(centred)
            self._single = right_factor(self._reduced(centred), np.float32)[:, :-1]

    def __call__(self, A: np.ndarray, k: int) -> np.ndarray:
        """Distances to all classes, (len(A), K); inf where a square overflows."""
        return self._between(A, k, 0, len(self._starts) - 1)

    def within(self, k: int) -> np.ndarray:
        """Distance from each row of B to the k-th nearest other row of its class."""
        # NaN for the row of a class that has no other.
        result = np.full(len(self._B), np.nan)
        for c, (start, stop) in enumerate(pairwise(self._starts)):
            if stop - start > 1:  # the row itself is among the nearest, at distance 0
                own = self._between(self._B[start:stop], k + 1, c, c + 1)
                result[start:stop] = own[:, 0]
        return result

    def _between(self, A, k, first, last):
        out = np.empty((len(A), last - first))
        groups = list(self._groups(first, last))
        width = max(self._starts[hi] - self._starts[lo] for lo, hi in groups)
        step = int(max(16, self._size // max(width, 1)))
        blocks = [(A[k : k + step], out[k : k + step]) for k in range(0, len(A), step)]
        for _ in thread_map(partial(self._fill, k, groups), blocks, self._n_jobs):
            pass
        return out

    def _fill(self, k, groups, block):
        """Distances from rows (n, d) to the classes of the groups, into an array (n, classes)."""
        A, out = block
        with np.errstate(over="ignore", invalid="ignore"):
            queries, first = self._prepare(A), groups[0][0]
            for lo, hi in groups:
                self._block(queries, k, lo, hi, out[:, lo - first : hi - first])

    def _groups(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Ranges of classes that have about _COLUMNS rows together."""
        while first < last:
            stop = np.searchsorted(self._starts, self._starts[first] + _COLUMNS, side="right") - 1
            stop = int(min(max(stop, first + 1), last))
            yield first, stop
            first = stop

    def _narrow(self, A, k, lo, hi, out):
        starts = self._starts
        distances = self._to(A, starts[lo], starts[hi])
        for c in range(lo, hi):
            own = distances[:, starts[c] - starts[lo] : starts[c + 1] - starts[lo]]
            last = min(k, own.shape[1]) - 1
            out[:, c - lo] = np.partition(own, last, axis=1)[:, last]

    def _reduced(self, Z):
        """Z in the main directions, and the norm of the rest; distances do not grow."""
        if self._basis is None:
            return Z
        main = Z @ self._basis
        rest = np.sqrt(np.maximum(0.0, squared_norms(Z) - squared_norms(main)))
        return np.column_stack([main, rest])

    def _queries(self, A):
        """A, the left factor without its norms, a bound of the error, and the squared norms."""
        Z = (A - self._center) / self._scale
        norms = squared_norms(Z)
        huge = norms > 1e30  # squares could overflow in single precision
        Z[huge] = 0.0
        factor = left_factor(self._reduced(Z), np.float32)[:, :-1]
        # Bound of the error of |b|^2 - 2 a.b in single precision, whatever the order of the sum.
        lengths = np.sqrt(norms) + self._largest
        slack = 4 * (factor.shape[1] + 8) * _UNIT * lengths * self._largest
        slack[huge] = np.inf  # all samples are candidates
        return A, factor, slack, norms

    def _wide(self, queries, k, lo, hi, out):
        A, factor, slack, norms = queries
        starts = self._starts[lo : hi + 1]
        rows = slice(starts[0], starts[-1])
        bounds = factor @ self._single[rows].T, slack, norms
        _kth_distances(bounds, k, starts - starts[0], (A, self._B[rows]), self._scale, out)

    def _gpu(self, A, k, lo, hi, out):
        points, starts = self._points, self._starts
        xp, index = points.xp, slice(starts[lo], starts[hi])
        left = points.left(points.scaled(A))
        squares = points.squares(left, index)
        rounding = left.shape[1] * np.finfo(np.float64).eps
        squares[squares <= rounding * (left[:, -1:] + points.right[index, -2])] = 0.0
        for c in range(lo, hi):
            own = squares[:, starts[c] - starts[lo] : starts[c + 1] - starts[lo]]
            last = min(k, own.shape[1]) - 1
            nearest = xp.sqrt(xp.partition(own, last, axis=1)[:, last]) * self._scale
            out[:, c - lo] = to_host(nearest)


@njit(cache=True, nogil=True)
def _insert(smallest, value, rows, row):
    """Insert a value and its row into ascending arrays of fixed length; the largest falls out."""
    j = smallest.size - 1
    while j > 0 and smallest[j - 1] > value:
        smallest[j], rows[j] = smallest[j - 1], rows[j - 1]
        j -= 1
    smallest[j], rows[j] = value, row


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _lowest(bounds):
    """The smallest bound of a chunk."""
    lowest = np.float32(np.inf)
    for j in range(bounds.size):
        lowest = min(lowest, bounds[j])
    return lowest


@njit(cache=True, nogil=True)
def _nearest_by_bounds(row, begin, end, k, lowest):
    """The k columns of a row with the smallest bounds; the smallest of each chunk in `lowest`."""
    smallest, nearest = np.full(k, np.inf), np.full(k, -1)
    for chunk, first in enumerate(range(begin, end, _CHUNK)):
        last = min(first + _CHUNK, end)
        lowest[chunk] = _lowest(row[first:last])
        if lowest[chunk] < smallest[-1]:
            for j in range(first, last):
                if row[j] < smallest[-1]:
                    _insert(smallest, np.float64(row[j]), nearest, j)
    return nearest


@njit(cache=True, nogil=True)
def _kth_distances(bounds, k, starts, points, scale, out):
    """out[i, c]: distance from A[i] to the k-th nearest of the rows of class c of B."""
    # `points` is (A, B). `bounds` are (values, slack, norms): values[i, j] - slack[i] + norms[i] is
    # at most the squared distance between A[i] and B[j], in units of the scale.
    A, B = points
    values, slack, norms = bounds
    lowest = np.empty(np.diff(starts).max() // _CHUNK + 1, np.float32)
    for i in range(len(A)):
        row = values[i]
        for c in range(starts.size - 1):
            begin, end = starts[c], starts[c + 1]
            nearest = _nearest_by_bounds(row, begin, end, min(k, end - begin), lowest)
            limit = np.inf
            if slack[i] < np.inf:  # the k-th nearest is no farther than any k samples are
                farthest = 0.0
                for j in nearest:
                    farthest = max(farthest, scaled_square(A[i], B[j], 1.0))
                limit = farthest / scale / scale - norms[i] + slack[i]
            squares = np.full(nearest.size, np.inf)
            for chunk, first in enumerate(range(begin, end, _CHUNK)):
                if not lowest[chunk] > limit:
                    for j in range(first, min(first + _CHUNK, end)):
                        if not row[j] > limit:
                            square = scaled_square(A[i], B[j], 1.0)
                            if square < squares[-1]:
                                _insert(squares, square, nearest, j)
                                new = squares[-1] / scale / scale - norms[i] + slack[i]
                                limit = min(limit, new)
            out[i, c] = np.sqrt(squares[-1])


def _main_directions(centred):
    """Few orthonormal directions (d, p) that hold most of the variance; None if there are none."""
    m, d = centred.shape
    if m < 8 * d:  # finding them would take as long as the products
        return None
    some = centred[:: -(-m // _SAMPLES)]
    variance, directions = np.linalg.eigh(some.T @ some)
    total = np.cumsum(variance[::-1])
    p = int(np.searchsorted(total, _VARIANCE * total[-1])) + 1
    return directions[:, ::-1][:, :p].copy() if p <= _DIRECTIONS * d else None


_RATIOS = {"threshold": [k / 100 for k in range(1, 100)]}


@with_parameters
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
    n_jobs, unknown_label
        As for :class:`openset.OpenSetSVC`.

    Attributes
    ----------
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: rule="ratio", threshold < 1 and
        metric="euclidean" (the cosine metric does not see how far a sample is).
    classes_, unknown_label_, n_known_unknowns_, n_features_in_, feature_names_in_
        As for :class:`openset.OpenSetSVC`.

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

    threshold: float = param(0.7, SHARE)
    rule: str = param("ratio", StrOptions({"ratio", "agreement"}))
    metric: str = "euclidean"
    n_jobs: int | None = None
    unknown_label: Any = "auto"

    traits = Traits(
        "OSNN",
        bounded=True,
        condition='rule="ratio", threshold < 1 and the Euclidean metric',
        known_unknowns="neighbours of another class, which no sample is assigned to",
    )
    fitted_attributes = {"_rows": "n int", "_X": "n d dense", "_starts": "groups int"}
    search_spec = SearchSpec({"default": _RATIOS}, after_fit=("threshold",))

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
        scores = DistancesTo(self._X, self.metric).reduced(X, self._score, self.n_jobs)
        return scores[:, : len(self.classes_)]

    def _score(self, distances):
        """Minus the ratios, (n, groups), from the distances to all samples."""
        by_class = np.split(distances, self._starts[1:], axis=1)
        nearest = own = np.column_stack([d.min(axis=1) for d in by_class])
        # The nearest class other than that of the column.
        two = np.partition(nearest, 1, axis=1)
        first = np.arange(nearest.shape[1]) == nearest.argmin(axis=1)[:, None]
        other = np.where(first, two[:, 1:2], two[:, :1])
        if self.rule == "agreement":
            # Both nearest samples are of a class iff its second is nearer than any of the others.
            none = np.full((len(distances), 1), np.inf)
            padded = (np.column_stack([d, none]) for d in by_class)
            own = np.column_stack([np.partition(d, 1, axis=1)[:, 1] for d in padded])
        # own / other up to 1, and 2 - other / own beyond; 1 where both are 0 or both infinite.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(own < other, own / other, 2.0 - other / own)
        ratio[own == other] = 1.0
        return -ratio
