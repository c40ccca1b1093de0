"""Weibull models of tails of scores, fitted by maximum likelihood, thousands at once.

The two-parameter Weibull distribution has F(z) = 1 - exp(-(z / scale)**shape). Its shape solves

    1 / shape = sum(z**shape ln z) / sum(z**shape) - mean(ln z),

and ln z enters by differences only. So ln z is brought to [-1, 0], where the equation is the same
for data of every scale and spread, and where both ends of a bracket are known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.fitted import check_array, require
from ..utils.compiled import njit

# The fields of a model that hold one number per tail.
_ARRAYS = ("scale", "shape", "location")


def fit_weibull(z: ArrayLike, counts: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Fit a Weibull distribution to each row by maximum likelihood.

    Parameters
    ----------
    z : array-like of shape (..., m)
        Positive values; each row is a sample of its own.
    counts : array-like of shape (...), int, default=None
        How many values of each row count, from the left; None takes all.

    Returns
    -------
    scale : ndarray of shape (...)
        Where a row has fewer than two distinct values, their common value (0 without any).
    shape : ndarray of shape (...)
        Then inf: the likelihood has no maximum, and the distribution is in one point.

    Examples
    --------
    >>> from openset.evt import fit_weibull
    >>> scale, shape = fit_weibull([[0.5, 0.6, 0.75], [2.0, 2.0, 2.0]])
    >>> scale.round(6), shape.round(6)
    (array([0.661125, 2.      ]), array([6.679547,      inf]))
    """
    z = np.asarray(z, dtype=np.float64)
    if z.ndim == 0:
        raise ValueError(f"z must be a row of values or an array of rows; got the number {z!r}.")
    lead, width = z.shape[:-1], z.shape[-1]
    if counts is None:
        counts = np.full(lead, width)
    counts = np.asarray(counts)
    if counts.shape != lead or counts.dtype.kind not in "iu":
        raise ValueError(
            f"counts must hold one integer per row of z, shape {lead}; got shape {counts.shape}, "
            f"dtype {counts.dtype}."
        )
    if np.any((counts < 0) | (counts > width)):
        raise ValueError(f"counts must lie between 0 and the {width} columns of z; got {counts!r}.")
    rows = np.ascontiguousarray(z.reshape(-1, width))
    flat = counts.astype(np.intp).reshape(-1)
    used = rows[np.arange(width) < flat[:, None]]
    if not np.all((used > 0) & np.isfinite(used)):
        raise ValueError(
            "z must be positive and finite to be Weibull; shift the values or leave zeros out."
        )
    scale, shape = np.empty(len(rows)), np.empty(len(rows))
    _fit_rows(rows, flat, scale, shape)
    return scale.reshape(lead), shape.reshape(lead)


@njit(cache=True, nogil=True)
def _fit_rows(z, counts, scale, shape):
    x = np.empty(z.shape[1])
    for i in range(z.shape[0]):
        scale[i], shape[i] = _fit_row(z[i, : counts[i]], x)


@njit(cache=True, nogil=True)
def _fit_row(z, x):
    m = z.size
    if m == 0:
        return 0.0, np.inf
    top = z.max()
    spread = _log_ratios(z, top, x)
    if spread == 0.0:
        return top, np.inf
    mean = squares = 0.0
    for j in range(m):
        x[j] /= spread
        mean += x[j]
        squares += x[j] * x[j]
    mean /= m

    # With w(k) the mean of x weighted by exp(k x), the root of k (w(k) - mean) = 1 is wanted. w is
    # increasing and at most 0: the root is above 1 / -mean, and below 1 / (w - mean) taken there.
    low = -1.0 / mean
    weighted, _, _ = _weighted_moments(x, m, low)
    high = 1.0 / (weighted - mean)
    # ln z has the deviation pi / (sqrt(6) shape) if z is Weibull.
    k = 1.2825498301618641 / np.sqrt(max(squares / m - mean * mean, 1e-300))
    for _ in range(100):
        if not low < k < high:
            k = 0.5 * (low + high)
        weighted, variance, _ = _weighted_moments(x, m, k)
        excess = k * (weighted - mean) - 1.0
        if excess < 0.0:
            low = k
        else:
            high = k
        step = excess / (weighted - mean + k * variance)
        k -= step
        if abs(step) <= 1e-13 * k or high - low <= 1e-15 * high:
            break
    _, _, total = _weighted_moments(x, m, k)
    shape = k / spread
    return top * np.exp(np.log(total / m) / shape), shape


