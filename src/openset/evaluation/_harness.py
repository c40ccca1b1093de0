"""Tune, fit and measure one method on one split."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, Normalizer
from sklearn.utils import _safe_indexing, indexable

from .. import metrics
from ..base import OpenSetPipeline, resolve_unknown_label, usable_rows
from ..calibration import CalibratedRejector
from ..registry import method_names
from ..svm import fit_distributed
from ..utils import answer_labels, decide, unwrap
from ..utils.text import similar


@dataclass(frozen=True)
class Evaluation:
    """True labels of samples and the scores that a model gives them.

    Attributes
    ----------
    truth : ndarray of shape (n,)
        True labels; a label outside `classes` is unknown.
    scores : ndarray of shape (n, K)
        Acceptance scores.
    classes : ndarray of shape (K,)
    unknown_label : label, default=None
        Of the answer "unknown"; None takes the default of the estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import Evaluation
    >>> truth, classes = np.array(["a", "b", "x", "y"]), np.array(["a", "b"])
    >>> scores = np.array([[0.5, -1.0], [-0.2, 0.3], [-1.0, -1.0], [0.1, -0.5]])
    >>> evaluation = Evaluation(truth, scores, classes)
    >>> evaluation.measures["accuracy_known"], evaluation.measures["accuracy_unknown"]
    (1.0, 0.5)
    """

    truth: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    unknown_label: Hashable = None

    def __post_init__(self):
        if self.unknown_label is None:
            object.__setattr__(self, "unknown_label", resolve_unknown_label("auto", self.classes))

    @cached_property
    def answers(self) -> np.ndarray:
        """What ``predict`` answers, (n,)."""
        return answer_labels(self.classes, self.unknown_label)[decide(self.scores)]

    @cached_property
    def is_known(self) -> np.ndarray:
        """Which samples are of a known class, (n,) bool."""
        return np.isin(self.truth, self.classes)

    @cached_property
    def report(self) -> metrics.OpenSetReport:
        """Measures of the answers, and precision, recall and F per class."""
        labels: dict[str, Any] = {"known": self.classes, "unknown_label": self.unknown_label}
        return metrics.open_set_report(self.truth, self.answers, **labels)

    @cached_property
    def confusion_matrix(self) -> np.ndarray:
        """Counts of true classes (rows) by answers (columns), (K + 1, K + 1), unknown last."""
        labels: dict[str, Any] = {"known": self.classes, "unknown_label": self.unknown_label}
        return metrics.open_set_confusion_matrix(self.truth, self.answers, **labels)

    @cached_property
    def measures(self) -> dict[str, float]:
        """Every measure that is defined for these samples, by the names of openset.metrics.

        Measures of unknown samples are left out where there are none, and likewise those of known
        samples.
        """
        values = {name: value for name, value in self.report.items() if isinstance(value, float)}
        best = self.scores.max(axis=1)
        for name, scores in (
            ("auroc_known", best),
            ("fpr_at_tpr", best),
            ("oscr_area", self.scores),
        ):
            values[name] = getattr(metrics, name)(self.truth, scores, known=self.classes)
        return {name: float(value) for name, value in values.items() if np.isfinite(value)}

    def curve_at(self, false_positive_rates: ArrayLike, *, named: bool = True) -> np.ndarray:
        """Return the share of known samples accepted at given shares of unknown ones accepted.

        Parameters
        ----------
        false_positive_rates : array-like of shape (k,)
            Increasing, from 0 to 1.
        named : bool, default=True
            Count only samples that are given their own class (the OSCR curve), or all that are
            accepted (the ROC curve).

        Returns
        -------
        ndarray of shape (k,)
        """
        if named:
            fpr, rate, _ = metrics.oscr_curve(self.truth, self.scores, known=self.classes)
        else:  # the OSCR curve of a single class that all known samples belong to
            best = self.scores.max(axis=1)[:, None]
            fpr, rate, _ = metrics.oscr_curve(self.is_known, best, known=[True])
        return np.interp(np.asarray(false_positive_rates, dtype=float), fpr, rate)


def make_method(
    name: str,
    *,
    n_jobs: int | None = None,
    impute: bool = False,
    scale: str = "minmax",
    landmarks: int | None = None,
    random_state: int | None = None,
    verbose: int = 0,
    unknown_label: Any = "auto",
) -> OpenSetPipeline:
    """Return a Pipeline that scales the features and ends in the method.

    Parameters
    ----------
    name : str
        Short name or class name, such as "ossvm" or "OpenSetSVC", in upper or lower case.
    n_jobs : int, default=None
        Threads of the method, if it has the parameter.
    impute : bool, default=False
        Whether to fill missing values with the median of the feature first.
    scale : {"minmax", "unit", "none"}, default="minmax"
        Each feature to [0, 1], each row to length 1, or nothing.
    landmarks, random_state, verbose, unknown_label
        Parameters of the method; the seed and the messages are for landmarks.

    Returns
    -------
    OpenSetPipeline
    """
    known = method_names()
    every = known | {cls.__name__.lower(): cls for cls in known.values()}
    if name.lower() not in every:
        hint = similar(name, every, 1).replace("'", "")
        names = f"there are {', '.join(known)}"
        raise ValueError(f"no such method: {name}; {' '.join(filter(None, [hint, names]))}")
    model: BaseEstimator = every[name.lower()](unknown_label=unknown_label)
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=n_jobs)
    if landmarks is not None:
        usable = [key for key, cls in known.items() if "landmarks" in cls().get_params()]
        if type(model) not in map(known.get, usable):
            raise ValueError(
                f"landmarks={landmarks}, but {name} cannot be trained on landmarks; choose one of "
                f"{', '.join(usable)}"
            )
        model.set_params(landmarks=landmarks, random_state=random_state, verbose=verbose)
    scaler = {"minmax": MinMaxScaler(), "unit": Normalizer(), "none": "passthrough"}[scale]
    fill = [("impute", SimpleImputer(strategy="median"))] if impute else []
    return OpenSetPipeline([*fill, ("scale", scaler), ("model", model)])


# Rows for a search, and rows per class if these are more: it fits on half of the rows of half of
# the classes.
_TUNING_ROWS, _TUNING_ROWS_PER_CLASS = 3000, 200
# Rows per class below which `fit_method` warns that a search cannot choose well.
_FEW_ROWS = 30

# Array elements per part that is sent to a cluster.
_PART = 2**22


@dataclass(frozen=True)
class FittedMethod:
    """A fitted model and how its parameters were chosen.

    Attributes
    ----------
    model : estimator or None
        Fitted on all rows; None where many results are kept, to save memory.
    search : OpenSetSearchCV or None
        The search that chose its parameters, if there was one.
    params : dict
        The parameters that the search chose.
    n_rows, n_tuning_rows : int
        Rows of the fit and of the search.
    seconds_search, seconds_fit : float
    class_counts : dict
        Rows of each label.
    """

    model: Any
    search: Any
    params: dict[str, Any]
    n_rows: int
    n_tuning_rows: int
    seconds_search: float
    seconds_fit: float
    class_counts: dict[Any, int]

    @property
    def counts(self) -> dict[str, Any]:
        """The rows of the fit, as a model card describes them."""
        by_class = {str(label): n for label, n in sorted(self.class_counts.items())}
        return {"rows": self.n_rows, "rows_used": self.n_rows, "rows_by_class": by_class}


@dataclass(frozen=True)
class MethodResult:
    """What one method achieved on one split.

    Attributes
    ----------
    fitted : FittedMethod
        On the training rows.
    evaluation : Evaluation
        On the test rows.
    bounded : ndarray of shape (K,), bool
        Which classes accept a bounded region.
    seconds_predict : float
        Time to score all test rows.
    """

    fitted: FittedMethod
    evaluation: Evaluation
    bounded: np.ndarray
    seconds_predict: float

    @property
    def measures(self) -> dict[str, float]:
        """The measures on the test rows."""
        return self.evaluation.measures


def fit_method(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    max_tuning_rows: int | None = None,
    distributed: bool | Sequence[Callable[[], tuple[np.ndarray, np.ndarray]]] = False,
) -> FittedMethod:
    """Tune a method if it is given as a search, and fit it on all rows.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, a Pipeline that ends in one, or a search of either; it is cloned.
    X : array-like of shape (m, d)
    y : array-like of shape (m,)
        Rows that carry the explicit unknown label of the method are known unknowns; a method that
        cannot learn from them is fitted without them.
    groups : array-like of shape (m,), default=None
        The object of each row, for the search: see :meth:`openset.OpenSetSearchCV.fit`.
    max_tuning_rows : int, default=None
        Rows that the search uses at most, drawn from all by the seed of the search; the model is
        fitted on all.
    distributed : bool or list of callable, default=False
        Fit on all rows by :func:`openset.svm.fit_distributed`, where Dask's scheduler is. Each
        function of a list is called on a worker and returns the features and labels of one part of
        the rows; X and y are then a sample, for the search and for the other steps of a Pipeline.

    Returns
    -------
    FittedMethod

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset import OpenSetSearchCV, OpenSetSVC
    >>> from openset.evaluation import fit_method
    >>> search = OpenSetSearchCV(OpenSetSVC(), {"gamma": [0.1, 1.0]}, random_state=0)
    >>> fitted = fit_method(search, *load_iris(return_X_y=True), max_tuning_rows=60)
    >>> sorted(fitted.params), fitted.n_tuning_rows
    (['gamma'], 60)
    """
    (X,), y = indexable(X), np.asarray(y)
    search, n_tuning_rows, start = None, 0, perf_counter()
    params: dict[str, Any] = {}
    if "refit" in estimator.get_params(deep=False):
        search = clone(estimator)
        if search.refit is True:  # else it names the measure, or is a rule, that chooses
            search.set_params(refit=False)
        most, seed = max_tuning_rows, getattr(search, "random_state", None)
        rows = stratified_rows(y, len(y) if most is None else most, random_state=seed)
        n_tuning_rows = len(rows)
        _warn_of_few_rows(y[rows])
        given = {} if groups is None else {"groups": np.asarray(groups)[rows]}
        params = search.fit(*_take(X, y, rows), **given).best_params_
        estimator = clone(search.estimator).set_params(**params)
        if getattr(search, "device", None) is not None:
            unwrap(estimator).set_params(device=search.device)
    searched = perf_counter()
    used = _take(X, y, usable_rows(unwrap(estimator), y))
    model = clone(estimator)
    counts = Counter(y.tolist())
    if distributed:
        model, counts = _fit_on_cluster(model, used, distributed, counts)
    else:
        model.fit(*used)
    if (scores := getattr(search, "withheld_scores_", None)) is not None:
        unwrap(model).withheld_scores_ = scores  # for the price of a calibration
    times = searched - start, perf_counter() - searched
    n_rows = sum(counts.values())
    return FittedMethod(model, search, params, n_rows, n_tuning_rows, *times, dict(counts))


def _take(X, y, rows):
    """The rows of X and y; X itself, not a copy, if these are all."""
    return (X, y) if len(rows) == len(y) else (_safe_indexing(X, rows), y[rows])


def _fit_on_cluster(model, rows, readers, counts):
    """Fit a landmark model with its rows in parts; return it and the rows of each label."""
    import dask
    import dask.array as da

    *steps, (name, final) = getattr(model, "steps", [("model", model)])
    transforms, (X, y) = [step for _, step in steps], rows
    for step in transforms:
        X = step.fit_transform(X, y)
    X = np.asarray(X)
    if readers is True:
        size = max(1, _PART // X.shape[1])
        rows = [da.from_array(X, (size, -1)), da.from_array(y, size)]
    else:
        read = dask.delayed(_read_part)
        parts = dask.persist(*(read(reader, transforms, final) for reader in readers))
        rows = []
        for k, like in enumerate((X, y)):
            shape = np.nan, *like.shape[1:]
            arrays = [da.from_delayed(part[k], shape, like.dtype) for part in parts]
            rows.append(da.concatenate(arrays, allow_unknown_chunksizes=True))
        counts = sum(dask.compute(*(part[2] for part in parts)), Counter())
    fitted = fit_distributed(final, *rows)
    if not steps:
        return fitted, counts
    model.steps[-1] = name, fitted
    return model, counts


def _read_part(read, transforms, final):
    """Features, transformed, labels and their counts of one part; called on a worker."""
    X, y = read()
    rows = usable_rows(final, y)
    X, y = X[rows], y[rows]
    for step in transforms if len(X) else ():
        X = step.transform(X)
    return np.asarray(X), y, Counter(y.tolist())


def _warn_of_few_rows(y):
    """Warn where a search has too few rows per class to tell settings apart."""
    typical = int(np.median(np.unique(y, return_counts=True)[1]))
    if typical < _FEW_ROWS:
        warnings.warn(
            f"the search has {typical} rows per class to choose parameters with; with fewer than "
            f"{_FEW_ROWS} the choice depends much on chance. Give it more rows, or fit the "
            "estimator with its defaults.",
            UserWarning,
            stacklevel=3,
        )


def evaluate_method(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    split: Sequence[np.ndarray],
    *,
    groups: np.ndarray | None = None,
    max_tuning_rows: int | None = None,
    operating_point: Mapping[str, Any] | None = None,
    calibration: np.ndarray | None = None,
) -> MethodResult:
    """Tune and fit a method on the training rows of a split, and measure it on the test rows.

    Parameters
    ----------
    estimator, X, y
        As for :func:`fit_method`; y are the true classes of all rows.
    split : Split, Simulation or pair of ndarray
        Known classes, training rows and test rows; or the rows alone, as a splitter of
        scikit-learn gives them.
    groups, max_tuning_rows
        As for :func:`fit_method`.
    operating_point : mapping, default=None
        Arguments of :class:`openset.CalibratedRejector`, which then sets the thresholds of the
        fitted model on the rows `calibration`. With ``"refit": True`` the model is then fitted
        again, on training and calibration rows, and keeps these thresholds, without a promise.
    calibration : ndarray of shape (n_calibration,), default=None
        Rows of known classes that are neither training nor test rows.

    Returns
    -------
    MethodResult

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset import OpenSetSVC
    >>> from openset.evaluation import draw_split, evaluate_method
    >>> X, y = load_iris(return_X_y=True)
    >>> split = draw_split(y, n_known=2, random_state=0)
    >>> result = evaluate_method(OpenSetSVC(gamma=1.0), X, y, split)
    >>> result.measures["accuracy_known"] > 0.8, result.fitted.n_rows
    (True, 50)
    """
    (X,), y = indexable(X), np.asarray(y)
    *_, train, test = split
    given: dict[str, Any] = {"groups": None if groups is None else groups[train]}
    given["max_tuning_rows"] = max_tuning_rows
    fitted = fit_method(estimator, _safe_indexing(X, train), y[train], **given)
    if operating_point is not None:
        point = dict(operating_point)
        refit = point.pop("refit", False)
        rejector = CalibratedRejector(FrozenEstimator(fitted.model), **point)
        rejector.fit(_safe_indexing(X, calibration), y[calibration])
        if refit:
            rows = np.concatenate([train, calibration])
            again = fit_method(clone(fitted.model), _safe_indexing(X, rows), y[rows])
            rejector.estimator_, rejector.promise_ = FrozenEstimator(again.model), False
            seconds = fitted.seconds_fit + again.seconds_fit
            fitted = replace(fitted, n_rows=again.n_rows, seconds_fit=seconds)
        fitted = replace(fitted, model=rejector)
    X_test, start = _safe_indexing(X, test), perf_counter()
    scores = fitted.model.decision_function(X_test)
    seconds_predict = perf_counter() - start
    final = unwrap(fitted.model)
    evaluation = Evaluation(y[test], scores, final.classes_, final.unknown_label_)
    return MethodResult(fitted, evaluation, np.asarray(final.bounded_), seconds_predict)


def stratified_rows(
    y: ArrayLike, max_rows: int, *, min_per_class: int = 2, random_state: int | None = None
) -> np.ndarray:
    """Draw rows with the class proportions of `y`.

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes of all rows.
    max_rows : int
        Approximate number of rows to keep; all rows if there are no more.
    min_per_class : int, default=2
        Rows that a class keeps at least, where it has as many.
    random_state : int, default=None

    Returns
    -------
    ndarray of shape (n_rows,)
        Sorted.
    """
    y = np.asarray(y)
    if len(y) <= max_rows:
        return np.arange(len(y))
    rng = np.random.default_rng(random_state)
    kept = []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        kept.append(rows[: max(min_per_class, round(max_rows * len(rows) / len(y)))])
    return np.sort(np.concatenate(kept))


def tuning_rows(y: ArrayLike, wanted: int | None = None) -> int:
    """Return how many rows a search should use: more where there are more classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Classes of all rows.
    wanted : int, default=None
        Rows that the user asks for.

    Returns
    -------
    int
        Not more than n.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.evaluation import tuning_rows
    >>> tuning_rows(np.repeat(np.arange(10), 1000)), tuning_rows(np.repeat(np.arange(150), 100))
    (3000, 15000)
    """
    y = np.asarray(y)
    usual = max(_TUNING_ROWS, _TUNING_ROWS_PER_CLASS * len(np.unique(y)))
    return min(len(y), wanted or usual)
