"""The nearest class mean, with a radius per class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..base import DistanceClassifier, Traits, unit_rows
from ..solver.points import METRICS, DistancesTo, squared_norms
from ._lda import class_means


class OpenSetCentroids(DistanceClassifier):
    """The nearest class mean, with a radius per class.

    Class c accepts x if the distance from x to the mean of the class is at most ``radius_[c]``, a
    quantile of the distances of the samples of the class. On features that are not trained further,
    this is what adaptive decision boundaries become.

    Parameters
    ----------
    quantile : float in [0, 1], default=0.95
        The radius of a class is this quantile of the distances of its training samples to the mean
        of the others. So about this share of new samples of the class is accepted. Changing it
        needs no new fit.
    per_class : bool, default=True
        Whether each class has its own radius, or all have the same one. A class of one sample
        takes the common radius. Changing it needs no new fit.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance to the mean. "cosine" is one minus the cosine; then samples are divided by their
        norms before they are averaged, and a sample of zeros is an error.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts. Training rows that carry an explicit label are
        known unknowns: they can lower the radius of the class that they are nearest to, see
        :class:`openset.base.DistanceClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    n_known_unknowns_ : int
        Number of training rows that carry an explicit unknown label.
    means_ : ndarray of shape (K, d)
        Means of the classes; of norm 1 for the cosine metric.
    radius_ : ndarray of shape (K,)
        The largest distance that each class accepts.
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: always a ball for the Euclidean metric, never for
        the cosine metric, which accepts cones.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only if X has names of columns.

    References
    ----------
    H. Zhang, H. Xu, T.-E. Lin, "Deep open intent classification with adaptive decision boundary",
    AAAI 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset.gaussian import OpenSetCentroids
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OpenSetCentroids().fit(X, y)
    >>> model.predict([X[0], X[149], [5.0, 5.0, 5.0, 5.0]])
    array([ 0,  2, -1])
    >>> model.radius_.round(2)
    array([0.99, 1.49, 1.83])
    """

    _parameter_constraints: dict = {
        **DistanceClassifier._parameter_constraints,
        "per_class": ["boolean"],
        "metric": [StrOptions(set(METRICS))],
    }

    fitted_attributes = {"means_": "K d"}
    traits = Traits(
        "centroids",
        bounded=True,
        condition="the Euclidean metric",
        known_unknowns="they can lower the radius of the class nearest to them",
    )

    class_attributes = ("means_",)

    def __init__(
        self,
        quantile: float = 0.95,
        per_class: bool = True,
        metric: str = "euclidean",
        unknown_label: Any = "auto",
    ):
        self.quantile = quantile
        self.per_class = per_class
        self.metric = metric
        self.unknown_label = unknown_label

    @property
    def normalize(self) -> bool:  # type: ignore[override]
        """Whether samples are divided by their norms first: for the cosine metric."""
        return self.metric == "cosine"

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        means = class_means(X, codes)
        self.means_ = _unit_means(means, self.classes_) if self.metric == "cosine" else means
        return _distances_to_others(X, codes, means, self.metric)

    def distances(self, X: np.ndarray) -> np.ndarray:
        return DistancesTo(self.means_, self.metric)(X)

    def far_scores(self) -> np.ndarray:
        # The cosine metric accepts the direction of the mean at any distance, with this score.
        bounded = self.metric == "euclidean"
        return np.full(len(self.classes_), -np.inf) if bounded else self.radius_


def _unit_means(means, classes):
    """Means divided by their norms."""
    zero = np.linalg.norm(means, axis=1) < 1e-12
    if zero.any():
        raise ValueError(
            f"The normalised samples of {classes[zero].tolist()!r} have a mean of zero, which has "
            "no direction. Use metric='euclidean'."
        )
    return unit_rows(means)


def _distances_to_others(X, codes, means, metric):
    """Distance of each sample to the mean of the others of its class; NaN if there are none."""
    n = np.bincount(codes)[codes]
    if metric == "euclidean":  # the mean moves away from the sample by 1 / (n - 1) of the way
        norms = np.sqrt(squared_norms(X - means[codes]))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(n > 1, norms * n / (n - 1.0), np.nan)
    others = n[:, None] * means[codes] - X
    norms = np.sqrt(squared_norms(others))
    dots = np.einsum("ij,ij->i", X, others)
    cosine = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 1e-12)
    return np.where(n > 1, np.maximum(1.0 - cosine, 0.0), np.nan)
