"""The contract of an open-set classifier: one decision rule, one unknown label."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import _safe_indexing, gen_batches, indexable
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..metrics import encode_labels
from ..utils import answer_labels, decide
from ._class_edits import ClassEdits
from ._declarations import SearchSpec, Traits
from ._explain import explain, surroundings_of
from .fitted import check_attributes, check_fitted_labels

if TYPE_CHECKING:
    import pandas

# Samples whose scores of all classes are in memory at the same time.
_ROWS = 2**15


class OpenSetClassifier(ClassEdits, ClassifierMixin, BaseEstimator):
    """Base class of estimators that answer one of K classes, or unknown.

    A subclass writes ``fit``, which begins with :func:`openset.base.validate_training_data`, and
    its scores, an (n, K) matrix of finite numbers in which **a score >= 0 means that the class
    accepts the sample**: either ``decision_function`` or, if it has parameters that act after
    fitting, :meth:`raw_scores` and :meth:`decide`. It may also write :meth:`far_scores`, from which
    ``bounded_`` follows, and :meth:`kept_samples`. Everything else follows from the decision rule.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The known classes, sorted; never the unknown label.
    unknown_label_ : object
        The answer for a sample that no class accepts.
    n_known_unknowns_ : int
        Number of training rows that carry an explicit unknown label.
    """

    traits: Traits
    search_spec: SearchSpec = SearchSpec()

    # Types of fitted attributes, other than arrays and estimators, that a model file may hold.
    stored_types: tuple[type, ...] = ()

    # Names of the fitted attributes, with the layouts of :func:`openset.base.fitted.check_array`.
    # None leaves the arrays of a model file unchecked.
    fitted_attributes: Mapping[str, str] | None = None

    def decision_function(self, X: Any) -> np.ndarray:
        """Acceptance scores.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
            Column c belongs to ``classes_[c]``; >= 0 accepts.
        """
        return self.decide(self.raw_scores(X))

    def raw_scores(self, X: Any) -> np.ndarray:
        """Scores before the parameters that act after fitting are applied.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K) or (n, K, ...)
            Input of :meth:`decide`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define its scores.")

    def decide(self, raw: np.ndarray) -> np.ndarray:
        """Apply the parameters listed in ``search_spec.after_fit`` to raw scores.

        Parameters
        ----------
        raw : ndarray of shape (n, K) or (n, K, ...)
            From :meth:`raw_scores`.

        Returns
        -------
        ndarray of shape (n, K)
            Acceptance scores.
        """
        return raw

    def predict(self, X: Any) -> np.ndarray:
        """Return the accepting class with the highest score, or ``unknown_label_`` without any.

        The last digits of a score may depend on the rows that are scored together and, in ONNX, on
        the runtime. They decide only where a score lies within rounding of 0, or two scores within
        rounding of each other. Methods with a ``known_radius_`` compute scores next to 0 in double
        precision.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        codes = self._by_blocks(X, decide)
        return answer_labels(self.classes_, self.unknown_label_)[codes]

    @property
    def predict_proba(self) -> NoReturn:
        """Not available: an AttributeError tells what to use instead."""
        raise AttributeError(
            f"{type(self).__name__} has no predict_proba: how probable a class is depends on how "
            "many unknown samples come, which no training set tells. For p-values of the classes, "
            "and sets that contain the right one with a given probability, use CalibratedRejector: "
            "p_values(X), known_p_value(X), predict_set(X, alpha=0.05)."
        )

    def predict_known(self, X: Any) -> np.ndarray:
        """Return the class with the highest score, accepted or not: the closed-set answer.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        best = self._by_blocks(X, lambda scores: scores.argmax(axis=1))
        return answer_labels(self.classes_, self.unknown_label_)[best]

    def predict_set(self, X: Any) -> np.ndarray:
        """Return every class that accepts; an empty row is unknown.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K), bool
        """
        return self.decision_function(X) >= 0

    def known_score(self, X: Any) -> np.ndarray:
        """Return the highest acceptance score of each sample: larger is more known.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._by_blocks(X, lambda scores: scores.max(axis=1))

    def _by_blocks(self, X, reduce):
        """Reduce scores of shape (n, K) to shape (n,) without holding those of many samples."""
        n = X.shape[0] if hasattr(X, "shape") and len(X.shape) == 2 else 0
        if n <= _ROWS:
            return reduce(self.decision_function(X))
        (X,) = indexable(X)  # a COO matrix has no rows to take
        blocks = (_safe_indexing(X, rows) for rows in gen_batches(n, _ROWS))
        return np.concatenate([reduce(self.decision_function(block)) for block in blocks])

    def score(self, X: Any, y: ArrayLike, sample_weight: Any = None) -> float:
        """Return the accuracy, in which a label outside the classes is unknown.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels. Those that are not in ``classes_`` count as right where the answer is
            unknown; they need not be relabelled.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        float
        """
        check_consistent_length(X, y, sample_weight)
        right = encode_labels(self.predict(X), self.classes_) == encode_labels(y, self.classes_)
        return float(np.average(right, weights=sample_weight))

    def explain(self, X: Any) -> pandas.DataFrame:
        """Explain each answer: see :func:`openset.base.explain`.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        DataFrame of n rows
            Columns answer, nearest_class, score, deficit, similar, distance, region_gap, runner_up,
            margin and reason.
        """
        return explain(self, X)

    @property
    def bounded_(self) -> np.ndarray:
        """(K,) bool: whether the region that each class accepts is bounded."""
        check_is_fitted(self)
        return self.far_scores() < 0

    def far_scores(self) -> np.ndarray:
        """Limit superior of the scores far away from all training samples.

        Returns
        -------
        ndarray of shape (K,)
            inf where it is not known; then nothing is proved about the accepted region.
        """
        return np.full(len(self.classes_), np.inf)

    @property
    def exact_band(self) -> float:
        """Scores up to this absolute value are computed in double precision; here all of them."""
        return np.inf

    def with_thresholds(self, thresholds: np.ndarray) -> OpenSetClassifier:
        """Return a fitted estimator that accepts where this one scores at least the thresholds.

        Parameters
        ----------
        thresholds : ndarray of shape (K,)

        Returns
        -------
        OpenSetClassifier
            Its scores are those of this estimator less the thresholds.
        """
        return _Shifted(self, thresholds)

    def check_fitted(self) -> dict[str, int]:
        """Check parameters and fitted attributes; :func:`openset.persistence.load_model` calls it.

        Returns
        -------
        dict {str: int}
            The length of each axis that ``fitted_attributes`` names, such as K and d.

        Raises
        ------
        ValueError
            If an attribute is missing or undeclared, or if arrays do not fit together.
        """
        if hasattr(self, "_parameter_constraints"):
            self._validate_params()
        if self.fitted_attributes is None:
            return check_fitted_labels(self)
        return check_attributes(self, self.fitted_attributes)

    def kept_samples(self) -> tuple[Any, np.ndarray, str] | None:
        """Training samples that the fitted model keeps, to which explanations refer.

        Returns
        -------
        (samples, rows, metric) or None
            Their features, their rows in the X of fit, and the metric of the method.
        """
        if not hasattr(self, "support_vectors_"):
            return None
        return self.support_vectors_, self.support_, "euclidean"

    def surroundings(self) -> Callable:
        """Return the function of X behind the distances in an explanation.

        Returns
        -------
        callable
            ``surroundings(X)`` gives (similar, distance, region_gap), each of shape (n,), with the
            meaning of the columns of :func:`openset.base.explain`; similar is -1 where missing.
        """
        return surroundings_of(self)


class _Shifted(OpenSetClassifier):
    """A fitted estimator less thresholds."""

    def __init__(self, estimator, thresholds):
        self.estimator, self.thresholds = estimator, thresholds
        self.classes_, self.unknown_label_ = estimator.classes_, estimator.unknown_label_

    def decision_function(self, X):
        return self.estimator.decision_function(X) - self.thresholds

    def far_scores(self):
        return self.estimator.far_scores() - self.thresholds

    def surroundings(self):
        inner = self.estimator.surroundings()

        def surroundings(X):
            similar, distance, gap = inner(X)
            return similar, distance, np.full(len(gap), np.nan)  # of other thresholds, if any

        return surroundings