@njit(cache=True, nogil=True)
def _log_ratios(z, top, x):
    """x = ln(z / top), by whichever formula keeps its digits; returns the largest -x."""
    spread = 0.0
    for j in range(z.size):
        if z[j] > 0.5 * top:
            x[j] = np.log1p((z[j] - top) / top)
        else:
            x[j] = np.log(z[j]) - np.log(top)
        spread = max(spread, -x[j])
    return spread


@njit(cache=True, nogil=True)
def _weighted_moments(x, m, k):
    """Mean and variance of x under the weights exp(k x), and the sum of the weights."""
    s0 = s1 = s2 = 0.0
    for j in range(m):
        w = np.exp(k * x[j])
        s0 += w
        s1 += w * x[j]
        s2 += w * x[j] * x[j]
    mean = s1 / s0
    return mean, s2 / s0 - mean * mean, s0


@njit(cache=True, nogil=True)
def find_largest(s, stops, models, sign, translate, survivor, best):
    """Indices of the models with the largest probabilities, of each row and group of models."""
    # Models are (scale, shape, location); see `WeibullTail.mean_of_largest`. `best` has shape
    # (r, K, n) and is -1 to begin with.
    scale, shape, location = models
    n = best.shape[2]
    keys = np.empty(n)
    for i in range(s.shape[0]):
        start = 0
        for c in range(stops.size):
            keys[:] = -np.inf
            indices = best[i, c]
            for j in range(start, stops[c]):
                z = max(translate + sign * (s[i, j] - location[j]), 0.0)
                key = _rank_key(z, scale[j], shape[j], survivor, keys[n - 1])
                k = j - start
                if k >= n:
                    if not key > keys[n - 1]:
                        continue
                    k = n - 1
                while k > 0 and key > keys[k - 1]:
                    keys[k] = keys[k - 1]
                    indices[k] = indices[k - 1]
                    k -= 1
                keys[k] = key
                indices[k] = j
            start = stops[c]


@njit(cache=True, nogil=True)
def _rank_key(z, scale, shape, survivor, least):
    """What a probability rises with: u = shape ln(z / scale) or -u; only a bound up to `least`."""
    # u is at most shape (z / scale - 1), so most take no logarithm.
    if shape == np.inf:
        return np.inf if (z <= scale if survivor else z >= scale) else -np.inf
    if survivor:
        return -shape * np.log(z / scale) if z > 0.0 else np.inf
    key = shape * (z / scale - 1.0)
    if key > least:
        key = shape * np.log(z / scale) if z > 0.0 else -np.inf
    return key


