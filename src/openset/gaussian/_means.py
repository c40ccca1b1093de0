"""Classes as means: Gaussians with one covariance, and centroids."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from ..base import DistanceClassifier, Traits, unit_rows
from ..base.fitted import check_array, require
from ..base.parameters import with_parameters
from ..solver.points import DistancesTo, left_factor, right_factor, squared_norms

# Least shrinkage: where Ledoit and Wolf's is 0, the covariance can be singular.
_LEAST = 1e-9
# Samples are moved to at most this many standard deviations, so that no square overflows.
FAR = 1e100


@with_parameters
class OpenSetLDA(DistanceClassifier):
    """Gaussian classes with one covariance, accepted by Mahalanobis distance.

    Class c accepts x if d_c(x) = (x - m_c)' S^-1 (x - m_c) is at most ``radius_``. m_c is the mean
    of the class and S the Ledoit-Wolf covariance of all samples about the means of their classes.

    Parameters
    ----------
    quantile : float in [0, 1], default=0.95
        The radius is this quantile of the distances of training samples to their own classes,
        each measured with the sample left out (see Notes). So about this share of new samples of
        known classes is accepted. Changing it needs no new fit.
    per_class : bool, default=False
        Whether each class has its own radius; otherwise all have the same one, since they share
        the covariance. A class of one sample takes the common radius. Changing it needs no new fit.
    relative : bool, default=False
        Subtract the distance under one Gaussian for all samples, which removes what all classes
        have in common (Ren et al.).
    normalize : bool, default=False
        Divide each sample by its norm first. A sample of zeros is an error.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts. Training rows that carry an explicit label are
        known unknowns: they can lower the radius, see :class:`openset.base.DistanceClassifier`.

    Attributes
    ----------
    means_ : ndarray of shape (K, d)
        Means of the classes, of normalised samples with ``normalize=True``.
    covariance_ : ndarray of shape (d, d)
        S, the shrunk covariance of the classes.
    shrinkage_ : float
        Its shrinkage.
    radius_ : ndarray of shape (K,)
        The largest distance that each class accepts.
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: always for the plain distance; for the relative one
        exactly if the smallest eigenvalue of S^-1 - S_0^-1 is positive, with S_0 the covariance of
        all samples; never with ``normalize=True``, which accepts cones.
    classes_, unknown_label_, n_known_unknowns_, n_features_in_, feature_names_in_
        As for :class:`openset.OpenSetSVC`.

    Notes
    -----
    Distances of training samples to a mean and a covariance that were computed from them are too
    small if there are many features. Without sample i of a class of n_c among n samples, the mean
    moves by (x_i - m_c) / (n_c - 1) and the covariance loses one rank-one term. By the formula of
    Sherman and Morrison the distance becomes (n_c / (n_c - 1))^2 d / (1 - q d) with
    q = (1 - shrinkage) n_c / (n (n_c - 1)); only the amount of shrinkage is not computed anew.

    Ledoit and Wolf's shrinkage depends on the scales of the features: standardise them if they
    have different units. It is at least 1e-9, so that S can be inverted.

    References
    ----------
    K. Lee, K. Lee, H. Lee, J. Shin, "A simple unified framework for detecting out-of-distribution
    samples and adversarial attacks", NeurIPS 2018.

    J. Ren, S. Fort, J. Liu, A. Guha Roy, S. Padhy, B. Lakshminarayanan, "A simple fix to
    Mahalanobis distance for improving near-OOD detection", 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset.gaussian import OpenSetLDA
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OpenSetLDA().fit(X, y)
    >>> model.predict([X[0], X[149], [5.0, 5.0, 5.0, 5.0]])
    array([ 0,  2, -1])
    >>> model.bounded_
    array([ True,  True,  True])
    """

    quantile: float = 0.95
    per_class: bool = False
    relative: bool = False
    normalize: bool = False
    unknown_label: Any = "auto"

    fitted_attributes = {
        **{"means_": "K d", "covariance_": "d d", "shrinkage_": "", "_mean": "d"},
        **{"_basis": "d r", "_centers": "K r"},
    }
    traits = Traits(
        "LDA",
        bounded=True,
        condition="normalize=False, and with relative=True a positive definite S^-1 - S_0^-1",
        known_unknowns="they can lower the radius",
    )

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        sizes = np.bincount(codes)
        self.means_ = class_means(X, codes)
        self.covariance_, self.shrinkage_ = shrunk_covariance(X - self.means_[codes], X)
        self._whiten(X)
        Z = self._project(X)
        squares = squared_norms(Z - self._centers[codes])
        own = _leave_one_out_mahalanobis(
            squares, self.shrinkage_, sizes[codes], len(X), sizes[codes]
        )
        if self.relative:
            total = np.einsum("ij,j,ij->i", Z, 1.0 / self._spread, Z)
            own = own - _leave_one_out_mahalanobis(
                total, self._total_shrinkage, len(X), len(X), sizes[codes]
            )
        return own

    def _whiten(self, X):
        """Find the basis in which S is the identity and, if it is used, S_0 is diagonal."""
        # A projected sample is z = V'(x - m_0), with m_0 the mean of all samples.
        self._mean = X.mean(axis=0)
        if self.relative:
            total, self._total_shrinkage = shrunk_covariance(X - self._mean, X)
            self._spread, self._basis = eigh(total, self.covariance_)
        else:
            values, vectors = eigenvectors(self.covariance_)
            self._basis = vectors / np.sqrt(values)
        self._centers = (self.means_ - self._mean) @ self._basis

    def _project(self, X):
        limit = FAR / max(1.0, np.abs(self._basis).sum(axis=0).max())
        return pulled_in(X - self._mean, limit) @ self._basis

    def projection(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return what the distances are computed from.

        Returns
        -------
        mean, basis, centers, factor
            Of shapes (d,), (d, d), (K, d) and (d,). With z = basis' (x - mean), the distance to
            class c is ``sum_j factor_j z_j^2 - 2 centers_c' z + |centers_c|^2``.
        """
        # The relative distance subtracts sum_j z_j^2 / spread_j.
        factor = 1.0 - 1.0 / self._spread if self.relative else np.ones(len(self._mean))
        return self._mean, self._basis, self._centers, factor

    def distances(self, X: np.ndarray) -> np.ndarray:
        Z = self._project(X)
        norms = np.einsum("ij,j,ij->i", Z, self.projection()[3], Z)
        distances = left_factor(Z, norms=norms) @ right_factor(self._centers).T
        return distances if self.relative else np.maximum(distances, 0.0)

    def check_fitted(self):
        sizes = super().check_fitted()
        require(np.all(np.abs(self._centers) < FAR), "_centers is so large that scores overflow")
        if self.relative:
            check_array("_spread", self._spread, "r", sizes)
            require(np.all(self._spread > 1 / FAR), "_spread is not positive")
        return sizes

    def far_scores(self) -> np.ndarray:
        # The eigenvalues of S^-1 - S_0^-1 have the signs of those of 1 - 1 / spread.
        proved = not self.normalize and (not self.relative or self._spread.min() > 1.0 + 1e-12)
        return np.full(len(self.classes_), -np.inf if proved else np.inf)


