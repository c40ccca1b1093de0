"""Every measure as a scorer ``(estimator, X, y)``, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..metrics import (
    OpenSetCounts,
    auroc_known,
    encode_labels,
    fpr_at_tpr,
    harmonic_mean,
    oscr_area,
)
from ..utils import decide, unwrap

# Measures of the answers: functions of OpenSetCounts, whatever leading axes these have.
_OF_ANSWERS: dict[str, Callable] = {
    "normalized_accuracy": OpenSetCounts.normalized_accuracy,
    "harmonic_normalized_accuracy": OpenSetCounts.harmonic_normalized_accuracy,
    "accuracy_known": OpenSetCounts.accuracy_known,
    "accuracy_unknown": OpenSetCounts.accuracy_unknown,
    "open_set_f1_macro": lambda counts: counts.open_set_f1("macro"),
    "open_set_f1_micro": lambda counts: counts.open_set_f1("micro"),
    "f1_with_unknown_macro": lambda counts: counts.f1_with_unknown("macro"),
    "f1_with_unknown_micro": lambda counts: counts.f1_with_unknown("micro"),
    "accuracy": lambda counts: counts.f1_with_unknown("micro"),  # the same number
}

# Measures of the scores of one model: functions of true labels (n,), scores (n, K) and classes.
_OF_SCORES: dict[str, Callable] = {
    "auroc_known": lambda y, scores, known: auroc_known(y, scores.max(axis=1), known=known),
    "neg_fpr_at_95_tpr": lambda y, scores, known: -fpr_at_tpr(y, scores.max(axis=1), known=known),
    "oscr_area": lambda y, scores, known: oscr_area(y, scores, known=known),
}

# Measures of one binary machine: functions of the shares of known and unknown samples that are
# right; None is the share of all.
_OF_MACHINES: dict[str, Callable | None] = {
    "accuracy": None,
    "normalized_accuracy": lambda known, unknown: 0.5 * (known + unknown),
    "harmonic_normalized_accuracy": harmonic_mean,
}


@dataclass(frozen=True)
class OpenSetScorer:
    """A measure as a scorer; made by :func:`get_scorer`, where it is described."""

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
        model = unwrap(estimator)
        check_is_fitted(model)
        # Only estimators of the SVM family have an intercept_ to be required to be negative.
        if self.require_bounded and hasattr(model, "intercept_") and not np.all(model.bounded_):
            return -np.inf
        true = encode_labels(y, model.classes_)
        return float(self.of_scores(true, np.asarray(estimator.decision_function(X))))

    def of_scores(
        self, true: NDArray[np.intp], scores: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """The measure, (...), of scores (..., n, K); `true` (n,) are columns, K for unknown."""
        n_known = scores.shape[-1]
        if self.name in _OF_ANSWERS:
            counts = OpenSetCounts.from_codes(true, decide(scores), n_known)
            # Without unknowns (a closed-set validation part) two measures are undefined.
            plain = "normalized" in self.name and not counts.support[-1]
            return _OF_ANSWERS["accuracy" if plain else self.name](counts)
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


def highest_score(name: str) -> float:
    """The largest value that the measure of a name can have."""
    return 0.0 if name.startswith("neg_") else 1.0


def machine_measure(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """A measure of one binary machine, for the search per class."""
    if name not in _OF_MACHINES:
        raise ValueError(
            f"scoring={name!r} is not defined for a binary machine. With level='class' "
            f"choose one of {sorted(_OF_MACHINES)}, or use level='model'."
        )
    return partial(_of_machine, _OF_MACHINES[name])


def _of_machine(join, true, scores):
    """The measure, (...), of scores (..., n, 1); `true` (n,): 0, negative 1, unknown 2."""
    # A positive counts as right if it is accepted, the others if they are not. Without unknowns
    # every measure is the plain accuracy.
    right = (decide(scores) == 0) == (true == 0)
    unknown = true == 2
    n_unknown = np.count_nonzero(unknown)
    n_right = np.count_nonzero(right, axis=-1)
    if join is None or n_unknown == 0:
        return n_right / len(true)
    n_rejected = np.count_nonzero(right & unknown, axis=-1)
    return join((n_right - n_rejected) / (len(true) - n_unknown), n_rejected / n_unknown)
