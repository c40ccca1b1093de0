"""The virtual logit of the residual from the principal subspace (ViM), on feature vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve
from scipy.special import logsumexp

from ..base import DistanceClassifier, SearchSpec, Traits
from ..base.fitted import require
from ..base.parameters import QUANTILES
from ..solver.points import squared_norms
from ._lda import FAR, class_means, pulled_in, shrunk_covariance
from ._simca import N_COMPONENTS, SHARES, held_out_folds, principal_directions

# Samples that are measured held out: more do not change a quantile.
_ENOUGH = 1000


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
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    n_known_unknowns_ : int
        Number of training rows that carry an explicit unknown label.
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
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (d,)
        Only if X has names of columns.

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

    _parameter_constraints: dict = {
        **DistanceClassifier._parameter_constraints,
        "n_components": N_COMPONENTS,
    }
    fitted_attributes = {
        **{"coef_": "K d", "intercept_": "K", "origin_": "d", "components_": "a d", "alpha_": ""},
        **{"_head": "learned e", "_index": "K int"},
    }
    traits = Traits(
        "ViM",
        condition="never: the logits grow within the principal subspace",
        known_unknowns="they can raise the threshold",
    )
    class_attributes = ("coef_", "intercept_", "_index")
    search_spec = SearchSpec(
        {"default": {"n_components": SHARES, "quantile": QUANTILES}}, after_fit=("quantile",)
    )

    def __init__(
        self, n_components: float = 0.9, quantile: float = 0.95, unknown_label: Any = "auto"
    ):
        self.n_components = n_components
        self.quantile = quantile
        self.unknown_label = unknown_label

    def fit_classes(self, X: np.ndarray, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        own = np.full(len(X), np.nan)
        for fit, judged in held_out_folds(np.column_stack([codes, X]), _ENOUGH):
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
        self._head, self._index = (
            np.column_stack([self.coef_, self.intercept_]),
            np.arange(len(coef)),
        )
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