@dataclass(frozen=True)
class WeibullTail:
    """Probability models of a score, each fitted to a tail of observed scores.

    A score s becomes z = translate + sign (s - location), to which the Weibull distribution
    belongs. The probability is F(z), or 1 - F(z) if `survivor`. A tail with fewer than two
    distinct scores gives a step: probability 1 at the common score and on its likely side, else 0.
    Scores from a solver are known to some `resolution` only; a tail no wider than that says
    nothing about its shape, and gives a step that lies below all its scores by the resolution.

    Use one of the four constructors, named after the tail that they look at. Each takes values of
    shape (..., m) and fits one model per row.

    Parameters
    ----------
    scale, shape : ndarray of shape (...)
        Of the distribution of z.
    location : ndarray of shape (...)
        The score of the tail nearest to the bulk.
    sign : {-1, 1}
        Whether z falls or rises with the score.
    translate : float
        1 in the form of libMR, which keeps z away from 0; it makes the model depend on the unit
        of the scores.
    survivor : bool
        Whether the probability is 1 - F(z).

    References
    ----------
    W. Scheirer, A. Rocha, R. Micheals, T. Boult, "Meta-Recognition: The Theory and Practice of
    Recognition Score Analysis", IEEE TPAMI 33(8), 2011.

    Examples
    --------
    >>> from openset.evt import WeibullTail
    >>> tail = WeibullTail.low_positives([0.2, 0.5, 0.9, 1.1, 1.3, 1.6, 2.0], size=5)
    >>> tail.probability([-0.5, 0.0, 0.5, 1.0, 2.3]).round(6)
    array([1.33000e-04, 1.95240e-02, 2.41828e-01, 6.93126e-01, 1.00000e+00])
    """

    scale: np.ndarray
    shape: np.ndarray
    location: np.ndarray
    sign: int
    translate: float
    survivor: bool

    def check(self, name: str, n_models: int) -> None:
        """Raise ValueError unless this holds `n_models` valid models; a file may hold anything.

        Parameters
        ----------
        name : str
            For the message.
        n_models : int
        """
        for part, layout in (("scale", "n"), ("shape", "n inf"), ("location", "n")):
            check_array(f"{name}.{part}", getattr(self, part), layout, {"n": n_models})
        require(
            np.all(self.scale > 0) and np.all(self.shape > 0), f"{name} has scale or shape <= 0"
        )
        require(self.sign in (-1, 1), f"{name}.sign is {self.sign!r}")
        is_number = isinstance(self.translate, float) and np.isfinite(self.translate)
        require(is_number and isinstance(self.survivor, bool), f"{name} has no form")

    @classmethod
    def low_positives(cls, scores: ArrayLike, size: int, resolution: float = 0.0) -> WeibullTail:
        """From the `size` smallest scores of positive samples: rises to 1 with the score.

        Parameters
        ----------
        scores : array-like of shape (..., m)
            Of positive samples.
        size : int
            Number of scores in the tail; all if there are fewer.
        resolution : float, default=0.0
            How well the scores are known.

        Returns
        -------
        WeibullTail
            Of shape (...).
        """
        scale, shape, location = _fit_lowest(scores, size, resolution, accepted=True)
        return cls(scale, shape, location, sign=-1, translate=1.0, survivor=True)

    @classmethod
    def high_negatives(cls, scores: ArrayLike, size: int, resolution: float = 0.0) -> WeibullTail:
        """From the `size` largest scores of negative samples: rises from 0 with the score.

        Parameters
        ----------
        scores, size, resolution
            As for :meth:`low_positives`.

        Returns
        -------
        WeibullTail
        """
        negated = -np.asarray(scores, dtype=np.float64)
        scale, shape, location = _fit_lowest(negated, size, resolution, accepted=False)
        return cls(scale, shape, -location, sign=1, translate=1.0, survivor=False)

    @classmethod
    def low_distances(cls, distances: ArrayLike, size: int) -> WeibullTail:
        """From the `size` smallest distances: falls with the distance, to 0 at 1 + location.

        A tail without two distinct distances takes in further ones until it has them.

        Parameters
        ----------
        distances : array-like of shape (..., m)
            Distances >= 0; infinite ones do not count.
        size : int
            Number of distances in the tail; all if there are fewer.

        Returns
        -------
        WeibullTail
            Of shape (...).
        """
        tail, counts = _extend(distances, size)
        location = np.max(tail, axis=-1, where=np.isfinite(tail), initial=0.0)
        scale, shape = fit_weibull(1.0 + (location[..., None] - tail), counts)
        return cls(scale, shape, location, sign=-1, translate=1.0, survivor=False)

    @classmethod
    def low_margins(cls, distances: ArrayLike, size: int) -> WeibullTail:
        """From the `size` smallest distances > 0, without transform: falls from 1 at distance 0.

        A tail without two distinct distances takes in further ones until it has them. Zeros are
        left out: no Weibull distribution has density there.

        Parameters
        ----------
        distances, size
            As for :meth:`low_distances`.

        Returns
        -------
        WeibullTail
        """
        distances = np.asarray(distances, dtype=np.float64)
        tail, counts = _extend(np.where(distances == 0, np.inf, distances), size)
        scale, shape = fit_weibull(tail, counts)
        return cls(scale, shape, np.zeros_like(scale), sign=1, translate=0.0, survivor=True)

    @classmethod
    def concatenate(cls, tails: Sequence[WeibullTail]) -> WeibullTail:
        """Join models made by the same constructor.

        Parameters
        ----------
        tails : sequence of WeibullTail
            Each of shape (n_i,).

        Returns
        -------
        WeibullTail
            Of shape (sum of n_i,).
        """
        fields: Any = {n: np.concatenate([getattr(tail, n) for tail in tails]) for n in _ARRAYS}
        return replace(tails[0], **fields)

    def __getitem__(self, index) -> WeibullTail:
        fields: Any = {name: getattr(self, name)[index] for name in _ARRAYS}
        return replace(self, **fields)

    def probability(self, s: ArrayLike) -> np.ndarray:
        """Probability at each score.

        Parameters
        ----------
        s : array-like
            Scores, of a shape that broadcasts with that of the parameters.

        Returns
        -------
        ndarray
            Between 0 and 1, never NaN for a score that is not.
        """
        z = self.translate + self.sign * (np.asarray(s, dtype=np.float64) - self.location)
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            power = (np.maximum(z, 0.0) / self.scale) ** self.shape
            p = np.exp(-power) if self.survivor else -np.expm1(-power)
        step = np.isinf(self.shape)
        if np.any(step):
            p = np.where(step, z <= self.scale if self.survivor else z >= self.scale, p)
        return p

    def mean_of_largest(self, s: np.ndarray, stops: np.ndarray, n: int) -> np.ndarray:
        """Mean of the `n` largest probabilities of each group of models.

        Parameters
        ----------
        s : ndarray of shape (r, m)
            One score per model in each row.
        stops : ndarray of shape (K,)
            Where the groups end; the last is m.
        n : int
            All probabilities of a group if it has fewer models.

        Returns
        -------
        ndarray of shape (r, K)
        """
        best = np.full((len(s), len(stops), n), -1)
        models = self.scale, self.shape, self.location
        find_largest(s, stops, models, self.sign, self.translate, self.survivor, best)
        p = self[best].probability(
            np.take_along_axis(s, best.reshape(len(s), -1), 1).reshape(best.shape)
        )
        return np.mean(p, axis=-1, where=best >= 0)

    def score_at(self, probability: float) -> np.ndarray:
        """The score that has a given probability.

        Parameters
        ----------
        probability : float
            Strictly between 0 and 1.

        Returns
        -------
        ndarray of the shape of the parameters
            The common score where the model is a step.
        """
        if not 0 < probability < 1:
            raise ValueError(f"probability must lie strictly between 0 and 1; got {probability!r}.")
        rest = probability if self.survivor else 1.0 - probability
        z = self.scale * (-np.log(rest)) ** (1.0 / self.shape)
        return self.location + self.sign * (z - self.translate)


