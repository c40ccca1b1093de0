"""Any closed-set classifier with a threshold on its confidence."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..base import SearchSpec, Traits, canonical
from ..base.parameters import FRACTIONS
from ._base import OpenSetWrapper, finite, supports_weights


class ThresholdRejector(OpenSetWrapper):
    """Reject samples for which a closed-set classifier is not confident enough.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba`` or ``decision_function``. It is cloned; wrap a fitted
        one in :class:`sklearn.frozen.FrozenEstimator` to keep it as it is.
    threshold : float, default=0.5
        Smallest confidence that accepts. Changing it needs no new fit.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        The confidence. "auto": probabilities if the estimator gives them. A decision function
        with one value per sample, of two classes, is the confidence in the second class and its
        negative that in the first.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    bounded_ : ndarray of shape (K,), bool
        False: nothing is known about the classifier. Most are confident far away from all data.
    n_features_in_, feature_names_in_
        Only if the fitted classifier has them.

    References
    ----------
    C. K. Chow, "On optimum recognition error and reject tradeoff", IEEE Transactions on
    Information Theory 16(1), 1970.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from openset.wrappers import ThresholdRejector
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> y = ["a", "a", "a", "b", "b", "b"]
    >>> model = ThresholdRejector(KNeighborsClassifier(n_neighbors=4), threshold=0.7)
    >>> model.fit(X, y).predict([[0.1], [0.6], [1.1]])
    array(['a', 'unknown', 'b'], dtype='<U7')
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", m]) for m in ("predict_proba", "decision_function")],
        "threshold": [Interval(Real, None, None, closed="neither")],
        "response_method": [StrOptions({"auto", "predict_proba", "decision_function"})],
        "unknown_label": "no_validation",
    }

    traits = Traits("thresholded classifier", condition="not known: it depends on the classifier")
    search_spec = SearchSpec(
        grids={"default": {"threshold": FRACTIONS}, "paper": {"threshold": FRACTIONS}},
        after_fit=("threshold",),
    )

    def __init__(
        self,
        estimator: BaseEstimator,
        threshold: float = 0.5,
        response_method: str = "auto",
        unknown_label: Any = "auto",
    ):
        self.estimator = estimator
        self.threshold = threshold
        self.response_method = response_method
        self.unknown_label = unknown_label

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ThresholdRejector:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the classifier takes
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            For a classifier that takes weights; rows of weight zero are dropped.

        Returns
        -------
        self
        """
        if sample_weight is not None and not supports_weights(self.estimator):
            raise ValueError(
                f"sample_weight was passed, but {type(self.estimator).__name__} takes no weights. "
                "Leave them out or wrap a classifier that does."
            )
        self._response(self.estimator)
        X, y, sample_weight = self.check_targets(X, y, sample_weight)
        self.fit_estimator(X, y, sample_weight)
        if len(self.classes_) == 1 and self._response(self.estimator_) == "decision_function":
            raise ValueError(
                f"y has one class, {self.classes_.tolist()!r}; the decision_function of "
                f"{type(self.estimator_).__name__} separates two. Wrap a classifier with "
                "predict_proba, or give at least 2 classes."
            )
        return self

    def decide(self, raw):
        return raw - self.threshold

    def raw_scores(self, X):
        check_is_fitted(self)
        method = self._response(self.estimator_)
        scores = finite(getattr(self.estimator_, method)(canonical(X)))
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        if scores.shape[1] != len(self.classes_):
            raise ValueError(
                f"{method} of {type(self.estimator_).__name__} gives {scores.shape[1]} columns for "
                f"{len(self.classes_)} classes; one per class is needed (for SVC set "
                'decision_function_shape="ovr").'
            )
        return scores

    def _response(self, estimator):
        """Name of the method that gives the confidence."""
        if self.response_method == "auto":
            probabilistic = hasattr(estimator, "predict_proba")
            return "predict_proba" if probabilistic else "decision_function"
        if not hasattr(estimator, self.response_method):
            raise ValueError(
                f"response_method={self.response_method!r}, but {type(estimator).__name__} has no "
                'such method; use response_method="auto" or another classifier.'
            )
        return self.response_method
