"""Tune, fit and measure one method on one split."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, indexable

from ..base import usable_rows
from ..calibration import CalibratedRejector
from ..svm import fit_distributed
from ..utils import unwrap
from ._evaluation import Evaluation
from ._splits import stratified_rows

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
        X_some, y_some = X, y
        if max_tuning_rows is not None and max_tuning_rows < len(y):
            seed = getattr(search, "random_state", None)
            rows = stratified_rows(y, max_tuning_rows, random_state=seed)
            X_some, y_some = _safe_indexing(X, rows), y[rows]
        n_tuning_rows = len(y_some)
        _warn_of_few_rows(y_some)
        params = search.fit(X_some, y_some).best_params_
        estimator = clone(search.estimator).set_params(**params)
        if getattr(search, "device", None) is not None:
            unwrap(estimator).set_params(device=search.device)
    searched = perf_counter()
    rows = usable_rows(unwrap(estimator), y)
    used = (X, y) if len(rows) == len(y) else (_safe_indexing(X, rows), y[rows])
    model = clone(estimator)
    counts = Counter(y.tolist())
    if distributed:
        model, read = _fit_on_cluster(model, used[0], used[1], distributed)
        counts = counts if read is None else read
    else:
        model.fit(*used)
    if (scores := getattr(search, "withheld_scores_", None)) is not None:
        unwrap(model).withheld_scores_ = scores  # for the price of a calibration
    times = searched - start, perf_counter() - searched
    n_rows = sum(counts.values())
    return FittedMethod(model, search, params, n_rows, n_tuning_rows, *times, dict(counts))


def _fit_on_cluster(model, X, y, readers):
    """Fit a landmark model, or a Pipeline that ends in one, with its rows in parts.

    Return the model, and the number of rows of each label that `readers` returned, or None.
    """
    import dask
    import dask.array as da

    steps = getattr(model, "steps", [("model", model)])
    for _, step in steps[:-1]:
        X = step.fit_transform(X, y)
    X, counts = np.asarray(X), None
    if readers is True:
        size = max(1, _PART // X.shape[1])
        rows = da.from_array(X, (size, -1)), da.from_array(y, size)
    else:
        transforms = [step for _, step in steps[:-1]]
        parts = [dask.delayed(_read_part)(read, transforms, steps[-1][1]) for read in readers]
        parts = dask.persist(*parts)
        counts = sum(dask.compute(*(dask.delayed(_counted)(part[1]) for part in parts)), Counter())
        shapes = (np.nan, X.shape[1]), (np.nan,)
        rows = tuple(
            da.concatenate(
                [da.from_delayed(part[k], shape, (X, y)[k].dtype) for part in parts],
                allow_unknown_chunksizes=True,
            )
            for k, shape in enumerate(shapes)
        )
    fitted = fit_distributed(steps[-1][1], *rows)
    if steps[:-1]:
        model.steps[-1] = (steps[-1][0], fitted)
        return model, counts
    return fitted, counts


def _read_part(read, transforms, final):
    """Features, transformed, and labels of one part; called on a worker."""
    X, y = read()
    rows = usable_rows(final, y)
    X, y = X[rows], y[rows]
    for step in transforms if len(X) else ():
        X = step.transform(X)
    return np.asarray(X), y


def _counted(y):
    return Counter(y.tolist())


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
    max_tuning_rows: int | None = None,
    operating_point: Mapping[str, Any] | None = None,
    calibration: np.ndarray | None = None,
) -> MethodResult:
    """Tune and fit a method on the training rows of a split, and measure it on the test rows.

    Parameters
    ----------
    estimator : estimator
        An open-set estimator, a Pipeline that ends in one, or a search of either.
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
        True classes of all rows.
    split : Split, Simulation or pair of ndarray
        Known classes, training rows and test rows; or the rows alone, as a splitter of
        scikit-learn gives them.
    max_tuning_rows : int, default=None
        Rows that a search uses at most; see :func:`fit_method`.
    operating_point : mapping, default=None
        Arguments of :class:`openset.CalibratedRejector`, which then sets the thresholds of the
        fitted model on the rows `calibration`. With ``"refit": True`` the model is then fitted
        again, on training and calibration rows, and keeps these thresholds. More rows make a better
        model; nothing is promised any more.
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
    fitted = fit_method(
        estimator, _safe_indexing(X, train), y[train], max_tuning_rows=max_tuning_rows
    )
    if operating_point is not None:
        point = dict(operating_point)
        refit = point.pop("refit", False)
        rejector = CalibratedRejector(FrozenEstimator(fitted.model), **point)
        rejector.fit(_safe_indexing(X, calibration), y[calibration])
        if refit:
            rows = np.concatenate([train, calibration])
            again = fit_method(clone(fitted.model), _safe_indexing(X, rows), y[rows])
            rejector.estimator_, rejector.promise_ = FrozenEstimator(again.model), False
            fitted = replace(
                fitted, n_rows=again.n_rows, seconds_fit=fitted.seconds_fit + again.seconds_fit
            )
        fitted = replace(fitted, model=rejector)
    X_test, start = _safe_indexing(X, test), perf_counter()
    scores = fitted.model.decision_function(X_test)
    seconds_predict = perf_counter() - start
    final = unwrap(fitted.model)
    evaluation = Evaluation(y[test], scores, final.classes_, final.unknown_label_)
    return MethodResult(fitted, evaluation, np.asarray(final.bounded_), seconds_predict)
