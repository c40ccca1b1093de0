"""A score that is learned from a batch, for discoveries with a promise (AdaDetect).

Known rows in two parts: the first trains, the second calibrates. Calibration rows and batch are
then one set, in which every row is a known unknown with the probability of being unknown as its
weight, and is scored by a machine that has not seen it. Weights, folds and scores depend on the
distinct rows of that set and their multiplicities alone, in an order of their content: exchanging
rows between calibration and batch changes no score.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, _fit_context, clone
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, check_random_state, has_fit_parameter

from ..base import known_classes, takes_known_unknowns
from ..base.parameters import param, with_parameters
from ..calibration import mixture
from ..model_selection import held_out_scores
from ..utils import chosen_width, split_fitted, unwrap
from ._crossed import LIGHT, stack, unknown_probability

_FOLDS = 3


@with_parameters
class LearnedScore(BaseEstimator):
    """Known rows from which, with a batch, a score is learned for ``find_unknowns(learn=True)``.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator that learns from known unknowns and takes ``sample_weight``, such as
        :class:`openset.OpenSetSVC`, or a Pipeline or a search of one. Parameters and transformers
        come from the training part alone.
    calibration_size : float in (0, 1), default=0.5
        Share of the known rows that are kept for the p-values.
    random_state : int, RandomState instance or None, default=None
        Seed of the split.

    Attributes
    ----------
    model_ : estimator
        Fitted to the training part.
    classes_ : ndarray of shape (K,)
    n_calibration_ : int

    References
    ----------
    A. Marandon, L. Lei, D. Mary, E. Roquain, "Adaptive novelty detection with false discovery rate
    guarantee", Annals of Statistics 52(1), 2024.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.utils import shuffle
    >>> from openset import OpenSetSVC
    >>> from openset.calibration import find_unknowns
    >>> from openset.traffic import LearnedScore
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = shuffle(X / 16, y, random_state=0)
    >>> known, new = y < 6, y == 7
    >>> score = LearnedScore(OpenSetSVC(gamma=0.1), random_state=0)
    >>> score = score.fit(X[known][:800], y[known][:800])
    >>> batch = list(X[known][800:]) + list(X[new][:60])
    >>> is_unknown = find_unknowns(score, batch, q=0.1, learn=True)
    >>> n_known = len(batch) - 60
    >>> print(f"{is_unknown[n_known:].sum()} of 60 found, {is_unknown[:n_known].sum()} false")
    57 of 60 found, 3 false
    """

    estimator: BaseEstimator
    calibration_size: float = param(0.5, Interval(Real, 0.0, 1.0, closed="neither"))
    random_state: Any = None

    _parameter_constraints = {"estimator": [HasMethods(["fit", "decision_function"])]}

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> LearnedScore:
        """Split the rows and fit the training part.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        y : array-like of shape (n,)
            Known classes; rows that carry the explicit unknown label of the estimator train as
            known unknowns.

        Returns
        -------
        self
        """
        inner = unwrap(self.estimator)
        label = "?" if inner.unknown_label == "auto" else inner.unknown_label
        takes = takes_known_unknowns(clone(inner).set_params(unknown_label=label), label)
        if not (takes and has_fit_parameter(inner, "sample_weight")):
            raise ValueError(
                f"estimator={type(inner).__name__} cannot learn from weighted known unknowns. Use "
                "OpenSetSVC, or find_unknowns without learning."
            )
        (X, y) = indexable(X, np.asarray(y))
        classes, codes = known_classes(inner.unknown_label, y)
        known = np.flatnonzero(codes < len(classes))
        n_rest = round(self.calibration_size * len(known))
        # Not stratified: the calibration rows must be like those of the batch, class shares too.
        rest = check_random_state(self.random_state).permutation(known)[:n_rest]
        rows = np.setdiff1d(np.arange(len(y)), rest)
        if lost := np.setdiff1d(classes, y[rows]).tolist():
            raise ValueError(
                f"calibration_size={self.calibration_size!r} leaves no row of {lost!r} to fit. "
                "Lower it, or give more rows."
            )
        X_fit, self._y = _safe_indexing(X, rows), y[rows]
        self.model_ = clone(self.estimator).fit(X_fit, self._y)
        transform, final = split_fitted(self.model_)
        parts = transform(X_fit), transform(_safe_indexing(X, rest))
        self._Z, self._Z_rest = (Z if sparse.issparse(Z) else np.asarray(Z) for Z in parts)
        self.classes_, self.n_calibration_ = final.classes_, n_rest
        # With the kernel width of the training part.
        self._final = clone(final).set_params(
            unknown_label=final.unknown_label_, **chosen_width(final)
        )
        scores = held_out_scores(self._final, self._Z, self._y, np.arange(len(self._y)) % _FOLDS)
        self._known_scores = scores[np.isin(self._y, self.classes_)]
        return self

    def batch_scores(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Learn from calibration rows and batch, and score both.

        Parameters
        ----------
        X : array-like of shape (N, d), or whatever the estimator takes

        Returns
        -------
        calibration : ndarray of shape (n,)
            Scores of the calibration rows; larger is more known.
        batch : ndarray of shape (N,)
        """
        check_is_fitted(self)
        transform, final = split_fitted(self.model_)
        batch = transform(X)
        if np.shape(batch)[1:] != self._Z.shape[1:]:
            raise ValueError(
                f"X has shape {np.shape(batch)}, but the rows of fit have {self._Z.shape[1]} "
                "features. Pass the same columns."
            )
        mixed = stack(self._Z_rest, batch)
        first, place, counts = _distinct(mixed)
        Z = _safe_indexing(mixed, first)
        scores = final.known_score(Z)
        share = mixture(self._known_scores, np.repeat(scores, counts)).unknown_share
        weight = counts * unknown_probability(self._known_scores, scores, share, counts)
        fold, scores = np.arange(len(first)) % _FOLDS, np.empty(len(first))
        for k in range(_FOLDS):
            rows = np.flatnonzero((fold != k) & (weight > LIGHT))
            labels = np.concatenate([self._y, np.full(len(rows), final.unknown_label_)])
            weights = np.append(np.ones(len(self._y)), weight[rows])
            model = clone(self._final).fit(
                stack(self._Z, _safe_indexing(Z, rows)), labels, sample_weight=weights
            )
            rest = np.flatnonzero(fold == k)
            scores[rest] = model.known_score(_safe_indexing(Z, rest))
        scores = scores[place]
        return scores[: self.n_calibration_], scores[self.n_calibration_ :]


def _distinct(Z) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the distinct rows, in an order of their content; place (n,) and count of each."""
    if sparse.issparse(Z):
        Z.sum_duplicates()
        parts = np.split(np.arange(Z.nnz), Z.indptr[1:-1])
        texts = [Z.indices[p].astype(np.int64).tobytes() + Z.data[p].tobytes() for p in parts]
        keys = np.array(texts, dtype=object)
        return np.unique(keys, return_index=True, return_inverse=True, return_counts=True)[1:]
    _, *found = np.unique(Z, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return found[0], found[1].ravel(), found[2]
