"""Several methods on the same splits."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import _safe_indexing, indexable

from ..model_selection import OpenSetSearchCV
from ..utils import Progress, decide, unwrap
from ._harness import MethodResult, evaluate_method, stratified_rows


@dataclass
class ComparedMethod:
    """A method and its results, in the order of the splits.

    Attributes
    ----------
    name : str
    results : list of MethodResult
        Only the first keeps its model.
    error : str
        Message of the first split on which the method failed; empty if there is none.
    """

    name: str
    results: list[MethodResult] = field(default_factory=list)
    error: str = ""

    def values(self, measure: str) -> np.ndarray:
        """Return a measure on each split.

        Parameters
        ----------
        measure : str

        Returns
        -------
        ndarray of shape (n_splits,)
        """
        return np.array([result.measures[measure] for result in self.results])

    @property
    def bounded(self) -> float:
        """Mean share of the classes that accept a bounded region."""
        return float(np.mean([result.bounded.mean() for result in self.results]))

    @property
    def seconds_tune(self) -> float:
        """Median time for search and fit; the first split may include compilation."""
        return float(
            np.median([r.fitted.seconds_search + r.fitted.seconds_fit for r in self.results])
        )

    @property
    def seconds_predict(self) -> float:
        """Median time to score one sample."""
        return float(np.median([r.seconds_predict / len(r.evaluation.truth) for r in self.results]))


def compare_methods(
    methods: Mapping[str, BaseEstimator],
    X: ArrayLike,
    y: ArrayLike,
    splits: Iterable[Sequence[np.ndarray]],
    *,
    n_repeats: int = 3,
    measure: str = "normalized_accuracy",
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> list[ComparedMethod]:
    """Tune, fit and measure every method on the same splits.

    A method that fails on a split is not tried on the later ones; the others are.

    Parameters
    ----------
    methods : mapping {str: estimator}
        By name, not fitted. An estimator that has a default grid is tuned over it by
        :class:`openset.OpenSetSearchCV`; a search, and any other estimator, is fitted as it is.
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
    splits : iterable
        Of what :func:`evaluate_method` takes as a split.
    n_repeats : int, default=3
        Simulations in the search of each split.
    measure : str, default="normalized_accuracy"
        The methods are sorted by its mean.
    random_state : int, default=0
        The search on split k uses the seed ``random_state + k``, and so does an estimator that is
        fitted as it is and has the parameter.
    n_jobs : int, default=None
        Threads of the search; only the times depend on it.
    verbose : int, default=0
        If positive, show progress.

    Returns
    -------
    list of ComparedMethod
        Best first; methods that failed come last.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from openset import OSNN
    >>> from openset.evaluation import compare_methods, draw_split
    >>> X, y = load_iris(return_X_y=True)
    >>> splits = [draw_split(y, n_known=2, random_state=seed) for seed in range(2)]
    >>> best = compare_methods({"osnn": OSNN()}, X, y, splits, n_repeats=1)[0]
    >>> best.name, best.values("normalized_accuracy").shape
    ('osnn', (2,))
    """
    splits = list(splits)
    if not splits:
        raise ValueError("splits is empty; give at least one (a generator serves once only).")
    compared = [ComparedMethod(name) for name in methods]
    progress = Progress(len(splits) * len(methods), "comparing", verbose > 0)
    for k, split in enumerate(splits):
        for method in compared:
            if not method.error:
                try:
                    search = _as_search(methods[method.name], n_repeats, n_jobs, random_state + k)
                    result = _evaluate_quietly(search, X, y, split)
                except Exception as error:  # one method must not stop the others
                    method.error = f"repeat {k + 1}: {error}"
                else:
                    _check_measure(measure, result.measures)
                    if k:
                        bare = replace(result.fitted, model=None, search=None)
                        result = replace(result, fitted=bare)
                    method.results.append(result)
            progress.step()
    failed = [method for method in compared if method.error]
    ranked = [method for method in compared if not method.error]
    return sorted(ranked, key=lambda method: -method.values(measure).mean()) + failed


def _check_measure(measure, measures):
    if measure not in measures:
        raise ValueError(
            f"measure={measure!r} is not one of those found on the test rows of a split: "
            f"{sorted(measures)}."
        )


def _as_search(estimator, n_repeats, n_jobs, seed):
    """A copy, or the search over the default grid of an estimator that has one."""
    search = clone(estimator)
    is_search = "refit" in estimator.get_params(deep=False)
    if not is_search and "default" in unwrap(estimator).search_spec.grids:
        search = OpenSetSearchCV(estimator, n_repeats=n_repeats, n_jobs=n_jobs)
    if "random_state" in search.get_params(deep=False):
        search.set_params(random_state=seed)
    return search


def _evaluate_quietly(search, X, y, split):
    """Evaluate without the warnings of settings that fail, two classes and few rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message="y has 2 classes|the search has")
        return evaluate_method(search, X, y, split)


