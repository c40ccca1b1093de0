"""The base class of methods that accept samples within a distance of a class."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from ..solver.points import directions
from ._classifier import OpenSetClassifier
from ._validation import validate_samples, validate_training_data
from .fitted import check_array, require
from .parameters import QUANTILES, RULES, SearchSpec


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Rows of X (n, d) divided by their norms; a row of zeros is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import unit_rows
    >>> unit_rows(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    zero = np.flatnonzero(~X.any(axis=1))
    if zero.size:
        raise ValueError(
            f"X has {zero.size} rows of zeros (the first is row {zero[0]}), which have no "
            "direction. Remove them, or use features that are not normalised."
        )
    return directions(X)


class DistanceClassifier(OpenSetClassifier):
    """Base class of methods that accept samples within a distance of a class.

    A subclass writes :meth:`fit_classes` and :meth:`distances`. The radius, the largest distance
    that is accepted, is a quantile of the distances of training samples to their own classes. Known
    unknowns can lower it: then it is the radius up to that quantile with the largest mean of the
    share of training samples that are accepted and the share of known unknowns that are rejected.
    With the parameter ``per_class`` each class has its own radius (a class of one sample takes the
    common one), with ``normalize`` samples are divided by their norms first.

    Attributes
    ----------
    radius_ : ndarray of shape (K,)
        The largest distance that each class accepts.

    Examples
    --------
    >>> from openset.gaussian import OpenSetCentroids
    >>> model = OpenSetCentroids(quantile=1.0).fit([[0.0], [2.0], [9.0], [10.0]], [0, 0, 1, 1])
    >>> model.radius_
    array([2., 1.])
    """

    _parameter_constraints: dict = {"quantile": RULES["quantile"]}

    search_spec = SearchSpec({"default": {"quantile": QUANTILES}}, after_fit=("quantile",))

    quantile: float
    per_class: bool = False
    normalize: bool = False

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Describe the classes and measure the distances of the training samples to them.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)

        Returns
        -------
        self
        """
        X, codes, _, _ = validate_training_data(self, X, y)
        X = unit_rows(X) if self.normalize else X
        rows = np.flatnonzero(codes < len(self.classes_))
        own = self.fit_classes(X[rows], codes[rows], rows)
        # The distances that the radii are taken from.
        self._unknown = self.distances(X[codes == len(self.classes_)])
        if np.isnan(own).all():
            raise ValueError(
                f"n_samples={len(own)}: no class has two samples, so {type(self).__name__} cannot "
                "tell how far the samples of a class lie from it. Give at least one class two."
            )
        order = np.lexsort([own, codes[rows]])  # NaN comes last in each class
        kept = order[~np.isnan(own[order])]
        self._own, self._own_codes = own[kept], codes[rows][kept]
        return self

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Set the fitted attributes that describe the classes; measure the training samples.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Samples of known classes, normalised if the method says so.
        codes, rows : ndarray of shape (n,)
            Class indices, and rows in the X of fit.

        Returns
        -------
        ndarray of shape (n,)
            Distance of each sample to its class without that sample; NaN if there is no other.
        """
        raise NotImplementedError(f"{type(self).__name__} does not describe its classes.")

    def distances(self, X: np.ndarray) -> np.ndarray:
        """Return the distance of each sample to each class.

        Parameters
        ----------
        X : ndarray of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        raise NotImplementedError(f"{type(self).__name__} does not define its distances.")

    def raw_scores(self, X):
        X = validate_samples(self, X)
        distances = self.distances(unit_rows(X) if self.normalize else X)
        return -np.minimum(distances, np.finfo(np.float64).max / 4)  # inf where squares overflow

    def check_fitted(self):
        sizes = super().check_fitted()
        check_array("_own", self._own, "own", sizes)
        check_array("_own_codes", self._own_codes, "own int", sizes)
        check_array("_unknown", self._unknown, "unknown learned", sizes)  # removed classes included
        fits = np.all(self._own_codes < sizes["learned"]) and sizes["learned"] >= sizes["K"]
        require(fits, "_own_codes names a class that is not there")
        require(len(self._own) > 0, "_own is empty")
        return sizes

    def take_classes(self, index: np.ndarray) -> None:
        super().take_classes(index)
        self.take_distances(index)

    def take_distances(self, index: np.ndarray) -> None:
        """Reorder the distances that the radii are taken from, as :meth:`take_classes` does."""
        # Those of removed classes stay, with codes behind the others, so that a radius that all
        # classes share does not change.
        order = np.r_[index, np.setdiff1d(np.arange(self._unknown.shape[1]), index)]
        self._own_codes = np.argsort(order)[self._own_codes]
        self._unknown = self._unknown[:, order]

    @property
    def radius_(self) -> np.ndarray:
        """(K,) largest distance that each class accepts, for the present `quantile`."""
        check_is_fitted(self)
        radius = np.full(len(self.classes_), self._radius(self._own, self._unknown.min(axis=1)))
        if self.per_class:
            for c in np.unique(self._own_codes[self._own_codes < len(radius)]):
                # An unknown sample counts for the class that it is nearest to.
                near = self._unknown[self._unknown.argmin(axis=1) == c, c]
                radius[c] = self._radius(self._own[self._own_codes == c], near)
        return radius

    def _radius(self, own, unknown):
        largest = np.quantile(own, self.quantile)
        if unknown.size == 0:
            return largest
        radii = np.append(np.sort(own[own < largest]), largest)
        accepted = np.searchsorted(np.sort(own), radii, side="right") / len(own)
        rejected = 1.0 - np.searchsorted(np.sort(unknown), radii, side="right") / len(unknown)
        mean = accepted + rejected
        return radii[len(mean) - 1 - mean[::-1].argmax()]  # the largest of the best

    def decide(self, raw):
        return raw + self.radius_
