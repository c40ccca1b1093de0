"""The contract of an open-set classifier: one decision rule, one unknown label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import _safe_indexing, gen_batches, indexable
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..metrics import encode_labels
from ..utils import answer_labels, chosen_width, decide
from ._explain import explain, neighbourhood_of
from .fitted import check_attributes, check_fitted_labels
from .parameters import SearchSpec, Traits

if TYPE_CHECKING:
    import pandas

# Samples whose scores of all classes are in memory at the same time.
_ROWS = 2**15
# Results that a model keeps for predict (a W-SVM has two expansions), and values of each array that
# are compared to notice a change.
_KEPT, _SAMPLED = 2, 512


def _sample(array) -> bytes:
    values = array.data if sparse.issparse(array) else array
    flat = values.reshape(-1) if values.flags.c_contiguous else values.flat
    return flat[:: max(1, values.size // _SAMPLED) | 1].tobytes()


class OpenSetClassifier(ClassifierMixin, BaseEstimator):
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
    classes_: np.ndarray
    unknown_label_: Any

    # Types of fitted attributes, other than arrays and estimators, that a model file may hold.
    stored_types: tuple[type, ...] = ()

    # Names of the fitted attributes, with the layouts of :func:`openset.base.fitted.check_array`.
    # None leaves the arrays of a model file unchecked. Those whose first axis is K follow when
    # classes are removed or renamed, and so do the class attributes.
    fitted_attributes: Mapping[str, str] | None = None
    class_attributes: tuple[str, ...] = ()

    def decision_function(self, X: Any) -> np.ndarray:
        """Acceptance scores, (n, K): column c belongs to ``classes_[c]``, and >= 0 accepts.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
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
        """
        raise NotImplementedError(f"{type(self).__name__} does not define its scores.")

    def decide(self, raw: np.ndarray) -> np.ndarray:
        """Apply the parameters listed in ``search_spec.after_fit`` to raw scores.

        Parameters
        ----------
        raw : ndarray of shape (n, K) or (n, K, ...)

        Returns
        -------
        ndarray of shape (n, K)
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
        """Explain each answer.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        DataFrame of n rows
            Its columns are those of :func:`openset.base.explain`.
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
        """A fitted estimator whose scores are those of this one less the thresholds (K,)."""
        return _Shifted(self, thresholds)

    def prepared(self, make: Callable, arrays: tuple, settings: Any) -> Any:
        """``make()``, kept until one of the arrays or settings it comes from is replaced."""
        # A change of few values in place may go unnoticed. It is not pickled with the model.
        kept = self.__dict__.setdefault("_prepared", [])
        sampled = [_sample(array) for array in arrays]
        for entry, before, given, result in tuple(kept):
            if all(map(is_, entry, arrays)) and before == sampled:
                try:  # settings of the user may hold anything
                    if bool(given == settings):
                        return result
                except ValueError:
                    pass
        result = make()  # by each of several threads, it may be
        kept[:] = [(arrays, sampled, settings, result), *kept[: _KEPT - 1]]
        return result

    def __getstate__(self):
        return {k: v for k, v in super().__getstate__().items() if k != "_prepared"}

    def __setstate__(self, state):
        super().__setstate__({k: v for k, v in state.items() if k != "_prepared"})

    def check_fitted(self) -> dict[str, int]:
        """Check parameters and fitted attributes; :func:`openset.persistence.load_model` calls it.

        Returns
        -------
        dict {str: int}
            The length of each axis that ``fitted_attributes`` names, such as K and d.
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

    def neighbourhood(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Columns similar (-1 if none), distance and region_gap of an explanation, (n,) each."""
        return neighbourhood_of(self, X)

    def add_classes(self, X: Any, y: ArrayLike) -> Self:
        """Learn new classes in addition to the present ones: a fit to all data, old and new.

        The kernel width does not follow the new data: gamma="scale" and "auto" keep the value
        ``gamma_`` they had. Parameters given as a dict have to name the new classes, too; call
        ``set_params`` first.

        Parameters
        ----------
        X : array-like of shape (m, d)
            All samples, old and new, in any order.
        y : array-like of shape (m,)
            Their classes; none of the present classes may be missing.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset.neighbors import OSNN
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OSNN().fit(X, y)
        >>> X, y = [*X, [0, 9], [1, 9]], [*y, "above", "above"]
        >>> model.add_classes(X, y).predict([[0, 0.5], [0.5, 9]])
        array(['left', 'above'], dtype='<U7')
        """
        check_is_fitted(self)
        self.check_no_class_lost(y)
        if not (width := chosen_width(self)):
            return self.fit(X, y)
        grown = clone(self).set_params(**width).fit(X, y)
        self.__dict__.update(vars(grown) | self.get_params(deep=False))
        return self

    def check_no_class_lost(self, y: ArrayLike) -> None:
        """Raise ValueError if y (m,) has no samples of a class that the model knows."""
        labels = set(np.asarray(y).ravel().tolist())
        if gone := [c for c in self.classes_.tolist() if c not in labels]:
            raise ValueError(
                f"y has no samples of {gone}, which the model knows: add_classes takes all data, "
                "old and new. Use fit to train without a class."
            )

    def remove_classes(self, labels: Iterable) -> Self:
        """Stop answering some classes.

        The other classes stay as they are: the samples of a removed class remain the negatives that
        they were in training, so that they are still rejected. To forget them, fit again without
        them. Entries of parameters given as a dict {class: value} go as well. Thresholds that were
        calibrated before have to be calibrated again.

        Parameters
        ----------
        labels : iterable of labels
            Classes of the model; at least one class must remain.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset import OpenSetSVC
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OpenSetSVC(gamma=0.5).fit(X, y).remove_classes(["right"])
        >>> model.predict([[0, 0.5], [5, 5.5]])
        array(['left', 'unknown'], dtype='<U7')
        """
        check_is_fitted(self)
        known = self.classes_.tolist()
        gone = self._check_known("labels", labels)
        if len(gone) == len(known):
            raise ValueError(f"labels={gone!r} are all classes of the model; one must remain.")
        kept = np.flatnonzero([label not in gone for label in known])
        return self._edit_classes(kept, self.classes_[kept], gone, {})

    def rename_classes(self, names: Mapping) -> Self:
        """Give classes other names; columns of scores and dict parameters follow.

        Parameters
        ----------
        names : mapping {old: new}
            New names have the type of the old ones; none is the unknown label or another class.

        Returns
        -------
        self

        Examples
        --------
        >>> from openset import OpenSetSVC
        >>> X, y = [[0, 0], [0, 1], [5, 5], [5, 6]], ["left", "left", "right", "right"]
        >>> model = OpenSetSVC(gamma=0.5).fit(X, y).rename_classes({"left": "west"})
        >>> model.classes_
        array(['right', 'west'], dtype='<U5')
        """
        check_is_fitted(self)
        if not isinstance(names, Mapping):
            raise ValueError(f"names={names!r} must be a mapping {{old: new}}.")
        self._check_known("names", names)
        new = [names.get(label, label) for label in self.classes_.tolist()]
        text = isinstance(self.classes_.tolist()[0], str)
        for label in names.values():
            if isinstance(label, str) != text:
                raise ValueError(
                    f"names gives the new name {label!r}, but the classes of the model are "
                    f"{'texts' if text else 'numbers'}; a new name must be of the same type."
                )
            if label == self.unknown_label_:
                raise ValueError(f"names gives the new name {label!r}, which means unknown.")
        labels = np.array(new, dtype=object if self.classes_.dtype.kind == "O" else None)
        different, counts = np.unique(labels, return_counts=True)
        if len(different) < len(new):
            twice = different[counts > 1].tolist()
            raise ValueError(
                f"names would make two classes {twice[0]!r}; to merge classes, fit again."
            )
        order = np.argsort(labels, kind="stable")
        self.__dict__.pop("fold_rows_", None)  # of `openset fit`: indices in the old order
        return self._edit_classes(order, labels[order], [], names)

    def take_classes(self, index: np.ndarray) -> None:
        """Keep what was fitted for these indices of ``classes_``, which is set afterwards."""
        layouts = self.fitted_attributes or {}
        names = {*self.class_attributes, *(n for n, layout in layouts.items() if layout[:1] == "K")}
        if not names or "estimator_" in layouts:
            raise ValueError(
                f"{type(self).__name__} cannot change its classes after fitting; change those of "
                "the estimator inside, or fit again."
            )
        for name in names:
            setattr(self, name, getattr(self, name)[index])

    def _check_known(self, name, labels):
        labels = [labels] if np.isscalar(labels) else list(labels)
        known = self.classes_.tolist()
        for label in labels:
            if label not in known:
                raise ValueError(
                    f"{name} has {label!r}, which is not a class of the model; its classes are "
                    f"{known[:20]!r}{' ...' if len(known) > 20 else ''}."
                )
        return labels

    def _edit_classes(self, index, classes, gone, names):
        """Take classes by their indices; parameters that are dicts {class: value} follow."""
        self.take_classes(index)
        self.classes_ = classes
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, dict):
                value = {names.get(c, c): v for c, v in value.items() if c not in gone}
                setattr(self, name, value)
        return self


class _Shifted(OpenSetClassifier):
    """A fitted estimator less thresholds."""

    def __init__(self, estimator, thresholds):
        self.estimator, self.thresholds = estimator, thresholds
        self.classes_, self.unknown_label_ = estimator.classes_, estimator.unknown_label_

    def decision_function(self, X):
        return self.estimator.decision_function(X) - self.thresholds

    def far_scores(self):
        return self.estimator.far_scores() - self.thresholds

    def neighbourhood(self, X):
        similar, distance, gap = self.estimator.neighbourhood(X)
        return similar, distance, np.full(len(gap), np.nan)  # of other thresholds, if any
