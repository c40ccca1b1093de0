"""What the wrappers share: the samples are the business of the wrapped estimators."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    column_or_1d,
    has_fit_parameter,
)

from openset.base import OpenSetClassifier, _check_labels, resolve_unknown_label


class Wrapper(OpenSetClassifier):
    """Base class of open-set estimators around a classifier, their parameter ``estimator``.

    X goes to the wrapped estimators as it is, so that it may be whatever these accept: tables,
    sparse matrices, texts.
    """

    def _check_targets(self, X, y, sample_weight=None):
        """Validate y and the weights; drop rows of weight zero.

        Returns
        -------
        X : as passed, of n samples
        y : ndarray of shape (n,)
        sample_weight : ndarray of shape (n,) or None
        """
        name = type(self).__name__
        if not is_classifier(self.estimator):
            raise ValueError(f"estimator={self.estimator!r} of {name} is not a classifier.")
        if y is None:
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        _check_labels(y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        check_classification_targets(y)
        if sample_weight is None:
            return X, y, None
        rows = np.empty((len(y), 0))  # stands for X, which may be no array
        weight = _check_sample_weight(
            sample_weight, rows, dtype=np.float64, ensure_non_negative=True
        )
        kept = np.flatnonzero(weight)
        if kept.size == 0:
            raise ValueError("sample_weight is zero for every sample; give at least one a weight.")
        if kept.size < len(weight):
            X, y, weight = _safe_indexing(X, kept), y[kept], weight[kept]
        return X, y, weight

    def _fit_estimator(self, X, y, sample_weight):
        """Fit a clone of ``estimator``; set ``classes_``, ``unknown_label_`` and ``bounded_``."""
        self.estimator_ = fit_clone(self.estimator, X, y, sample_weight)
        self.classes_ = self.estimator_.classes_
        if y.dtype.kind == "O":  # some estimators turn objects into strings of fixed width
            self.classes_ = self.classes_.astype(object)
        self.unknown_label_ = resolve_unknown_label(self.unknown_label, self.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self.bounded_ = np.zeros(len(self.classes_), dtype=bool)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def supports_weights(estimator: BaseEstimator) -> bool:
    """Whether ``fit`` takes ``sample_weight``."""
    return has_fit_parameter(estimator, "sample_weight")


def fit_clone(estimator: BaseEstimator, X, y, sample_weight) -> BaseEstimator:
    """Fit a clone, with weights where there are any and it takes them; y may be None."""
    arguments = (X,) if y is None else (X, y)
    if sample_weight is not None and supports_weights(estimator):
        return clone(estimator).fit(*arguments, sample_weight=sample_weight)
    return clone(estimator).fit(*arguments)


def finite(scores) -> np.ndarray:
    """The scores in float64; NaN, of a sample that cannot be scored, becomes the lowest."""
    largest = np.finfo(np.float64).max / 4  # room for a threshold
    return np.nan_to_num(
        np.asarray(scores, dtype=np.float64), nan=-largest, posinf=largest, neginf=-largest
    )
