"""Answers by a fitted open-set estimator: of a Pipeline or a search, and of groups of samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..utils import answer_labels, decide, split_fitted, unwrap
from ._classifier import OpenSetClassifier
from ._explain import explain
from ._validation import group_codes

if TYPE_CHECKING:
    import pandas


def _attribute(name: str, doc: str, unwrapped: bool = True) -> Any:
    """A property of what answers, or of the open-set estimator inside it."""
    return property(partial(_read, name, unwrapped), doc=doc)


def _read(name, unwrapped, self):
    model = self.delegate()
    return getattr(unwrap(model) if unwrapped else model, name)


def _method(name: str, doc: str) -> Any:
    """A method of the open-set estimator that answers, where that has it."""
    ask: Any = partial(_ask, name)
    ask.__name__, ask.__doc__ = name, doc
    return available_if(lambda self: hasattr(unwrap(self), name))(ask)


def _ask(name, self, X, **params):
    return self._ask_final(name, X, params)


class DelegatingClassifier(OpenSetClassifier):
    """An open-set classifier that answers as another one; a subclass writes :meth:`delegate`."""

    def delegate(self) -> BaseEstimator:
        """The fitted estimator, or Pipeline, that answers; NotFittedError if there is none."""
        raise NotImplementedError(f"{type(self).__name__} does not say what answers for it.")

    def decision_function(self, X: Any, **params: Any) -> np.ndarray:
        if not params:
            return self.delegate().decision_function(X)
        return self._ask_final("decision_function", X, params)

    def predict(self, X: Any, **params: Any) -> np.ndarray:
        return self._ask_final("predict", X, params) if params else super().predict(X)

    def known_score(self, X: Any, **params: Any) -> np.ndarray:
        return self._ask_final("known_score", X, params) if params else super().known_score(X)

    def predict_set(self, X: Any, **params: Any) -> np.ndarray:
        return self._ask_final("predict_set", X, params) if params else super().predict_set(X)

    def _ask_final(self, name: str, X: Any, params: Mapping[str, Any]) -> Any:
        """What a method of the open-set estimator answers, such as with `categories`."""
        transform, final = split_fitted(self.delegate())
        return getattr(final, name)(transform(X), **params)

    inclusion_proba = _method("inclusion_proba", "Probabilities of inclusion, (n, K).")
    p_values = _method("p_values", "Conformal p-values of the classes, (n, K).")
    known_p_value = _method("known_p_value", 'Conformal p-values of "this is known", (n,).')

    @available_if(lambda self: hasattr(unwrap(self), "check"))
    def check(self, X_new: Any, **params: Any) -> Any:
        """Test whether new samples are like the calibration samples."""
        return self._ask_final("check", X_new, params)

    def explain(self, X: Any) -> pandas.DataFrame:
        return explain(self.delegate(), X)

    def far_scores(self) -> np.ndarray:
        return unwrap(self.delegate()).far_scores()

    def add_classes(self, X: Any, y: ArrayLike) -> Self:
        """Teach the estimator inside new classes; transformers and parameters stay as they are."""
        transform, final = split_fitted(self.delegate())
        final.add_classes(transform(X), y)
        return self

    def remove_classes(self, labels: Iterable) -> Self:
        unwrap(self.delegate()).remove_classes(labels)
        return self

    def rename_classes(self, names: Mapping) -> Self:
        unwrap(self.delegate()).rename_classes(names)
        return self

    classes_ = _attribute("classes_", "(K,) the known classes.")
    unknown_label_ = _attribute("unknown_label_", "The answer for a sample that no class accepts.")
    n_known_unknowns_ = _attribute("n_known_unknowns_", "Number of training rows of no class.")
    bounded_ = _attribute("bounded_", "(K,) bool: whether the region of each class is bounded.")
    known_radius_ = _attribute("known_radius_", "(K,) the certificate, behind transformers.")
    n_features_in_ = _attribute("n_features_in_", "Number of features of the samples.", False)
    feature_names_in_ = _attribute("feature_names_in_", "Names of the features, if any.", False)


class OpenSetPipeline(DelegatingClassifier, Pipeline):
    """A Pipeline that ends in an open-set estimator and has its methods and attributes.

    scikit-learn's Pipeline passes on only the names that scikit-learn knows. This one also has
    ``known_score``, ``predict_known``, ``predict_set``, ``explain``, ``unknown_label_`` and
    ``bounded_``. :func:`openset.make_pipeline` makes one and names the steps.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As for :class:`sklearn.pipeline.Pipeline`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from openset import OpenSetSVC
    >>> from openset.base import OpenSetPipeline
    >>> steps = [("scale", StandardScaler()), ("svc", OpenSetSVC())]
    >>> model = OpenSetPipeline(steps).fit(*load_iris(return_X_y=True))
    >>> model.known_score([[5.0, 3.4, 1.5, 0.2]]) >= 0
    array([ True])
    """

    def delegate(self) -> BaseEstimator:
        check_is_fitted(self)
        return Pipeline(self.steps)

    def __getitem__(self, ind: Any) -> Any:
        part = super().__getitem__(ind)
        if isinstance(ind, slice) and part.steps and part.steps[-1] is not self.steps[-1]:
            return Pipeline(part.steps, memory=part.memory, verbose=part.verbose)
        return part


# What scikit-learn's Pipeline does not pass on.
_MISSING = frozenset(
    "known_score predict_known predict_set inclusion_proba explain unknown_label_ bounded_ "
    "known_radius_ n_known_unknowns_ add_classes remove_classes rename_classes".split()
)


def _name_the_remedy(pipeline: Pipeline, name: str) -> Any:
    """``Pipeline.__getattr__``: which pipeline has a missing member of an open-set estimator."""
    # Python calls it only after a name was not found, so what Pipeline has stays as it is.
    steps = vars(pipeline).get("steps") if name in _MISSING else None
    if steps and isinstance(steps[-1][-1], OpenSetClassifier):
        raise AttributeError(
            f"scikit-learn's {type(pipeline).__name__} does not pass on {name!r} of "
            f"{type(steps[-1][-1]).__name__}. openset.make_pipeline(*steps) makes one that does; "
            "openset.base.OpenSetPipeline(pipeline.steps) takes over a fitted one."
        )
    return object.__getattribute__(pipeline, name)  # raises the error it raised before


if not hasattr(Pipeline, "__getattr__"):
    Pipeline.__getattr__ = _name_the_remedy


def make_pipeline(*steps: BaseEstimator, **options: Any) -> OpenSetPipeline:
    """Put transformers in front of an open-set estimator and keep its whole contract.

    Parameters
    ----------
    *steps : estimators
        Transformers, and finally an open-set estimator or a search of one.
    **options
        ``memory``, ``transform_input`` and ``verbose`` of
        :func:`sklearn.pipeline.make_pipeline`, which also names the steps.

    Returns
    -------
    OpenSetPipeline

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import StandardScaler
    >>> from openset import OpenSetSVC, make_pipeline
    >>> model = make_pipeline(StandardScaler(), OpenSetSVC()).fit(*load_iris(return_X_y=True))
    >>> model.predict([[5.0, 3.4, 1.5, 0.2], [50.0, 50.0, 50.0, 50.0]]), model.unknown_label_
    (array([ 0, -1]), -1)
    >>> model.bounded_
    array([ True,  True,  True])
    """
    if not steps:
        raise ValueError("make_pipeline needs at least one step, an open-set estimator.")
    unwrap(steps[-1])  # raises a TypeError if it is not an open-set estimator
    plain = sklearn_pipeline(*steps, **options)
    return OpenSetPipeline(**plain.get_params(deep=False))


AGGREGATES = ("mean", "median", "votes")


def predict_groups(
    model: Any, X: Any, groups: Any, *, aggregate: str | None = None, categories: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Answer each group of samples once: a class, or unknown.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d), or whatever the model takes
    groups : array-like of shape (n,)
        The object of each sample: a track, a speaker, a session.
    aggregate : {"mean", "median", "votes"}, default=None
        As for :func:`group_scores`. None is that of the ``KnownRejected(aggregate=...)`` which the
        model was calibrated for, or else "mean".
    categories : array-like of shape (n,), default=None
        As for :meth:`CalibratedRejector.predict`.

    Returns
    -------
    names : ndarray of shape (G,)
        The groups, sorted.
    answers : ndarray of shape (G,)
        The answer to each.

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.base import predict_groups
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> X_new = [[0, 0.4], [0, 0.6], [2, 2], [9, 9], [5, 5.5]]
    >>> names, answers = predict_groups(model, X_new, ["a", "a", "a", "b", "c"])
    >>> dict(zip(names.tolist(), answers.tolist(), strict=True))
    {'a': 'left', 'b': 'unknown', 'c': 'right'}
    """
    final = unwrap(model)
    calibrated = getattr(getattr(final, "criterion_", None), "aggregate", None)
    given = {} if categories is None else {"categories": categories}
    scores = model.decision_function(X, **given)
    names, scores = group_scores(scores, groups, aggregate=aggregate or calibrated or "mean")
    return names, answer_labels(final.classes_, final.unknown_label_)[decide(scores)]


