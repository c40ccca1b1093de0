"""The open-set contract of a search: that of the estimator it has found."""

from __future__ import annotations

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base import OpenSetClassifier, explain
from ..utils import split_pipeline, unwrap


class DelegatingClassifier(OpenSetClassifier):
    """An open-set classifier that answers as its ``best_estimator_``, behind a Pipeline or not."""

    def decision_function(self, X) -> np.ndarray:
        return self._best().decision_function(X)

    @available_if(lambda self: hasattr(unwrap(self), "inclusion_proba"))
    def inclusion_proba(self, X) -> np.ndarray:
        """Probabilities of inclusion of the best estimator, where its method defines them.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
        """
        transformer, final, _ = split_pipeline(self._best())
        return final.inclusion_proba(X if transformer is None else transformer.transform(X))

    def explain(self, X):
        return explain(self._best(), X)

    def far_scores(self) -> np.ndarray:
        return unwrap(self._best()).far_scores()

    def _best(self):
        if hasattr(self, "best_params_") and not self.refit:
            raise NotFittedError(
                "refit=False: the search has best_params_, but no estimator to answer with. Set "
                "refit=True."
            )
        check_is_fitted(self)
        return self.best_estimator_

    classes_ = property(lambda self: unwrap(self.best_estimator_).classes_)
    unknown_label_ = property(lambda self: unwrap(self.best_estimator_).unknown_label_)
    n_known_unknowns_ = property(lambda self: unwrap(self.best_estimator_).n_known_unknowns_)
    bounded_ = property(lambda self: unwrap(self.best_estimator_).bounded_)
    n_features_in_ = property(lambda self: self.best_estimator_.n_features_in_)
    feature_names_in_ = property(lambda self: self.best_estimator_.feature_names_in_)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags = get_tags(self.estimator).classifier_tags
        return tags