def _fit_lowest(scores, size, resolution, accepted):
    """Scale, shape and location of the tail of the `size` lowest scores; a step if it is narrow."""
    tail = _smallest(scores, size)
    location, width = tail[..., -1], tail[..., -1] - tail[..., 0]
    scale, shape = fit_weibull(1.0 + (location[..., None] - tail))
    narrow, step = width <= resolution, 1.0 + width + resolution if accepted else 1.0 - resolution
    return np.where(narrow, step, scale), np.where(narrow, np.inf, shape), location


def _smallest(values, size):
    """The `size` smallest of each row, or all, ascending."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise ValueError("a tail needs at least one score; got none.")
    if size < 1:
        raise ValueError(f"size of the tail must be at least 1; got {size!r}.")
    if size < values.shape[-1]:
        values = np.partition(values, size - 1, axis=-1)[..., :size]
    return np.sort(values, axis=-1)


def _extend(distances, size):
    """The smallest finite distances of each row, ascending, and how many of them count."""
    # `size` of them, or more until the last differs from the first, or all.
    distances = np.asarray(distances, dtype=np.float64)
    tail = _smallest(distances, size)
    counts = np.isfinite(tail).sum(axis=-1)
    flat = tail[..., 0] == tail[..., -1]
    if tail.shape[-1] < distances.shape[-1] and np.any(flat):
        rows = np.sort(distances[flat], axis=-1)
        tied = (rows == rows[..., :1]).sum(axis=-1)
        longer = np.minimum(tied + 1, np.isfinite(rows).sum(axis=-1))
        wider = np.full((*counts.shape, max(longer.max(), tail.shape[-1])), np.inf)
        wider[..., : tail.shape[-1]] = tail
        wider[flat] = rows[..., : wider.shape[-1]]
        counts = np.array(counts)
        counts[flat] = longer
        tail = wider
    return tail, counts