def pulled_in(R: np.ndarray, limit: float) -> np.ndarray:
    """Rows of R, (n, d), shortened so that no entry exceeds the limit; R may be changed."""
    size = np.abs(R).max(axis=1, keepdims=True)
    if np.any(size > limit):
        R *= np.minimum(1.0, limit / np.maximum(size, limit))
    return R


def eigenvectors(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ascending eigenvalues and the eigenvectors, in columns, of a symmetric matrix."""
    try:
        return eigh(matrix)
    except np.linalg.LinAlgError:
        # With many equal eigenvalues (d > n) LAPACK's syevr gives up on some processors.
        return np.linalg.eigh(matrix)


def class_means(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Means of the classes, (K, d)."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    return np.add.reduceat(X[order], np.r_[0, np.cumsum(sizes)[:-1]], axis=0) / sizes[:, None]


def require_spread(name: str, variance: float, X: np.ndarray) -> None:
    """Raise ValueError if the variance of X (n, d) within the classes overflows or is zero."""
    if not np.isfinite(variance):
        raise ValueError("The variance of X overflows. Scale X, for instance by StandardScaler.")
    if np.sqrt(variance) <= 1e-14 * np.abs(X).max():  # equal rows, up to rounding
        raise ValueError(
            f"The {name} of X within the classes is zero (n_samples={len(X)}): every class has one "
            "distinct sample. Give at least one class two different samples."
        )


def shrunk_covariance(R: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, float]:
    """The Ledoit-Wolf covariance of R, the rows of X about their means, and its shrinkage."""
    empirical = R.T @ R / len(R)
    variance = np.trace(empirical) / len(empirical)
    require_spread("covariance", variance, X)
    # Variance of the covariance over its distance from a sphere.
    squares, distance = (empirical**2).sum(), (empirical**2).sum() - len(empirical) * variance**2
    fourth = (squared_norms(R) ** 2).sum() / len(R)
    error = min((fourth - squares) / len(R), distance)
    shrinkage = max(_LEAST, error / distance if error > 0 else 0.0)
    shrunk = (1.0 - shrinkage) * empirical
    shrunk.flat[:: len(shrunk) + 1] += shrinkage * variance
    return shrunk, shrinkage


def _leave_one_out_mahalanobis(d, shrinkage, n_group, n, n_class):
    """Distances d to a mean of n_group samples and a covariance of n, each without its sample."""
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(n_class > 1, n_group / (np.asarray(n_group) - 1.0), np.nan)
        lost = (1.0 - shrinkage) * factor / n
        return factor**2 * d / np.maximum(1.0 - lost * d, np.finfo(np.float64).eps)


@with_parameters
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
    means_ : ndarray of shape (K, d)
        Means of the classes; of norm 1 for the cosine metric.
    radius_ : ndarray of shape (K,)
        The largest distance that each class accepts.
    bounded_ : ndarray of shape (K,), bool
        Whether the accepted region is bounded: always a ball for the Euclidean metric, never for
        the cosine metric, which accepts cones.
    classes_, unknown_label_, n_known_unknowns_, n_features_in_, feature_names_in_
        As for :class:`openset.OpenSetSVC`.

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

    quantile: float = 0.95
    per_class: bool = True
    metric: str = "euclidean"
    unknown_label: Any = "auto"

    fitted_attributes = {"means_": "K d"}
    traits = Traits(
        "centroids",
        bounded=True,
        condition="the Euclidean metric",
        known_unknowns="they can lower the radius of the class nearest to them",
    )

    @property
    def normalize(self) -> bool:  # type: ignore[override]
        """Whether samples are divided by their norms first: for the cosine metric."""
        return self.metric == "cosine"

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        # A sample is measured from the mean of the others of its class; NaN if there are none.
        self.means_, n = class_means(X, codes), np.bincount(codes)[codes]
        if self.metric == "euclidean":  # the mean moves away by 1 / (n - 1) of the way
            norms = np.sqrt(squared_norms(X - self.means_[codes]))
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.where(n > 1, norms * n / (n - 1.0), np.nan)
        others = n[:, None] * self.means_[codes] - X
        zero = np.linalg.norm(self.means_, axis=1) < 1e-12
        if zero.any():
            raise ValueError(
                f"The normalised samples of {self.classes_[zero].tolist()!r} have a mean of zero, "
                "which has no direction. Use metric='euclidean'."
            )
        self.means_ = unit_rows(self.means_)
        norms = np.sqrt(squared_norms(others))
        dots = np.einsum("ij,ij->i", X, others)
        cosine = np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 1e-12)
        return np.where(n > 1, np.maximum(1.0 - cosine, 0.0), np.nan)

    def distances(self, X: np.ndarray) -> np.ndarray:
        return DistancesTo(self.means_, self.metric)(X)

    def far_scores(self) -> np.ndarray:
        # The cosine metric accepts the direction of the mean at any distance, with this score.
        bounded = self.metric == "euclidean"
        return np.full(len(self.classes_), -np.inf) if bounded else self.radius_
