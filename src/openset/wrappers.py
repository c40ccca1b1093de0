"""Closed-set classifiers that learn to answer unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier, is_outlier_detector
from sklearn.svm import OneClassSVM
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from .base import (
    OpenSetClassifier,
    SearchSpec,
    Traits,
    canonical,
    refuse_ensembles,
    resolve_unknown_label,
    set_labels,
    validate_targets,
)
from .base.fitted import require, warn_if_not_stored, warn_if_tree
from .base.parameters import FRACTIONS, NUMBER, param, with_parameters
from .utils import split_fitted, unwrap

__all__ = ["CascadeRejector", "OpenSetWrapper", "ShiftedWrapper", "ThresholdRejector"]


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

    def fit_estimator(
        self, X, y: np.ndarray, sample_weight: np.ndarray | None, groups: np.ndarray | None = None
    ) -> None:
        """Fit a clone of ``estimator``; set the attributes of the labels.

        Parameters
        ----------
        X, y, sample_weight
            From :meth:`check_targets`.
        groups : ndarray of shape (n,), default=None
            The object of each row, passed on to an estimator that takes it, such as a search.
        """
        warn_if_not_stored(self)
        set_labels(self, y)  # refuses known unknowns, unless the method takes them
        self.estimator_ = fit_clone(self.estimator, X, y, sample_weight, groups)
        warn_if_tree(self.estimator_)
        self.classes_ = self.estimator_.classes_
        if y.dtype.kind == "O":  # some estimators turn objects into strings of fixed width
            self.classes_ = self.classes_.astype(object)
        self.unknown_label_ = resolve_unknown_label(self.unknown_label, self.classes_)
        self._take_features()

    def _take_features(self) -> None:
        """Take over number and names of the features, where the fitted estimator has them."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # of an earlier fit
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


class ShiftedWrapper(OpenSetWrapper):
    """Base class of wrappers that move the thresholds of a fitted open-set estimator."""

    def moved(self) -> tuple[Callable, OpenSetClassifier]:
        """Return the transformers as a function, and the estimator after them, moved.

        Returns
        -------
        transform : callable
        moved : OpenSetClassifier
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it is moved.")

    @property
    def known_radius_(self) -> np.ndarray:
        """(K,) distances from all positive support vectors beyond which a class rejects."""
        return self.moved()[1].known_radius_

    def far_scores(self) -> np.ndarray:
        return self.moved()[1].far_scores()

    def neighbourhood(self, X):
        transform, moved = self.moved()
        return moved.neighbourhood(transform(X))

    @available_if(lambda self: hasattr(unwrap(self.estimator), "inclusion_proba"))
    def inclusion_proba(self, X) -> np.ndarray:
        """Probabilities of inclusion of the estimator, where its method defines them.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the estimator takes

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self)
        transform, model = split_fitted(self.estimator_)
        return model.inclusion_proba(transform(X))


