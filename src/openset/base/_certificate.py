"""The certificate of a bounded class: how far from its support vectors it accepts anything."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..kernels import Kernel, Linear
from ..solver.points import (
    DistancesTo,
    center_of,
    left_factor,
    right_factor,
    row_blocks,
    squared_norms,
)
from ..utils import thread_map

# Relative slack of the radius, so that rounding cannot break the promise.
_SLACK = 1e-5

# Rows per tile in `outside`: their products stay in the CPU cache.
_TILE = 256
# Error of a squared distance in float32, relative to the norms: rows closer than this to the edge
# of a certificate are not reported as outside.
_ROUNDING = 1e-5
# Largest coordinate, in units of the certificate: its square stays within float32, and farther away
# is outside anyway.
_FAR = 1e6


def known_radius(
    coef: np.ndarray, bias: np.ndarray, kernel: Kernel | Linear, gamma: np.ndarray
) -> np.ndarray:
    """Return the distance from every positive support vector beyond which a class rejects.

    Farther than r, the positive part of f is at most S+ k(gamma r^2), the negative part at most
    zero, so f < 0 as soon as k(gamma r^2) <= -b / S+.

    Parameters
    ----------
    coef : ndarray of shape (K, n_sv)
        Coefficients of the kernel expansion of each class.
    bias, kernel, gamma
        Biases and widths, of shape (K,), and the kernel.

    Returns
    -------
    ndarray of shape (K,)
        inf where there is no such distance.
    """
    radius = np.full(len(bias), np.inf)
    if isinstance(kernel, Linear):
        return radius
    # One row at a time: with many classes the coefficients take hundreds of megabytes.
    positive = [np.where(row > 0, row, 0.0).sum() for row in coef]
    for c in np.flatnonzero(bias < 0):
        level = -bias[c] * (1 - _SLACK)
        inside = level < positive[c]
        # The root first: gamma may be so small that the quotient overflows.
        reach = np.sqrt(kernel.inverse(level / positive[c])) if inside else 0.0
        radius[c] = reach / np.sqrt(gamma[c])
    return radius


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
        """Return how far each sample lies beyond the certificate of each class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
            Distance to the nearest positive support vector of the class less its radius: where
            positive, the class rejects, and everything it accepts is at least this far away. -inf
            for a class without certificate, inf for one without positive support vectors.
        """
        X = X if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
        distances = DistancesTo(self._vectors, "euclidean")
        blocks = row_blocks(0, X.shape[0], self._vectors.shape[0])
        parts = [self._margin_of(distances(X[rows])) for rows in blocks]
        return np.concatenate([np.empty((0, len(self.radius))), *parts])

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
        """Return which samples certainly lie outside the certificate of every class, fast.

        Each support vector carries the largest radius of the classes it is positive for. Then one
        comparison per support vector suffices, ``|x - s|^2 - r_s^2 <= 0``, from one product in
        float32 with an allowance for rounding.

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_jobs : int, default=None
            Number of threads.

        Returns
        -------
        ndarray of shape (n,), bool
        """
        if self._balls is None:
            self._balls = self._make_balls()
        balls, center, size, largest = self._balls
        with np.errstate(over="ignore"):
            X = np.clip((np.asarray(X, dtype=np.float64) - center) / size, -_FAR, _FAR)
        points, norms = left_factor(X, np.float32), squared_norms(X)

        def beyond(start):
            return (points[start : start + _TILE] @ balls).min(axis=1)

        tiles = list(thread_map(beyond, range(0, len(X), _TILE), n_jobs))
        return np.concatenate([np.zeros(0), *tiles]) > _ROUNDING * (norms + largest)

    def _make_balls(self):
        if not self.complete:
            raise ValueError("outside() needs a certificate of every class; see bounded_.")
        reach = np.where(self._positive, self.radius[:, None], -np.inf).max(axis=0)
        used = np.isfinite(reach)
        support = self._vectors[used]
        center = center_of(support)
        # In units of the largest distance that matters: float32 holds no 1e25 squared.
        size = max(np.abs(support - center).max(), reach[used].max()) or 1.0
        support, reach = (support - center) / size, reach[used] / size
        balls = np.ascontiguousarray(right_factor(support, np.float32, less=reach**2).T)
        return balls, center, size, squared_norms(support).max()
