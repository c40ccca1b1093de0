"""The Weibull distribution fitted by maximum likelihood, thousands of samples at once.

The two-parameter Weibull distribution has F(z) = 1 - exp(-(z / scale)**shape). Its shape solves

    1 / shape = sum(z**shape ln z) / sum(z**shape) - mean(ln z),

and ln z enters by differences only. So ln z is brought to [-1, 0], where the equation is the same
for data of every scale and spread, and where both ends of a bracket are known beforehand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..utils.compiled import njit


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
    # x = ln(z / top), by whichever formula keeps its digits.
    spread = 0.0
    for j in range(m):
        if z[j] > 0.5 * top:
            x[j] = np.log1p((z[j] - top) / top)
        else:
            x[j] = np.log(z[j]) - np.log(top)
        spread = max(spread, -x[j])
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
    """Indices of the models with the largest probabilities, of each row and group of models.

    Probabilities rise or fall with u = shape ln(z / scale), which takes one logarithm, and none for
    most: u is at most shape (z / scale - 1). Models are (scale, shape, location); see
    ``WeibullTail.mean_of_largest``. `best` has shape (r, K, n) and is -1 to begin with.
    """
    scale, shape, location = models
    n = best.shape[2]
    keys = np.empty(n)
    for i in range(s.shape[0]):
        start = 0
        for c in range(stops.size):
            keys[:] = -np.inf
            found = best[i, c]
            for j in range(start, stops[c]):
                z = max(translate + sign * (s[i, j] - location[j]), 0.0)
                if shape[j] == np.inf:
                    key = np.inf if (z <= scale[j] if survivor else z >= scale[j]) else -np.inf
                elif survivor:
                    key = -shape[j] * np.log(z / scale[j]) if z > 0.0 else np.inf
                else:
                    key = shape[j] * (z / scale[j] - 1.0)
                    if key > keys[n - 1]:
                        key = shape[j] * np.log(z / scale[j]) if z > 0.0 else -np.inf
                k = j - start
                if k >= n:
                    if not key > keys[n - 1]:
                        continue
                    k = n - 1
                while k > 0 and key > keys[k - 1]:
                    keys[k] = keys[k - 1]
                    found[k] = found[k - 1]
                    k -= 1
                keys[k] = key
                found[k] = j
            start = stops[c]
