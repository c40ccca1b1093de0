"""Several methods on the same splits, and a model before and after it learned from decisions."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import compress
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.sparse import vstack as stack_sparse
from scipy.stats import t as student
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable

from ..calibration import CalibratedRejector
from ..discovery import Decisions
from ..model_selection import OpenSetSearchCV
from ..utils import Progress, chosen_width, decide, replace_final, split_fitted, unwrap
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
        fits = [result.fitted for result in self.results]
        return float(np.median([fit.seconds_search + fit.seconds_fit for fit in fits]))

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
        The search on split k, or an estimator that is fitted as it is, uses ``random_state + k``.
    n_jobs : int, default=None
        Threads of the search.
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
            progress.step()
            if method.error:
                continue
            try:
                search = _as_search(methods[method.name], n_repeats, n_jobs, random_state + k)
                with warnings.catch_warnings():  # settings that fail, two classes, few rows
                    warnings.simplefilter("ignore", FitFailedWarning)
                    warnings.filterwarnings("ignore", "y has 2 classes|the search has")
                    result = evaluate_method(search, X, y, split)
            except Exception as error:  # one method must not stop the others
                method.error = f"repeat {k + 1}: {error}"
                continue
            if measure not in result.measures:
                raise ValueError(
                    f"measure={measure!r} is not one of those found on the test rows of a split: "
                    f"{sorted(result.measures)}."
                )
            if k:
                bare = replace(result.fitted, model=None, search=None)
                result = replace(result, fitted=bare)
            method.results.append(result)
    return sorted(compared, key=lambda m: np.inf if m.error else -m.values(measure).mean())


def _as_search(estimator, n_repeats, n_jobs, seed):
    """A copy, or the search over the default grid of an estimator that has one."""
    search = clone(estimator)
    is_search = "refit" in estimator.get_params(deep=False)
    if not is_search and "default" in unwrap(estimator).search_spec.grids:
        search = OpenSetSearchCV(estimator, n_repeats=n_repeats, n_jobs=n_jobs)
    if "random_state" in search.get_params(deep=False):
        search.set_params(random_state=seed)
    return search


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

    The differences are taken split by split. The intervals hold for all methods at once with 95 %
    confidence (Bonferroni): the first one was picked as the best of several.

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

    With the parameters that were chosen they are the same machine.

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


# Warn if the old classes lose more accuracy than this, and more rows than that.
_TOLERATED, _CHANCE = 0.01, 2
# Classes with fewer rows are not held out.
_FEWEST = 5


@dataclass(frozen=True)
class Learned:
    """A model that has learned from decisions.

    Attributes
    ----------
    model : estimator
        With the transformers of the old model, unchanged.
    changes : dict
        For the card: rows per new class, corrections, junk, removed and renamed classes.
    report : dict
        Accuracies on held-out rows: ``old`` with ``rows``, ``before`` and ``after``; ``new`` with
        ``rows``, ``rejected_before`` and ``after``. Empty if no row was learned.
    warnings : list of str
        What the user should know.
    """

    model: BaseEstimator
    changes: dict[str, Any]
    report: dict[str, Any]
    warnings: list[str]


def learn_decisions(
    model: BaseEstimator,
    X: Any,
    y: Any,
    X_new: Any,
    decisions: Decisions,
    *,
    X_unknown: Any = None,
    remove: Iterable = (),
    rename: Mapping | None = None,
    random_state: int = 0,
) -> Learned:
    """Teach a model new classes and corrections, and measure what that does to the old classes.

    New classes and corrections join the training data. Junk becomes known unknowns if the method
    can learn from these, and is left out otherwise. The parameters of the model are kept. Then
    classes are removed and renamed. A calibrated model is calibrated again; an operating point that
    was set on other samples (:func:`openset.calibration.calibrate`) is dropped, with a warning.

    The report comes from two more fits, of the old and of the new training data without a fifth of
    the rows, which both are measured on.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, or a Pipeline or a search of one (the best estimator counts).
    X : array-like of shape (n, d), or whatever the model takes
        The samples that the model was trained on.
    y : array-like of shape (n,)
        Their classes, all that the model knows; rows of an explicit unknown label are known
        unknowns.
    X_new : like X
        The samples that the decisions are about.
    decisions : Decisions
        For example from :func:`openset.discovery.read_decisions`.
    X_unknown : like X, default=None
        Further samples of no class, which are treated as junk.
    remove : iterable of labels, default=()
        Classes that are no longer answered.
    rename : mapping {old: new}, default=None
        New names of classes.
    random_state : int, default=0
        Seed of the rows that are held out.

    Returns
    -------
    Learned

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.discovery import Decisions
    >>> from openset.evaluation import learn_decisions
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 0.3, (20, 2)) for center in (0, 3, 6)])
    >>> y = np.repeat(["a", "b", "c"], 20)
    >>> model = OpenSetSVC(gamma=1.0, C=8.0).fit(X[:40], y[:40])
    >>> decisions = Decisions(np.arange(20), ["new"] * 20, ["c"] * 20)
    >>> learned = learn_decisions(model, X[:40], y[:40], X[40:], decisions)
    >>> print(learned.model.predict([[6, 6]]), learned.report["new"]["rejected_before"])
    ['c'] 1.0
    """
    if X_unknown is not None and len(X_unknown):
        decisions = _with_junk(decisions, len(X_new), len(X_unknown))
        X_new = _stack(X_new, X_unknown)
    warnings: list[str] = []
    model = _without_operating_point(model, warnings)
    transform, final = split_fitted(model)
    remove, rename = list(remove), dict(rename or {})
    taught, report = deepcopy(final), {}
    if len(decisions):
        Z, Z_new = map(_as_rows, indexable(transform(X)) + indexable(transform(X_new)))
        added = _added(final, Z_new, decisions, warnings)
        taught = _grow(final, Z, np.asarray(y), added, warnings)
        report = _compare(final, Z, np.asarray(y), added, random_state, warnings)
    if remove:
        taught.remove_classes(remove)
    if rename:
        taught.rename_classes(rename)
    new = Counter(map(str, compress(decisions.labels, decisions.of_kind("new"))))
    changes = {
        "new": dict(sorted(new.items())),
        "corrected": int(decisions.of_kind("class").sum()),
        "junk": int(decisions.of_kind("junk").sum()),
        "removed": [str(label) for label in remove],
        "renamed": {str(old): str(new) for old, new in rename.items()},
    }
    return Learned(replace_final(model, taught), changes, report, warnings)


def _with_junk(decisions: Decisions, n_before: int, n: int) -> Decisions:
    """The decisions, and those that the `n` rows after the first `n_before` are junk."""
    rows = np.append(decisions.rows, np.arange(n_before, n_before + n))
    return Decisions(rows, [*decisions.kinds, *["junk"] * n], [*decisions.labels, *[None] * n])


def _added(final, Z_new, decisions, warnings):
    """Rows with names, the names, and rows of no class, if the method can learn from these."""
    decisions.check(Z_new.shape[0], final.classes_, final.unknown_label_)
    named, junk = decisions.of_kind("new", "class"), decisions.of_kind("junk")
    if junk.any() and not final.traits.known_unknowns:
        warnings.append(
            f"{junk.sum()} junk rows were left out: {type(final).__name__} cannot learn from "
            "samples of no class"
        )
        junk[:] = False
    rows = np.asarray(decisions.rows)
    labels = np.array([*compress(decisions.labels, named)])
    return _safe_indexing(Z_new, rows[named]), labels, _safe_indexing(Z_new, rows[junk])


def _with_labels(y, labels):
    """Both one after the other; without further labels, `y` keeps its dtype."""
    return np.concatenate([y, labels]) if len(labels) else y


def _as_rows(Z):
    return Z if hasattr(Z, "shape") else np.asarray(Z)


def _stack(*parts):
    """The rows of arrays, tables or sparse matrices, one part after the other."""
    if any(map(issparse, parts)):
        return stack_sparse(parts, format="csr")
    if all(hasattr(part, "iloc") for part in parts):
        import pandas as pd

        return pd.concat(parts)
    return np.concatenate(parts)


def _without_operating_point(model, warnings):
    """The model inside a rejector that was calibrated on samples which are not given here."""
    final = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not (isinstance(final, CalibratedRejector) and isinstance(final.estimator, FrozenEstimator)):
        return model
    warnings.append(
        "the operating point was dropped: it was set on samples of the old classes only. Set it "
        "again, on samples of all classes, with openset.calibration.calibrate or `openset "
        "calibrate`"
    )
    return replace_final(model, final.estimator_.estimator)


def _with_params(final, y, junk):
    """The parameters for these labels, and y with the label of the junk that follows."""
    params: dict[str, Any] = {}
    labels = [label for label in np.unique(y).tolist() if label != final.unknown_label_]
    for name, value in final.get_params(deep=False).items():
        if isinstance(value, dict) and name != "class_weight":
            middle = float(np.median(list(value.values())))  # for a new class
            params[name] = {label: value.get(label, middle) for label in labels}
    if junk.shape[0]:
        params["unknown_label"] = final.unknown_label_
        y = np.concatenate([y, np.full(junk.shape[0], final.unknown_label_)])
    return params, y


def _fit(final, Z, y, junk):
    """The method of `final`, with its parameters, fitted to all rows."""
    params, y = _with_params(final, y, junk)
    return clone(final).set_params(**params | chosen_width(final)).fit(_stack(Z, junk), y)


def _grow(final, Z, y, added, warnings):
    """The same, with the added rows, from the present solution if it was trained on these rows."""
    Z_new, labels, junk = added
    Z, y = _stack(Z, Z_new), _with_labels(y, labels)
    if lost := final.classes_[~np.isin(final.classes_, y)].tolist():
        raise ValueError(
            f"the training data have no row of {lost}, which the model knows and would forget: "
            "add the rows that it was learned from, under these names, or remove these classes "
            "first"
        )
    params, labels = _with_params(final, y, junk)
    try:
        return deepcopy(final).set_params(**params).add_classes(_stack(Z, junk), labels)
    except ValueError as error:
        taught = _fit(final, Z, y, junk)  # raises again unless the warm start was the problem
        warnings.append(f"refitted from scratch: {error}")
    return taught


def _compare(final, Z, y, added, random_state, warnings):
    """Accuracies of both training sets on rows that neither has."""
    rng = np.random.default_rng(random_state)
    Z_new, y_new, junk = added
    unknown = final.unknown_label_
    fit_old, test_old = _hold_out(y, unknown, rng)
    fit_new, test_new = _hold_out(y_new, unknown, rng)
    Z_fit, Z_test = _safe_indexing(Z, fit_old), _safe_indexing(Z, test_old)
    before = _fit(final, Z_fit, y[fit_old], junk[:0])
    both = _stack(Z_fit, _safe_indexing(Z_new, fit_new))
    after = _fit(final, both, _with_labels(y[fit_old], y_new[fit_new]), junk)
    was, is_now = (float(np.mean(m.predict(Z_test) == y[test_old])) for m in (before, after))
    report = {"old": {"rows": len(test_old), "before": was, "after": is_now}}
    if was - is_now > _TOLERATED and (was - is_now) * len(test_old) > _CHANCE + 0.5:
        warnings.append(
            f"the old classes suffer: {was:.1%} of their held-out rows were named correctly "
            f"before, {is_now:.1%} are now"
        )
    if len(test_new):
        Z_test = _safe_indexing(Z_new, test_new)
        rejected = float(np.mean(before.predict(Z_test) == before.unknown_label_))
        named = float(np.mean(after.predict(Z_test) == y_new[test_new]))
        report["new"] = {"rows": len(test_new), "rejected_before": rejected, "after": named}
    return report


def _hold_out(y, unknown_label, rng):
    """Rows to fit and a fifth of the rows of each class, unless it has few."""
    test = []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        if len(rows) >= _FEWEST and label != unknown_label:  # known unknowns stay
            test.append(rows[: len(rows) // 5])
    held = np.sort(np.concatenate(test)) if test else np.empty(0, dtype=np.intp)
    return np.setdiff1d(np.arange(len(y)), held), held