def group_scores(
    scores: np.ndarray, groups: Any, *, aggregate: str = "mean"
) -> tuple[np.ndarray, np.ndarray]:
    """Acceptance scores of groups from those of their samples.

    Parameters
    ----------
    scores : ndarray of shape (n, K)
        Of ``decision_function``; 0 or more accepts, also for the result.
    groups : array-like of shape (n,)
        The object of each sample.
    aggregate : {"mean", "median", "votes"}, default="mean"
        "mean" and "median": of the scores of the samples, class by class. "votes": the share of a
        class among the answers to the samples, less that of unknown; so the most frequent answer
        wins, of equally frequent ones the first class, and unknown last.

    Returns
    -------
    names : ndarray of shape (G,)
        The groups, sorted.
    scores : ndarray of shape (G, K)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.base import group_scores
    >>> group_scores(np.array([[1.0, -1.0], [3.0, -1.0], [-1.0, -2.0]]), ["a", "a", "b"])
    (array(['a', 'b'], dtype='<U1'), array([[ 2., -1.],
           [-1., -2.]]))
    """
    if aggregate not in AGGREGATES:
        raise ValueError(f"aggregate={aggregate!r} must be one of {', '.join(AGGREGATES)}.")
    names, codes = group_codes(groups, len(scores))
    if aggregate == "median":
        parts = [np.median(scores[codes == g], axis=0) for g in range(len(names))]
        return names, np.stack(parts)
    sums = scores
    if aggregate == "votes":
        votes = np.eye(scores.shape[1] + 1)[decide(scores)]
        sums = votes[:, :-1] - votes[:, -1:]
    totals = np.zeros((len(names), scores.shape[1]))
    np.add.at(totals, codes, sums)
    return names, totals / np.bincount(codes)[:, None]


def group_levels(scores: np.ndarray, groups: np.ndarray, aggregate: str) -> np.ndarray:
    """(G, K), or (G, 1) for votes: up to which common threshold a class accepts each group."""
    # With votes it is the highest threshold at which some class has as many votes as unknown has.
    if aggregate != "votes":
        return group_scores(scores, groups, aggregate=aggregate)[1]
    best, votes = scores.max(axis=1), np.eye(scores.shape[1])[scores.argmax(axis=1)]
    levels = []
    for g in np.unique(groups):
        rows = np.flatnonzero(groups == g)
        rows = rows[np.argsort(-best[rows], kind="stable")]
        most = votes[rows].cumsum(axis=0).max(axis=1)
        levels.append(best[rows[np.argmax(most >= np.arange(len(rows))[::-1])]])
    return np.array(levels)[:, None]
