"""An outlier detector, followed by a closed-set classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, is_outlier_detector
from sklearn.svm import OneClassSVM
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from ..base import SearchSpec, Traits, canonical
from ._base import OpenSetWrapper, finite, fit_clone, supports_weights


class CascadeRejector(OpenSetWrapper):
    """Reject what an outlier detector rejects; classify the rest.

    Parameters
    ----------
    rejector : estimator
        An outlier detector that can judge new samples: ``predict`` gives 1 or -1,
        ``decision_function``, if there is one, is >= 0 for what it accepts. A clone is fitted to
        all training samples, whatever their class.
    estimator : estimator
        A classifier; a clone is fitted to the training samples and their labels.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that the rejector rejects.

    Attributes
    ----------
    rejector_, estimator_ : estimator
        The fitted outlier detector and the fitted classifier.
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    bounded_ : ndarray of shape (K,), bool
        True if the rejector is known to accept a bounded region only: a OneClassSVM with RBF
        kernel and a negative bias. False means that nothing is proved.
    n_features_in_, feature_names_in_
        Only if the fitted classifier has them.

    Notes
    -----
    The class that the classifier answers gets the score of the rejector; the others get -1, or 1
    less than that score where it is negative.

    References
    ----------
    C. Cortes, G. DeSalvo, M. Mohri, "Learning with rejection", Algorithmic Learning Theory, 2016,
    where both parts are learnt together.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.svm import OneClassSVM
    >>> from openset.wrappers import CascadeRejector
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> y = [0, 0, 0, 1, 1, 1]
    >>> model = CascadeRejector(OneClassSVM(gamma=10, nu=0.1), LogisticRegression())
    >>> model.fit(X, y).predict([[0.1], [1.1], [9.0]])
    array([ 0,  1, -1])
    """

    _parameter_constraints = {
        "rejector": [HasMethods(["fit", "predict"])],
        "estimator": [HasMethods(["fit", "predict"])],
        "unknown_label": "no_validation",
    }

    fitted_attributes = {"estimator_": "", "rejector_": ""}
    traits = Traits("cascade", condition="the rejector accepts a bounded region")

    def __init__(
        self, rejector: BaseEstimator, estimator: BaseEstimator, unknown_label: Any = "auto"
    ):
        self.rejector = rejector
        self.estimator = estimator
        self.unknown_label = unknown_label

    @property
    def search_spec(self) -> SearchSpec:  # type: ignore[override]
        """Grid over the fraction of samples that the rejector may reject, by either name."""
        names = {"contamination", "nu"} & set(self.rejector.get_params())
        grid = {f"rejector__{name}": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5] for name in names}
        return SearchSpec(grids={"default": grid, "paper": grid} if grid else {})

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CascadeRejector:
        """Fit the rejector to X and the classifier to X and y.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the two take
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            For those of the two that take weights; rows of weight zero are dropped.

        Returns
        -------
        self
        """
        if not is_outlier_detector(self.rejector):
            raise ValueError(
                f"rejector={self.rejector!r} is not an outlier detector. Pass one, such as "
                "OneClassSVM or IsolationForest (your own: derive from OutlierMixin)."
            )
        takes_weights = supports_weights(self.rejector) or supports_weights(self.estimator)
        if sample_weight is not None and not takes_weights:
            raise ValueError(
                f"sample_weight was passed, but neither {type(self.rejector).__name__} nor "
                f"{type(self.estimator).__name__} takes weights. Leave them out."
            )
        X, y, sample_weight = self.check_targets(X, y, sample_weight)
        self.fit_estimator(X, y, sample_weight)
        self.rejector_ = fit_clone(self.rejector, X, None, sample_weight)
        return self

    def far_scores(self) -> np.ndarray:
        rejector, far = self.rejector_, np.inf
        if isinstance(rejector, OneClassSVM) and rejector.kernel == "rbf":
            far = rejector.intercept_[0]
        return np.full(len(self.classes_), far)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        other = get_tags(self.rejector).input_tags
        tags.input_tags.sparse &= other.sparse
        tags.input_tags.allow_nan &= other.allow_nan
        return tags

    def decision_function(self, X) -> np.ndarray:
        check_is_fitted(self)
        X = canonical(X)
        judge = getattr(self.rejector_, "decision_function", self.rejector_.predict)
        accepted = finite(judge(X)).reshape(-1, 1)
        answers = np.asarray(self.estimator_.predict(X)).reshape(-1, 1) == self.classes_
        return np.where(answers, accepted, np.minimum(accepted, 0.0) - 1.0)
