"""Reach the open-set estimator behind a Pipeline or a search."""

from __future__ import annotations

from collections.abc import Callable

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
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


def take_apart(estimator: BaseEstimator) -> tuple[Callable, BaseEstimator]:
    """What a fitted estimator does to samples first, and the open-set estimator that then decides.

    Returns
    -------
    transform : callable
        Takes X to the X that the final estimator gets.
    final : estimator
        As of :func:`unwrap`, without a FrozenEstimator around it.
    """
    heads = []
    while isinstance(estimator, FrozenEstimator) or not hasattr(estimator, "unknown_label"):
        if isinstance(estimator, Pipeline):
            if len(estimator.steps) > 1:
                heads.append(estimator[:-1])
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            unwrap(estimator)  # says what is wrong with it
            raise NotFittedError(
                f"This {type(estimator).__name__} is not fitted yet. Call fit first."
            )

    def transform(X):
        for head in heads:
            X = head.transform(X)
        return X

    return transform, estimator
