"""The base class of methods that accept samples within a distance of a class."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..utils.distances import directions
from ._classifier import OpenSetClassifier
from .fitted import check_array, require


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Rows divided by their norms.

    Parameters
    ----------
    X : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n, d)

    Raises
    ------
    ValueError
        If a row is zero, since it has no direction.

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

    A subclass calls :meth:`set_distances` at the end of ``fit`` and writes ``raw_scores``, minus
    the distance to each class. The radius, the largest distance that is accepted, is a quantile of
    the distances of training samples to their own classes. Known unknowns can lower it: then it is
    the radius up to that quantile with the largest mean of the share of training samples that are
    accepted and the share of known unknowns that are rejected.

    Attributes
    ----------
    quantile : float in [0, 1]
        A parameter of every subclass: the share of the training samples within the radius.
    per_class : bool
        Whether each class has its own radius; False unless a subclass has such a parameter. A
        class of one sample takes the common radius.
    radius_ : ndarray of shape (K,)
        The largest distance that each class accepts.

    Examples
    --------
    >>> from openset.gaussian import OpenSetCentroids
    >>> model = OpenSetCentroids(quantile=1.0).fit([[0.0], [2.0], [9.0], [10.0]], [0, 0, 1, 1])
    >>> model.radius_
    array([2., 1.])
    """

    _parameter_constraints: dict = {
        "quantile": [Interval(Real, 0, 1, closed="both")],
        "unknown_label": "no_validation",
    }

    quantile: float
    per_class: bool = False

    def check_fitted(self):
        sizes = super().check_fitted()
        check_array("_own", self._own, "own", sizes)
        check_array("_own_codes", self._own_codes, "own int", sizes)
        check_array("_unknown", self._unknown, "unknown learned", sizes)  # removed classes included
        fits = np.all(self._own_codes < sizes["learned"]) and sizes["learned"] >= sizes["K"]
        require(fits, "_own_codes names a class that is not there")
        require(len(self._own) > 0, "_own is empty")
        return sizes

    def set_distances(self, own: np.ndarray, codes: np.ndarray, unknown: np.ndarray) -> None:
        """Store the distances that the radii are taken from.

        Parameters
        ----------
        own : ndarray of shape (n,)
            Distance of each training sample to its class without that sample; NaN where the class
            has no other sample.
        codes : ndarray of shape (n,)
        unknown : ndarray of shape (n_known_unknowns, K)
            Distances of the known unknowns to all classes.
        """
        if np.isnan(own).all():
            raise ValueError(
                f"n_samples={len(own)}: no class has two samples, so {type(self).__name__} cannot "
                "tell how far the samples of a class lie from it. Give at least one class two."
            )
        order = np.lexsort([own, codes])  # NaN comes last in each class
        kept = order[~np.isnan(own[order])]
        self._own, self._own_codes = own[kept], codes[kept]
        self._unknown = unknown

    def take_classes(self, index: np.ndarray) -> None:
        super().take_classes(index)
        self.take_distances(index)

    def take_distances(self, index: np.ndarray) -> None:
        """Reorder the distances that the radii are taken from.

        Those of removed classes stay, with codes behind the others, so that a radius that all
        classes share does not change.

        Parameters
        ----------
        index : ndarray of int
            As for :meth:`take_classes`.
        """
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
