"""What estimators around another estimator have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from ..base import OpenSetClassifier, resolve_unknown_label, set_labels, validate_targets
from ..base.fitted import require


class OpenSetWrapper(OpenSetClassifier):
    """Base class of open-set estimators around a classifier, their parameter ``estimator``.

    X is passed to the wrapped estimators unchanged, so it may be whatever these accept: tables,
    sparse matrices, texts.
    """

    estimator: Any
    unknown_label: Any
    fitted_attributes = {"estimator_": ""}

    def check_fitted(self):
        sizes = super().check_fitted()
        inner = self.estimator_.classes_
        fits = isinstance(inner, np.ndarray) and inner.tolist() == self.classes_.tolist()
        require(fits, "classes_ are not those of estimator_")
        return sizes

    def check_targets(self, X, y, sample_weight=None):
        """Validate y and the weights; drop rows of weight zero.

        Parameters
        ----------
        X, y, sample_weight
            As for :func:`openset.base.validate_targets`.

        Returns
        -------
        X, y, sample_weight
        """
        if not is_classifier(self.estimator):
            raise ValueError(
                f"estimator={self.estimator!r} of {type(self).__name__} is not a classifier."
            )
        return validate_targets(self, X, y, sample_weight)

    def fit_estimator(self, X, y: np.ndarray, sample_weight: np.ndarray | None) -> None:
        """Fit a clone of ``estimator``; set the attributes of the labels.

        Parameters
        ----------
        X, y, sample_weight
            From :meth:`check_targets`.
        """
        set_labels(self, y)  # refuses known unknowns, unless the method takes them
        self.estimator_ = fit_clone(self.estimator, X, y, sample_weight)
        self.classes_ = self.estimator_.classes_
        if y.dtype.kind == "O":  # some estimators turn objects into strings of fixed width
            self.classes_ = self.classes_.astype(object)
        self.unknown_label_ = resolve_unknown_label(self.unknown_label, self.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

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
    scores = np.asarray(scores, dtype=np.float64)
    largest = np.finfo(np.float64).max / 4  # room for a threshold
    return np.nan_to_num(scores, nan=-largest, posinf=largest, neginf=-largest)
