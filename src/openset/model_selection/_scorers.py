"""Every measure as a scorer ``(estimator, X, y)``, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..metrics import auroc_known, fpr_at_tpr, oscr_area
from ..metrics._counts import Counts
from ..metrics._labels import encode_true, index_known
from ..utils import unwrap


def _accuracy(counts: Counts):
    return counts.f1_with_unknown("micro")  # the same number


def _or_accuracy(measure: Callable, counts: Counts):
    """Without unknowns (a closed-set validation part) the measure is undefined: plain accuracy."""
    return measure(counts) if counts.support[-1] else _accuracy(counts)


# Measures of the answers: functions of Counts, whatever leading axes these have.
_OF_ANSWERS: dict[str, Callable] = {
    "normalized_accuracy": lambda counts: _or_accuracy(Counts.normalized_accuracy, counts),
    "harmonic_normalized_accuracy": lambda counts: _or_accuracy(
        Counts.harmonic_normalized_accuracy, counts
    ),
    "accuracy_known": Counts.accuracy_known,
    "accuracy_unknown": Counts.accuracy_unknown,
    "open_set_f1_macro": lambda counts: counts.open_set_f1("macro"),
    "open_set_f1_micro": lambda counts: counts.open_set_f1("micro"),
    "f1_with_unknown_macro": lambda counts: counts.f1_with_unknown("macro"),
    "f1_with_unknown_micro": lambda counts: counts.f1_with_unknown("micro"),
    "accuracy": _accuracy,
}

# Measures of the scores of one model: functions of true labels (n,), scores (n, K) and classes.
_OF_SCORES: dict[str, Callable] = {
    "auroc_known": lambda y, scores, known: auroc_known(y, scores.max(axis=1), known=known),
    "neg_fpr_at_95_tpr": lambda y, scores, known: -fpr_at_tpr(y, scores.max(axis=1), known=known),
    "oscr_area": lambda y, scores, known: oscr_area(y, scores, known=known),
}


@dataclass(frozen=True)
class OpenSetScorer:
    """A measure as a scorer; made by :func:`get_scorer`, where it is described.

    Parameters
    ----------
    name : str
        Name of the measure.
    require_bounded : bool, default=False
        Whether an unbounded machine scores -inf.
    """

    name: str
    require_bounded: bool = False

    def __post_init__(self):
        if self.name not in get_scorer_names():
            raise ValueError(
                f"scoring={self.name!r} is not a measure of openset. Choose one of "
                f"{get_scorer_names()}, or pass a callable (estimator, X, y)."
            )
        if not isinstance(self.require_bounded, bool):
            raise ValueError(f"require_bounded={self.require_bounded!r} must be True or False.")

    def __call__(self, estimator: BaseEstimator, X, y: ArrayLike) -> float:
        """Score a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            An open-set estimator, or a Pipeline or search around one.
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels; those outside the classes of the estimator are unknown.

        Returns
        -------
        float
            Greater is better.
        """
        model = unwrap(estimator)
        check_is_fitted(model)
        # An estimator without machines has no intercept_, and nothing to require of them.
        if self.require_bounded and hasattr(model, "intercept_") and not np.all(model.bounded_):
            return -np.inf
        true = encode_true(y, index_known(model.classes_))
        return float(self.of_scores(true, np.asarray(estimator.decision_function(X))))

    def of_scores(
        self, true: NDArray[np.intp], scores: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """The measure of scores that are at hand, of many models at once.

        Parameters
        ----------
        true : ndarray of shape (n,)
            True classes as columns of `scores`; K stands for unknown.
        scores : ndarray of shape (..., n, K)
            Acceptance scores, >= 0 accepts.

        Returns
        -------
        ndarray of shape (...)
        """
        n_known = scores.shape[-1]
        if self.name in _OF_ANSWERS:
            accepted = scores.max(axis=-1) >= 0
            pred = np.where(accepted, scores.argmax(axis=-1), n_known)
            return _OF_ANSWERS[self.name](Counts.from_codes(true, pred, n_known))
        measure, known = _OF_SCORES[self.name], np.arange(n_known)
        models = scores.reshape(-1, *scores.shape[-2:])
        values = [measure(true, model, known) for model in models]
        return np.reshape(values, scores.shape[:-2])


def get_scorer(scoring: str | Callable, *, require_bounded: bool = False) -> Callable:
    """Return the scorer ``(estimator, X, y)`` of a measure of :mod:`openset.metrics`.

    scikit-learn knows nothing of these names: pass **the scorer**, not its name, as `scoring` to
    its ``GridSearchCV`` or ``cross_validate``.

    Parameters
    ----------
    scoring : str or callable
        A name of :func:`get_scorer_names`; a callable is returned as it is.
    require_bounded : bool, default=False
        Score -inf when a machine of an estimator of the SVM family (one with ``intercept_``)
        accepts an unbounded region according to ``bounded_``, so that a search does not choose it.
        Other estimators are not affected. Use it with ``ensure_bounded=False``, without which
        every machine of an :class:`openset.OpenSetSVC` is bounded anyway.

    Returns
    -------
    callable
        It sees through a Pipeline or a search to the open-set estimator; true labels outside the
        classes of that estimator are unknown. Greater is better: the false positive rate is
        negated. It can be compared, copied and pickled.

    Notes
    -----
    On samples without unknowns, as in a closed-set search, the normalized accuracy and the harmonic
    one are undefined, and their scorers give the plain accuracy instead. Everything else is as in
    :mod:`openset.metrics`, NaN included.

    A scorer never warns. ``GridSearchCV`` itself does about scores that are not finite; it ranks
    -inf last all the same.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_validate
    >>> from openset import OpenSetSVC
    >>> from openset.model_selection import OpenSetSplit, get_scorer
    >>> get_scorer("oscr_area")
    OpenSetScorer(name='oscr_area', require_bounded=False)
    >>> X, y = load_iris(return_X_y=True)
    >>> scorers = {name: get_scorer(name) for name in ("accuracy_known", "accuracy_unknown")}
    >>> results = cross_validate(
    ...     OpenSetSVC(), X, y, scoring=scorers, cv=OpenSetSplit(n_repeats=2, random_state=0)
    ... )
    >>> results["test_accuracy_known"].shape
    (2,)
    """
    if callable(scoring):
        if require_bounded:
            raise ValueError(
                "require_bounded=True is for the measures of openset; let the callable "
                f"scoring={scoring!r} look at bounded_ itself."
            )
        return scoring
    return OpenSetScorer(scoring, require_bounded)


def get_scorer_names() -> list[str]:
    """Return the names of all measures, for :func:`get_scorer`.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from openset.model_selection import get_scorer_names
    >>> "normalized_accuracy" in get_scorer_names()
    True
    """
    return [*_OF_ANSWERS, *_OF_SCORES]