@with_parameters
class ThresholdRejector(OpenSetWrapper):
    """Reject samples for which a closed-set classifier is not confident enough.

    Parameters
    ----------
    estimator : estimator
        A classifier with ``predict_proba`` or ``decision_function``. It is cloned; wrap a fitted
        one in :class:`sklearn.frozen.FrozenEstimator` to keep it as it is.
    threshold : float, default=0.5
        Smallest confidence that accepts. Changing it needs no new fit.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        The confidence. "auto": probabilities if the estimator gives them. A decision function
        with one value per sample, of two classes, is the confidence in the second class and its
        negative that in the first.
    confidence : {"score", "ratio"}, default="score"
        What is compared with `threshold`: the response itself, or, for responses that are not
        negative such as probabilities and votes, 1 minus the ratio of the second highest to the
        highest: 0 where two classes tie, 1 where only one class has any. The ratio rejects samples
        between classes and does not depend on the scale of the response.
    unknown_label : "auto" or label, default="auto"
        Answer for samples that no class accepts.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier.
    classes_ : ndarray of shape (K,)
    unknown_label_ : object
    bounded_ : ndarray of shape (K,), bool
        False: nothing is known about the classifier. Most are confident far away from all data.
    n_features_in_, feature_names_in_
        Only if the fitted classifier has them.

    References
    ----------
    C. K. Chow, "On optimum recognition error and reject tradeoff", IEEE Transactions on
    Information Theory 16(1), 1970.

    R. Vareto, S. Silva, F. Costa, W. R. Schwartz, "Towards open-set face recognition using hashing
    functions", International Joint Conference on Biometrics, 2017, for the ratio of the two highest
    scores.

    Examples
    --------
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from openset.wrappers import ThresholdRejector
    >>> X = [[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]]
    >>> y = ["a", "a", "a", "b", "b", "b"]
    >>> model = ThresholdRejector(KNeighborsClassifier(n_neighbors=4), threshold=0.7)
    >>> model.fit(X, y).predict([[0.1], [0.6], [1.1]])
    array(['a', 'unknown', 'b'], dtype='<U7')
    """

    estimator: BaseEstimator
    threshold: float = param(0.5, NUMBER)
    response_method: str = param("auto", StrOptions({"auto", "predict_proba", "decision_function"}))
    confidence: str = param("score", StrOptions({"score", "ratio"}))
    unknown_label: Any = "auto"

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", m]) for m in ("predict_proba", "decision_function")],
    }

    traits = Traits("thresholded classifier", condition="not known: it depends on the classifier")
    search_spec = SearchSpec({"default": {"threshold": FRACTIONS}}, after_fit=("threshold",))

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ThresholdRejector:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n, d), or whatever the classifier takes
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            For a classifier that takes weights; rows of weight zero are dropped.

        Returns
        -------
        self
        """
        if sample_weight is not None and not supports_weights(self.estimator):
            raise ValueError(
                f"sample_weight was passed, but {type(self.estimator).__name__} takes no weights. "
                "Leave them out or wrap a classifier that does."
            )
        self._response(self.estimator)
        X, y, sample_weight = self.check_targets(X, y, sample_weight)
        self.fit_estimator(X, y, sample_weight)
        if len(self.classes_) == 1 and self._response(self.estimator_) == "decision_function":
            raise ValueError(
                f"y has one class, {self.classes_.tolist()!r}; the decision_function of "
                f"{type(self.estimator_).__name__} separates two. Wrap a classifier with "
                "predict_proba, or give at least 2 classes."
            )
        return self

    def decide(self, raw):
        return raw - self.threshold

    def raw_scores(self, X):
        check_is_fitted(self)
        refuse_ensembles(self)
        method = self._response(self.estimator_)
        scores = finite(getattr(self.estimator_, method)(canonical(X)))
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        if scores.shape[1] != len(self.classes_):
            raise ValueError(
                f"{method} of {type(self.estimator_).__name__} gives {scores.shape[1]} columns for "
                f"{len(self.classes_)} classes; one per class is needed (for SVC set "
                'decision_function_shape="ovr").'
            )
        if self.confidence == "score":
            return scores
        # 1 - second / first of the highest class, own / first - 1 of the others.
        if scores.min(initial=0.0) < 0:
            raise ValueError(
                'confidence="ratio" needs responses of 0 or more; '
                f"{type(self.estimator_).__name__} gave {scores.min():.3g}. Use a classifier with "
                'predict_proba, or confidence="score".'
            )
        rows, best = np.arange(len(scores)), scores.argmax(axis=1)
        first = np.where(scores[rows, best] > 0, scores[rows, best], 1.0)
        shares = scores / first[:, np.newaxis] - 1.0
        others = scores.copy()
        others[rows, best] = 0.0
        shares[rows, best] = np.where(scores[rows, best] > 0, 1.0 - others.max(axis=1) / first, 0.0)
        return shares

    def _response(self, estimator):
        """Name of the method that gives the confidence."""
        if self.response_method == "auto":
            probabilistic = hasattr(estimator, "predict_proba")
            return "predict_proba" if probabilistic else "decision_function"
        if not hasattr(estimator, self.response_method):
            raise ValueError(
                f"response_method={self.response_method!r}, but {type(estimator).__name__} has no "
                'such method; use response_method="auto" or another classifier.'
            )
        return self.response_method


@with_parameters
class CascadeRejector(OpenSetWrapper):
    """Reject what an outlier detector or a one-class model rejects; classify the rest.

    Parameters
    ----------
    rejector : estimator
        An outlier detector that can judge new samples: ``predict`` gives 1 or -1,
        ``decision_function``, if there is one, is >= 0 for what it accepts. Or an open-set
        estimator such as :class:`openset.MulticlassSVDD`: it accepts what any of its classes
        accepts. A clone is fitted to all training samples.
    estimator : estimator
        A classifier; a clone is fitted to the training samples and their labels.
    per_class : bool, default=False
        Whether an open-set rejector is fitted with the labels, so that it has a region per class;
        if not, all training samples are one class to it. An outlier detector knows no classes.
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
        kernel and a negative bias, or an open-set estimator whose classes are all bounded. False
        means that nothing is proved.
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

    With one SVDD around all samples:

    >>> from openset import MulticlassSVDD
    >>> model = CascadeRejector(MulticlassSVDD(gamma=1.0), LogisticRegression()).fit(X, y)
    >>> model.predict([[0.1], [1.1], [9.0]]), model.bounded_
    (array([ 0,  1, -1]), array([ True,  True]))
    """

    rejector: BaseEstimator
    estimator: BaseEstimator
    per_class: bool = False
    unknown_label: Any = "auto"

    _parameter_constraints = {
        "rejector": [HasMethods(["fit", "predict"])],
        "estimator": [HasMethods(["fit", "predict"])],
    }

    fitted_attributes = {"estimator_": "", "rejector_": ""}
    traits = Traits("cascade", condition="the rejector accepts a bounded region")

    @property
    def search_spec(self) -> SearchSpec:  # type: ignore[override]
        """Grid over the fraction of samples that the rejector may reject, by either name."""
        names = {"contamination", "nu"} & set(self.rejector.get_params())
        grid = {f"rejector__{name}": [0.01, 0.02, 0.05, 0.1, 0.2, 0.5] for name in names}
        return SearchSpec({"default": grid} if grid else {})

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
        is_open_set = hasattr(self.rejector, "known_score")
        if not is_open_set and not is_outlier_detector(self.rejector):
            raise ValueError(
                f"rejector={self.rejector!r} is not an outlier detector and not an open-set "
                "estimator. Pass one, such as OneClassSVM, IsolationForest or MulticlassSVDD (your "
                "own: derive from OutlierMixin)."
            )
        if self.per_class and not is_open_set:
            raise ValueError(
                f"per_class=True, but rejector={self.rejector!r} knows no classes. Pass an "
                "open-set estimator such as MulticlassOneClassSVM, or per_class=False."
            )
        takes_weights = supports_weights(self.rejector) or supports_weights(self.estimator)
        if sample_weight is not None and not takes_weights:
            raise ValueError(
                f"sample_weight was passed, but neither {type(self.rejector).__name__} nor "
                f"{type(self.estimator).__name__} takes weights. Leave them out."
            )
        X, y, sample_weight = self.check_targets(X, y, sample_weight)
        self.fit_estimator(X, y, sample_weight)
        labels = None
        if is_open_set:
            labels = y if self.per_class else np.zeros(len(y), dtype=int)
        self.rejector_ = fit_clone(self.rejector, X, labels, sample_weight)
        return self

    def far_scores(self) -> np.ndarray:
        rejector, far = self.rejector_, np.inf
        if hasattr(rejector, "bounded_"):
            far = -1.0 if np.all(rejector.bounded_) else np.inf
        elif isinstance(rejector, OneClassSVM) and rejector.kernel == "rbf":
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
        refuse_ensembles(self)
        X = canonical(X)
        judge = getattr(self.rejector_, "decision_function", self.rejector_.predict)
        judge = getattr(self.rejector_, "known_score", judge)
        accepted = finite(judge(X)).reshape(-1, 1)
        answers = np.asarray(self.estimator_.predict(X)).reshape(-1, 1) == self.classes_
        return np.where(answers, accepted, np.minimum(accepted, 0.0) - 1.0)


def supports_weights(estimator: BaseEstimator) -> bool:
    """Whether ``fit`` takes ``sample_weight``."""
    return has_fit_parameter(estimator, "sample_weight")


def fit_clone(estimator: BaseEstimator, X, y, sample_weight, groups=None) -> BaseEstimator:
    """Fit a clone, with weights and groups where there are any and it takes them; y may be None."""
    arguments, options = (X,) if y is None else (X, y), {}
    if sample_weight is not None and supports_weights(estimator):
        options["sample_weight"] = sample_weight
    if groups is not None and has_fit_parameter(estimator, "groups"):
        options["groups"] = groups
    return clone(estimator).fit(*arguments, **options)


def finite(scores) -> np.ndarray:
    """The scores in float64; NaN, of a sample that cannot be scored, becomes the lowest."""
    scores = np.asarray(scores, dtype=np.float64)
    largest = np.finfo(np.float64).max / 4  # room for a threshold
    return np.nan_to_num(scores, nan=-largest, posinf=largest, neginf=-largest)
