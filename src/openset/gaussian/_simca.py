"""A principal subspace per class: score distance and orthogonal distance (SIMCA)."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils._param_validation import Interval

from ..base import DistanceClassifier, SearchSpec, Traits
from ..base.fitted import require
from ..base.parameters import QUANTILES
from ..solver.points import squared_norms
from ._lda import FAR, class_means, pulled_in

N_COMPONENTS = [Interval(Integral, 0, None, closed="left"), Interval(Real, 0, 1, closed="neither")]
# Shares of the variance that a search tries.
SHARES = [0.5, 0.7, 0.8, 0.9, 0.95, 0.99]
# Variances below this share of the total count as rounding.
_LEAST = 1e-9
_FOLDS = 5
# Samples of a class that are measured held out: more do not change the moments.
_ENOUGH = 200


class SIMCA(DistanceClassifier):
    """A principal subspace per class, accepted by score distance and orthogonal distance.

    Soft independent modelling of class analogy in its data-driven form, as chemists use it. Each
    class is described alone: its mean, its first principal directions, and how far its samples lie
    from the mean within the subspace (score distance h) and from the subspace (orthogonal distance
    v). The two are added in units of their means, with the degrees of freedom that their moments
    tell, which makes a chi-squared variable; its normal score is the distance to the class.

    Parameters
    ----------
    n_components : int or float, default=0.9
        Directions per class; a float in (0, 1) is the share of the variance of the class that they
        explain. A class of n samples has at most n - 2, and fewer than there are features.
    quantile : float in [0, 1], default=0.95
        The radius is this quantile of the distances of training samples to their own classes, each
        measured with a fifth of the class held out. Changing it needs no new fit.
    per_class : bool, default=False
        Whether each class has its own radius; the distances of all classes are in the same units.
        Changing it needs no new fit.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts. Training rows that carry an explicit label are
        known unknowns: they can lower the radius, see :class:`openset.base.DistanceClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    n_known_unknowns_ : int
        Number of training rows that carry an explicit unknown label.
    means_ : ndarray of shape (K, d)
    components_ : ndarray of shape (K, a, d)
        Principal directions of each class, divided by the standard deviations along them; zeros
        where a class has fewer than a.
    deviations_ : ndarray of shape (K, a)
        These standard deviations; zeros where there is no direction.
    moments_ : ndarray of shape (K, 4)
        Mean of h, its degrees of freedom, mean of v, its degrees of freedom, of held-out samples.
        A class of fewer than five samples takes those of all classes together.
    radius_ : ndarray of shape (K,)
        The largest distance that each class accepts.
    bounded_ : ndarray of shape (K,), bool
        Always True: far away h or v grows without limit.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only if X has names of columns.

    References
    ----------
    S. Wold, "Pattern recognition by means of disjoint principal components models", Pattern
    Recognition 8(3), 1976.

    A. Pomerantsev, O. Rodionova, "Concept and role of extreme objects in PCA/SIMCA", Journal of
    Chemometrics 28(5), 2014.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset.gaussian import SIMCA
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SIMCA(n_components=2).fit(X, y)
    >>> model.predict([X[0], X[149], [5.0, 5.0, 5.0, 5.0]])
    array([ 0,  2, -1])
    >>> model.bounded_
    array([ True,  True,  True])
    """

    _parameter_constraints: dict = {
        **DistanceClassifier._parameter_constraints,
        "n_components": N_COMPONENTS,
        "per_class": ["boolean"],
    }
    fitted_attributes = {
        **{"means_": "K d", "components_": "K a d", "deviations_": "K a", "moments_": "K four"},
    }
    traits = Traits(
        "SIMCA", one_class=True, bounded=True, known_unknowns="they can lower the radius"
    )
    class_attributes = ("means_", "components_", "deviations_", "moments_")
    search_spec = SearchSpec(
        {"default": {"n_components": SHARES, "quantile": QUANTILES}}, after_fit=("quantile",)
    )

    def __init__(
        self,
        n_components: float = 0.9,
        quantile: float = 0.95,
        per_class: bool = False,
        unknown_label: Any = "auto",
    ):
        self.n_components = n_components
        self.quantile = quantile
        self.per_class = per_class
        self.unknown_label = unknown_label

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        self.means_ = class_means(X, codes)
        least = _LEAST * float(squared_norms(X - self.means_[codes]).mean())
        if not np.isfinite(least):
            raise ValueError("The variance of X overflows. Scale X, e.g. by StandardScaler.")
        if np.sqrt(least / _LEAST) <= 1e-14 * np.abs(X).max():  # equal rows, up to rounding
            raise ValueError(
                f"The variance of X within the classes is zero (n_samples={len(X)}): every class "
                "has one distinct sample. Give at least one class two different samples."
            )
        h, v, own = (np.full(len(X), np.nan) for _ in range(3))
        subspaces = []
        for c in range(len(self.means_)):
            members = np.flatnonzero(codes == c)
            for fit, judged in held_out_folds(X[members], _ENOUGH):
                part, mean = X[members[fit]], X[members[fit]].mean(axis=0)
                subspace = self._subspace(part - mean, least)
                h[members[judged]], v[members[judged]] = _two_distances(
                    X[members[judged]] - mean, subspace
                )
            subspaces.append(self._subspace(X[members] - self.means_[c], least))
        a = max(len(subspace) for subspace in subspaces)
        padded = [np.pad(part, ((0, a - len(part)), (0, 0))) for part in subspaces]
        scaled = np.stack(padded)
        norms = np.sqrt(np.einsum("kad,kad->ka", scaled, scaled))
        self.components_ = scaled
        self.deviations_ = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        pooled = _moments(h, v, least)
        sizes = np.bincount(codes)
        self.moments_ = np.array(
            [
                _moments(h[codes == c], v[codes == c], least) if n >= _FOLDS else pooled
                for c, n in enumerate(sizes)
            ]
        )
        for c in range(len(sizes)):
            own[codes == c] = _normal_score(h[codes == c], v[codes == c], self.moments_[c])
        return own

    def _subspace(self, R, least):
        """Directions over standard deviations, (a, d), of centred rows of one class."""
        limit = min(len(R) - 2, R.shape[1] - 1)
        if limit < 1:
            return np.empty((0, R.shape[1]))
        values, vectors = principal_directions(R, self.n_components, limit)
        kept = values > least
        return vectors[kept] / np.sqrt(values[kept, None])

    def distances(self, X: np.ndarray) -> np.ndarray:
        columns = []
        for mean, subspace, moments in zip(
            self.means_, self.components_, self.moments_, strict=True
        ):
            used = subspace[subspace.any(axis=1)]
            R = pulled_in(X - mean, FAR)
            h, v = _two_distances(R, used)
            columns.append(_normal_score(h, v, moments))
        return np.column_stack(columns)

    def check_fitted(self):
        sizes = super().check_fitted()
        require(self.moments_.shape[1] == 4, "moments_ does not have four columns")
        require(np.all(self.moments_[:, 1:] > 0), "moments_ has entries that are not positive")
        require(np.all(self.moments_[:, 0] >= 0), "moments_ has negative means")
        return sizes

    def far_scores(self) -> np.ndarray:
        return np.full(len(self.classes_), -np.inf)


def principal_directions(
    R: np.ndarray, n_components: float, limit: int
) -> tuple[np.ndarray, np.ndarray]:
    """Variances, (a,), and orthonormal directions, (a, d), of rows R about the origin."""
    n, d = R.shape
    small = R.T @ R / n if d <= n else R @ R.T / n
    values, vectors = eigh(small)
    values, vectors = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    count = n_components
    if not isinstance(n_components, Integral):
        shares = np.cumsum(values) / max(values.sum(), np.finfo(float).tiny)
        count = int(np.searchsorted(shares, n_components - 1e-12)) + 1
    count = min(int(count), limit)
    values, vectors = values[:count], vectors[:count]
    if d > n:
        vectors = vectors @ R
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return values, vectors


def held_out_folds(X: np.ndarray, enough: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on and rows to measure, until `enough` are measured.

    Rows are dealt out in sorted order, so that the folds do not depend on the order of the rows.
    """
    n = len(X)
    order, measured = np.lexsort(X.T[::-1]), 0
    for fold in range(min(_FOLDS, n) if n > 1 else 0):
        judged = order[fold::_FOLDS]
        yield np.setdiff1d(order, judged), judged
        measured += len(judged)
        if measured >= enough:
            return


def _two_distances(R, subspace):
    """Score distance and orthogonal distance, squared, of centred rows R: (n,) each."""
    T = R @ subspace.T
    # A scaled direction has the norm 1 / deviation.
    inside = np.einsum("ij,ij->i", T, T)
    lengths = squared_norms(subspace)
    along = np.einsum("ij,ij,j->i", T, T, 1.0 / lengths) if len(lengths) else 0.0
    return inside, np.maximum(squared_norms(R) - along, 0.0)


def _moments(h, v, least):
    """Mean and degrees of freedom of h and of v, by the method of moments; NaN is left out."""
    moments = []
    for values in (h, v):
        values = values[~np.isnan(values)]
        mean = float(values.mean()) if len(values) else 0.0
        spread = float(values.var()) if len(values) else 0.0
        freedom = 2.0 * mean**2 / spread if spread > 0 else 1.0
        moments += [mean, float(np.clip(np.rint(freedom), 1.0, 1e6))]
    moments[2] = max(moments[2], least)
    return moments


def _normal_score(h, v, moments):
    """The chi-squared sum of both distances as a standard normal variable (Wilson, Hilferty)."""
    h_mean, h_freedom, v_mean, v_freedom = moments
    total, freedom = v_freedom * (v / v_mean), v_freedom
    if h_mean > 0:
        total, freedom = total + h_freedom * (h / h_mean), freedom + h_freedom
    width = 2.0 / (9.0 * freedom)
    return (np.cbrt(total / freedom) - (1.0 - width)) / np.sqrt(width)
