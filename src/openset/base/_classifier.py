"""The contract of an open-set classifier: one decision rule, one unknown label."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..utils import answer_labels, decide
from ._explain import explain, surroundings_of

__all__ = ["OpenSetClassifier", "Traits", "resolve_unknown_label"]

# Thresholds and fractions that searches try: 20 values, linear in [0, 1).
FRACTIONS = [k / 20 for k in range(20)]


@dataclass(frozen=True)
class Traits:
    """What is known of a method before it is fitted, for tables of methods.

    Attributes
    ----------
    name : str
        Short name in the literature.
    extreme_value : bool
        Whether it models tails by extreme value theory.
    one_class : bool
        Whether it trains machines on the samples of one class alone.
    bounded : bool
        Whether the regions it accepts are bounded as a rule.
    condition : str
        Exactly when they are, where that depends on the fit or on a parameter.
    """

    name: str
    extreme_value: bool = False
    one_class: bool = False
    bounded: bool = False
    condition: str = ""


class OpenSetClassifier(ClassifierMixin, BaseEstimator):
    """Base class of estimators that answer one of K classes, or unknown.

    A subclass writes two things. ``fit`` begins with :meth:`_begin_fit`, which sets ``classes_``
    and ``unknown_label_``, and sets ``bounded_``. ``decision_function`` returns an (n, K) matrix of
    finite scores in which **a score >= 0 means that the class accepts the sample**, thresholds
    already subtracted. Everything else follows from that one rule.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The known classes, sorted; never the unknown label.
    unknown_label_ : object
        The answer for a sample that no class accepts.
    bounded_ : ndarray of shape (K,), bool
        Whether the region that the class accepts is bounded.
    """

    # Parameters that act after fitting, such as a threshold. An estimator that has any splits its
    # decision_function in two: ``_raw_scores(X)``, which does not look at them, and
    # ``_decide(raw)``, which is cheap. A search then tries all their values on one fit.
    _post_params: tuple[str, ...] = ()

    _traits: Traits

    # For the search: the grids of its two presets, the level of the second (a setting for the
    # whole model or one for each class), and which values of the first are in units of the data.
    _default_grid: dict[str, list] | None = None
    _paper_grid: dict[str, list] | None = None
    _paper_level = "model"
    _scaled_params: tuple[str, ...] = ()

    def decision_function(self, X) -> np.ndarray:
        """Acceptance scores.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
            Column c belongs to ``classes_[c]``; >= 0 accepts.
        """
        return self._decide(self._raw_scores(X))

    def predict(self, X) -> np.ndarray:
        """Return the accepting class with the highest score, or ``unknown_label_`` without any.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        codes = decide(self.decision_function(X))
        return answer_labels(self.classes_, self.unknown_label_)[codes]

    def predict_known(self, X) -> np.ndarray:
        """Return the class with the highest score, accepted or not: the closed-set answer.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        best = self.decision_function(X).argmax(axis=1)
        return answer_labels(self.classes_, self.unknown_label_)[best]

    def predict_set(self, X) -> np.ndarray:
        """Return every class that accepts; an empty row is unknown.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K), bool
        """
        return self.decision_function(X) >= 0

    def known_score(self, X) -> np.ndarray:
        """Return the highest acceptance score of each sample: larger is more known.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.decision_function(X).max(axis=1)

    def explain(self, X):
        """Why each sample was answered as it was: see :func:`openset.base.explain`.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        DataFrame of n rows
            Columns answer, nearest_class, score, deficit, similar, distance and region_gap.
        """
        return explain(self, X)

    def _surroundings(self):
        """Function of X behind the distances in an explanation."""
        return surroundings_of(self)

    def _training_samples(self):
        """(samples, their rows in the X of fit, metric) of what the method keeps, or None."""
        if not hasattr(self, "support_vectors_"):
            return None
        return self.support_vectors_, self.support_, "euclidean"

    def _far_scores(self):
        """Limit superior of the scores far away from all samples, (K,); inf where not known."""
        return np.full(len(self.classes_), np.inf)

    def _raw_scores(self, X):
        raise NotImplementedError(f"{type(self).__name__} does not define its scores.")

    def _decide(self, raw):
        return raw

    def _begin_fit(self, X, y, sample_weight=None, *, accept_sparse=False, min_classes=1):
        """Validate the arguments of fit; set ``classes_`` and ``unknown_label_``.

        Rows of weight zero are dropped before anything else is looked at.

        Returns
        -------
        X : ndarray or CSR matrix of shape (m, d), float64
        codes : ndarray of shape (m,)
            Index of each label in ``classes_``.
        weight : ndarray of shape (m,), float64
        kept : ndarray of shape (m,)
            Index of each row in the X that was passed.
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        _check_labels(y)
        X, y = validate_data(self, X, y, accept_sparse=accept_sparse, dtype=np.float64)
        check_classification_targets(y)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        kept = np.flatnonzero(weight)
        if kept.size == 0:
            raise ValueError("sample_weight is zero for every sample; give at least one a weight.")
        if kept.size < len(weight):
            X, y, weight = X[kept], y[kept], weight[kept]
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < min_classes:
            raise ValueError(
                f"{type(self).__name__} needs at least {min_classes} classes; y has "
                f"{len(self.classes_)} class: {self.classes_.tolist()!r}."
            )
        self.unknown_label_ = resolve_unknown_label(self.unknown_label, self.classes_)
        return X, codes, weight, kept

    def _begin_predict(self, X, *, accept_sparse=False):
        """Validate the argument of a prediction method."""
        check_is_fitted(self)
        return validate_data(self, X, accept_sparse=accept_sparse, dtype=np.float64, reset=False)


def _check_labels(y):
    """Raise ValueError unless y holds strings only, or numbers only in a numeric dtype."""
    listed = isinstance(y, list | tuple)
    labels = np.asarray(y, dtype=object if listed else None)  # a list keeps 1 and "1" apart
    if labels.ndim != 1 or labels.size == 0:
        return  # validate_data has the message for this
    if labels.dtype.kind not in "biufcUO":
        raise ValueError(f"Unknown label type: y has dtype {labels.dtype}. Convert it to strings.")
    if labels.dtype.kind == "O":
        texts = sum(isinstance(label, str) for label in labels)
        if texts < labels.size and not (listed and texts == 0):
            types = sorted({type(label).__name__ for label in labels})
            raise ValueError(
                f"Unknown label type: y is an array of objects of types {types}. Convert all of "
                "them to strings, or y to an array of numbers; a missing label is neither."
            )


def resolve_unknown_label(unknown_label, classes: np.ndarray):
    """Return the label of unknown samples for a set of classes.

    Parameters
    ----------
    unknown_label : {"auto"} or int, float, str
        "auto": -1 for numeric classes, or one less than the smallest if -1 is a class; "unknown"
        for strings, with underscores appended until it is free.
    classes : ndarray of shape (K,)
        The known classes.

    Returns
    -------
    int, float or str

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import resolve_unknown_label
    >>> resolve_unknown_label("auto", np.array([-1, 1]))
    -2
    >>> resolve_unknown_label("auto", np.array(["known", "unknown"]))
    'unknown_'
    """
    labels = classes.tolist()
    textual = isinstance(labels[0], str)
    if isinstance(unknown_label, str) and unknown_label == "auto":
        if textual:
            label = "unknown"
            while label in labels:
                label += "_"
            return label
        if not isinstance(labels[0], bool | Integral | Real):
            raise ValueError(
                f"unknown_label='auto' cannot name the unknown among classes of type "
                f"{type(labels[0]).__name__}; pass unknown_label."
            )
        label = -1 if -1 not in labels else min(labels) - 1
        return float(label) if isinstance(labels[0], float) else int(label)
    if not isinstance(unknown_label, str if textual else Real):
        raise ValueError(
            f"unknown_label={unknown_label!r} and the classes ({labels[0]!r}, ...) are of "
            "different kinds. Pass a string for string classes, a number for numeric ones."
        )
    if unknown_label != unknown_label:
        raise ValueError("unknown_label=nan is not equal to itself. Choose another number.")
    if unknown_label in labels:
        raise ValueError(
            f"unknown_label={unknown_label!r} is also a class in y. Choose a label that is not, "
            'or unknown_label="auto".'
        )
    return unknown_label
