"""Classes as subspaces: SIMCA, and the virtual logit (ViM)."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.linalg import solve
from scipy.special import logsumexp
from sklearn.utils._param_validation import Interval

from ..base import DistanceClassifier, SearchSpec, Traits
from ..base.fitted import require
from ..base.parameters import QUANTILES, param, with_parameters
from ..solver.points import squared_norms
from ._means import (
    FAR,
    class_means,
    eigenvectors,
    pulled_in,
    require_spread,
    shrunk_covariance,
)

N_COMPONENTS = [Interval(Integral, 0, None, closed="left"), Interval(Real, 0, 1, closed="neither")]
# A search tries these shares of the variance.
SEARCH = SearchSpec(
    {"default": {"n_components": [0.5, 0.7, 0.8, 0.9, 0.95, 0.99], "quantile": QUANTILES}},
    after_fit=("quantile",),
)
# Variances below this share of the total count as rounding.
_LEAST = 1e-9
_FOLDS = 5
# Samples of a class that are measured held out: more do not change the moments.
_ENOUGH_HELD_OUT = 200


@with_parameters
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
    classes_, unknown_label_, n_known_unknowns_, n_features_in_, feature_names_in_
        As for :class:`openset.OpenSetSVC`.

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

    n_components: float = param(0.9, *N_COMPONENTS)
    quantile: float = 0.95
    per_class: bool = False
    unknown_label: Any = "auto"

    fitted_attributes = {
        **{"means_": "K d", "components_": "K a d", "deviations_": "K a", "moments_": "K four"}
    }
    traits = Traits(
        "SIMCA", one_class=True, bounded=True, known_unknowns="they can lower the radius"
    )
    search_spec = SEARCH

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        self.means_ = class_means(X, codes)
        least = _LEAST * float(squared_norms(X - self.means_[codes]).mean())
        require_spread("variance", least / _LEAST, X)
        h, v, own = (np.full(len(X), np.nan) for _ in range(3))
        subspaces = []
        for c in range(len(self.means_)):
            members = np.flatnonzero(codes == c)
            for fit, judged in held_out_folds(X[members], _ENOUGH_HELD_OUT):
                part, mean = X[members[fit]], X[members[fit]].mean(axis=0)
                subspace = self._subspace(part - mean, least)
                h[members[judged]], v[members[judged]] = _two_distances(
                    X[members[judged]] - mean, subspace
                )
            subspaces.append(self._subspace(X[members] - self.means_[c], least))
        a = max(len(subspace) for subspace in subspaces)
        scaled = np.stack([np.pad(part, ((0, a - len(part)), (0, 0))) for part in subspaces])
        norms = np.sqrt(np.einsum("kad,kad->ka", scaled, scaled))
        self.components_ = scaled
        self.deviations_ = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        moments, pooled = [], _moments(h, v, least)
        for c, n in enumerate(np.bincount(codes)):
            h_c, v_c = h[codes == c], v[codes == c]
            moments.append(_moments(h_c, v_c, least) if n >= _FOLDS else pooled)
            own[codes == c] = _normal_score(h_c, v_c, moments[c])
        self.moments_ = np.array(moments)
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
        columns, classes = [], zip(self.means_, self.components_, self.moments_, strict=True)
        for mean, subspace, moments in classes:
            h, v = _two_distances(pulled_in(X - mean, FAR), subspace[subspace.any(axis=1)])
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
    values, vectors = eigenvectors(small)
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
    """Rows to fit on and rows to measure, until `enough` are measured."""
    # Rows are dealt out in sorted order, so that the folds do not depend on the order of the rows.
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


# Samples that are measured held out: more do not change a quantile.
_ENOUGH_RESIDUALS = 1000


@with_parameters
class ViM(DistanceClassifier):
    """A linear head with one more logit, that of the distance from the principal subspace.

    Virtual-logit matching on feature vectors. The head is ours, as there is no network: the linear
    discriminant of classes with one covariance, whose softmax is the posterior of the classes. The
    residual of x is its distance from the first principal directions of all samples, about the
    point where all logits are zero. Times ``alpha_``, which brings it to the size of the largest
    logit, it is the logit of "unknown". The score of the best class is the log-sum-exp of the
    logits less this one; the other classes are below it by their logits.

    Parameters
    ----------
    n_components : int or float, default=0.9
        Principal directions; a float in (0, 1) is the share of the second moment that they explain.
    quantile : float in [0, 1], default=0.95
        The threshold is such that this share of training samples, measured with a fifth of the
        samples held out, is accepted. Changing it needs no new fit.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts. Training rows that carry an explicit label are
        known unknowns: they can raise the threshold, see
        :class:`openset.base.DistanceClassifier`, whose distance is the negative score.

    Attributes
    ----------
    coef_ : ndarray of shape (K, d)
    intercept_ : ndarray of shape (K,)
        The head; both sum to zero over the classes.
    origin_ : ndarray of shape (d,)
        Where all logits are zero, or as near to it as a least-squares solution gets.
    components_ : ndarray of shape (a, d)
        Orthonormal principal directions of the samples less the origin.
    alpha_ : float
        Mean largest logit over mean residual, of training samples.
    radius_ : ndarray of shape (K,)
        The threshold, negated.
    bounded_ : ndarray of shape (K,), bool
        False: along a principal direction the residual does not grow, but the logits do.
    classes_, unknown_label_, n_known_unknowns_, n_features_in_, feature_names_in_
        As for :class:`openset.OpenSetSVC`.

    References
    ----------
    H. Wang, Z. Li, L. Feng, W. Zhang, "ViM: out-of-distribution with virtual-logit matching", CVPR
    2022.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset.gaussian import ViM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ViM(n_components=2).fit(X, y)
    >>> model.predict([X[0], X[149], [5.0, 9.0, 5.0, 9.0]])
    array([ 0,  2, -1])
    """

    n_components: float = param(0.9, *N_COMPONENTS)
    quantile: float = 0.95
    unknown_label: Any = "auto"

    fitted_attributes = {
        **{"coef_": "K d", "intercept_": "K", "origin_": "d", "components_": "a d", "alpha_": ""},
        **{"_head": "learned e", "_index": "K int"},
    }
    traits = Traits(
        "ViM",
        condition="never: the logits grow within the principal subspace",
        known_unknowns="they can raise the threshold",
    )
    search_spec = SEARCH

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        own = np.full(len(X), np.nan)
        for fit, judged in held_out_folds(np.column_stack([codes, X]), _ENOUGH_RESIDUALS):
            sizes = np.bincount(codes[fit], minlength=codes.max() + 1)
            judged = judged[sizes[codes[judged]] > 0]
            if sizes.max() < 2:
                continue
            present, labels = np.unique(codes[fit], return_inverse=True)
            self._describe(X[fit], labels)
            distances = self.distances(X[judged])
            own[judged] = distances[np.arange(len(judged)), np.searchsorted(present, codes[judged])]
        self._describe(X, codes)
        return own

    def _describe(self, X, codes):
        """Set the head, the principal subspace and alpha_."""
        means, priors = class_means(X, codes), np.bincount(codes) / len(X)
        covariance, _ = shrunk_covariance(X - means[codes], X)
        centre = means.mean(axis=0)
        coef = solve(covariance, (means - centre).T, assume_a="pos").T
        shift = np.log(priors) - 0.5 * np.einsum("kd,kd->k", coef, means - centre) - coef @ centre
        self.coef_, self.intercept_ = coef - coef.mean(axis=0), shift - shift.mean()
        self._head = np.column_stack([self.coef_, self.intercept_])
        self._index = np.arange(len(coef))
        self.origin_ = -np.linalg.lstsq(self.coef_, self.intercept_, rcond=1e-10)[0]
        Z = X - self.origin_
        self.components_ = principal_directions(Z, self.n_components, X.shape[1] - 1)[1]
        logits, residual = self._logits_and_residual(X)
        self.alpha_ = float(logits.max(axis=1).sum() / max(residual.sum(), 1e-12))

    def _logits_and_residual(self, X):
        """Logits of all learned classes, (n, K), and residuals from the subspace, (n,)."""
        Z = pulled_in(X - self.origin_, FAR)
        inside = squared_norms(Z @ self.components_.T) if len(self.components_) else 0.0
        residual = np.sqrt(np.maximum(squared_norms(Z) - inside, 0.0))
        coef, intercept = self._head[:, :-1], self._head[:, -1]
        return Z @ coef.T + (coef @ self.origin_ + intercept), residual

    def distances(self, X: np.ndarray) -> np.ndarray:
        logits, residual = self._logits_and_residual(X)
        # Of the best class -(log-sum-exp - virtual logit); classes may have been removed since.
        excess = logits.max(axis=1) - logsumexp(logits, axis=1) + self.alpha_ * residual
        return excess[:, None] - logits[:, self._index]

    def check_fitted(self):
        sizes = super().check_fitted()
        require(self._head.shape[1] == sizes["d"] + 1, "_head does not fit the features")
        require(np.all(self._index < len(self._head)), "_index names a class that is not there")
        return sizes
