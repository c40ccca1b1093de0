"""p-values and sets of classes, from the scores of the calibration samples."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..utils import split_fitted
from ..wrappers import OpenSetWrapper
from ._p_values import p_value
from ._thresholds import finite_scores, score_slack


class ConformalClassifier(OpenSetWrapper):
    """An estimator that keeps the scores of its calibration samples."""

    per_class: bool

    def _keep_scores(self, transform, model, X, codes: np.ndarray) -> np.ndarray:
        """Keep the sorted scores of the calibration samples, for p-values; return all, (n, K)."""
        scores = finite_scores(model, transform(X))
        own = scores[np.arange(len(codes)), codes]
        groups = [own]
        if self.per_class:
            groups = [own[codes == c] for c in range(len(self.classes_))]
        self.n_calibration_ = len(codes)
        self._own_scores = [np.sort(group) for group in groups]
        self._known_scores = np.sort(scores.max(axis=1))
        self._slack = score_slack(model, transform, X, scores)
        return scores

    def p_values(self, X) -> np.ndarray:
        """Conformal p-values of "this sample is a c", for each class c.

        The p-value of the class of a known sample is at most alpha with a probability of at most
        alpha, for every alpha. With ``per_class=False`` the scores of all calibration samples for
        their own class are pooled; with ``per_class=True`` this holds within each class, and no
        p-value is below 1 / (n_c + 1), n_c the number of calibration samples of the class: 0.048
        with 20.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes

        Returns
        -------
        ndarray of shape (n, K)
            Column c belongs to ``classes_[c]``. The rows do not sum to 1.
        """
        scores = self._scores_of_estimator(X)
        columns = [
            p_value(self._own_scores[c if self.per_class else 0], scores[:, c], self._slack)
            for c in range(len(self.classes_))
        ]
        return np.column_stack(columns)

    def known_p_value(self, X) -> np.ndarray:
        """Conformal p-value of "this sample is of a known class".

        It is at most alpha with a probability of at most alpha for a known sample. With
        ``per_class=False`` it compares the highest score with those of the calibration samples;
        with ``per_class=True`` it is the largest of :meth:`p_values`.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes

        Returns
        -------
        ndarray of shape (n,)
        """
        if self.per_class:
            return self.p_values(X).max(axis=1)
        return p_value(self._known_scores, self._scores_of_estimator(X).max(axis=1), self._slack)

    def predict_set(self, X, *, alpha: float | None = None) -> np.ndarray:
        """Return a set of classes for each sample.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes
        alpha : float in (0, 1), default=None
            None: every class that accepts. Otherwise every class whose p-value exceeds `alpha`:
            this set contains the class of a known sample with a probability of at least
            1 - `alpha`.

        Returns
        -------
        ndarray of shape (n, K), bool
            An empty row is unknown.
        """
        if alpha is None:
            return super().predict_set(X)
        if not 0 < alpha < 1:
            raise ValueError(f"alpha={alpha!r} must be between 0 and 1.")
        p = self.p_values(X)
        fewest = min(len(scores) for scores in self._own_scores)
        if alpha < 1 / (fewest + 1):
            warnings.warn(
                f"alpha={alpha:g} is below {1 / (fewest + 1):.3g}, the smallest p-value that "
                f"{fewest} calibration samples{' of a class' if self.per_class else ''} can give: "
                "a class is never excluded. Calibrate with more samples, or raise alpha.",
                stacklevel=2,
            )
        return p > alpha

    def _scores_of_estimator(self, X):
        """Scores under the thresholds of the estimator itself."""
        check_is_fitted(self)
        if not hasattr(self, "_own_scores"):
            raise ValueError(
                "This model was calibrated by an older version, which did not keep the scores of "
                "the calibration samples. Calibrate it again."
            )
        transform, model = split_fitted(self.estimator_)
        return model.decision_function(transform(X))