def confidence_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the mean and half the width of its confidence interval, by Student's t.

    Parameters
    ----------
    values : array-like of shape (n,)
        At least two.
    confidence : float, default=0.95

    Returns
    -------
    mean : float
    half_width : float
    """
    values = np.asarray(values, dtype=float)
    quantile = student.ppf((1 + confidence) / 2, len(values) - 1)
    return float(values.mean()), float(quantile * values.std(ddof=1) / np.sqrt(len(values)))


def paired_differences(
    methods: Sequence[ComparedMethod], measure: str = "normalized_accuracy"
) -> dict[str, tuple[float, float]]:
    """Return how far each method is behind the first, with half the width of the interval.

    The splits are the same for all, so the differences are taken split by split. The intervals hold
    for all methods at once with 95 % confidence (Bonferroni): the first one was picked as the best
    of several.

    Parameters
    ----------
    methods : sequence of ComparedMethod
        Best first; those that failed are skipped.
    measure : str, default="normalized_accuracy"

    Returns
    -------
    dict {str: (mean, half_width)}
    """
    first, *others = (method for method in methods if not method.error)
    lead, confidence = first.values(measure), 1 - 0.05 / max(1, len(others))
    return {m.name: confidence_interval(lead - m.values(measure), confidence) for m in others}


def coinciding_methods(methods: Sequence[ComparedMethod]) -> list[list[str]]:
    """Return groups of methods that gave the same answer to every sample of every split.

    With the parameters that were chosen they are the same machine, as an SVM with a threshold of
    zero is the SVM.

    Parameters
    ----------
    methods : sequence of ComparedMethod
        Those that failed are skipped.

    Returns
    -------
    list of list of str
        Names, in the order of `methods`; only groups of two or more.
    """
    groups: dict[bytes, list[str]] = {}
    for method in (m for m in methods if not m.error):
        answers = [decide(result.evaluation.scores) for result in method.results]
        groups.setdefault(np.concatenate(answers).tobytes(), []).append(method.name)
    return [names for names in groups.values() if len(names) > 1]


def rows_within(
    methods: Mapping[str, BaseEstimator],
    X: ArrayLike,
    y: ArrayLike,
    splits_of: Callable[[np.ndarray], Sequence],
    seconds: float,
    *,
    pilot_rows: int = 400,
    **options,
) -> int:
    """Return how many rows a comparison can use in a given time, by a trial on a few rows.

    The trial runs the first split on `pilot_rows` rows, after a smaller one that compiles, and
    time is taken to grow with the square of the rows.

    Parameters
    ----------
    methods, X, y
        As for :func:`compare_methods`.
    splits_of : callable
        ``splits_of(y)`` draws the splits for some of the rows.
    seconds : float
        Time for all splits.
    pilot_rows : int, default=400
        Rows of the trial, and the fewest that are returned.
    **options
        Further arguments of :func:`compare_methods`.

    Returns
    -------
    int
        At most the length of y.
    """
    (X,), y = indexable(X), np.asarray(y)
    if len(y) <= pilot_rows:
        return len(y)
    for n_rows in (pilot_rows // 4, pilot_rows):
        rows = stratified_rows(y, n_rows, min_per_class=4, random_state=0)
        splits = splits_of(y[rows])
        start = perf_counter()
        compare_methods(methods, _safe_indexing(X, rows), y[rows], splits[:1], **options)
        took = perf_counter() - start
    possible = int(len(rows) * np.sqrt(seconds / (took * len(splits))))
    return min(len(y), max(pilot_rows, possible))
