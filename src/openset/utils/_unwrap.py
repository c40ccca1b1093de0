"""Reach the open-set estimator behind a Pipeline or a search."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline


def unwrap(estimator: BaseEstimator) -> BaseEstimator:
    """Return the estimator that holds ``unknown_label_``, ``bounded_`` and the rest.

    A Pipeline and scikit-learn's search objects pass on only scikit-learn's own names; this goes
    to the last step of the one and the best estimator of the other, however deep.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.

    Returns
    -------
    estimator

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from openset.svm import OpenSetSVC
    >>> from openset.utils import unwrap
    >>> unwrap(make_pipeline(MinMaxScaler(), OpenSetSVC()))
    OpenSetSVC()
    """
    while not hasattr(estimator, "unknown_label"):
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "estimator"):
            estimator = estimator.estimator
        else:
            raise TypeError(
                f"{type(estimator).__name__} is not an open-set estimator and wraps none. "
                "Wrap a closed-set classifier with a rejector of openset first."
            )
    return estimator
