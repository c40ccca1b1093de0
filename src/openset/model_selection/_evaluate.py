"""Scores of many candidates on simulated splits, each computed the cheapest way.

The estimator's ``search_spec`` says which of three ways it allows. Kernel machines run through the
grid engine: all widths, boxes and lambdas of all splits over shared kernel rows. Parameters that
act after fitting (thresholds) are tried on the raw scores of one fit. Everything else is cloned
and fitted. A fit that fails scores -inf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing, check_random_state

from ..base import GridScores, SearchSpec
from ..utils import split_pipeline, thread_map, unwrap
from ._split import Simulation

# Quantiles of the scores of withheld rows that are kept of each setting and simulation.
_QUANTILES = 101
_CLASS_FOLDS = 5  # in which known classes are withheld


class Candidate(NamedTuple):
    """A setting of a search under its number, which it keeps wherever it goes."""

    number: int
    params: dict[str, Any]


# Numbers of candidates, a split, their scores (-inf if a setting is infeasible or the fit failed),
# the largest score far from all samples where regions must be bounded (else NaN), what
# `withheld_scores` gives, and what a failed fit raised.
SplitScores = tuple[list[int], int, Any, Any, np.ndarray | None, Exception | None]


@dataclass(frozen=True)
class SearchData:
    """The training set of a search, of m rows, its splits and its measure."""

    # `known` of a split are the classes whose scores are wanted. `measure(true, scores)` maps codes
    # (n,) and acceptance scores (..., n, K) to scores (...). The code of a sample outside the K
    # classes is K. At level "class" there is one column, and codes are 0 for the positive class, 1
    # for known negatives and 2 for unknowns.

    X: Any
    y: np.ndarray
    codes: np.ndarray  # (m,) of the known classes; the largest stands for known unknowns
    weight: np.ndarray
    classes: np.ndarray
    splits: Sequence[Simulation]
    measure: Callable[[np.ndarray, np.ndarray], np.ndarray] | None  # None: a callable scores models
    n_jobs: int | None
    checked: list = field(default_factory=list)  # models, X, and what their checks returned
    # Candidates with splits, and what scores them, see `kept_scorer`.
    scorers: list = field(default_factory=list)

    @cached_property
    def labels(self) -> np.ndarray:
        """Sorted labels of y, the unknown label included."""
        return np.unique(self.y)

    def true(self, s: int) -> np.ndarray:
        """The codes of the rows to judge in a split."""
        n, split = len(self.classes), self.splits[s]
        known = np.flatnonzero(np.bincount(self.codes[split.fit], minlength=n)[:n])
        true = np.full(n + 1, len(known))
        true[known] = np.arange(len(known))
        if len(split.known) < len(known):  # level "class"
            true = np.where(true == len(known), 2, 1)
            true[np.searchsorted(self.classes, split.known)] = 0
        return true[self.codes[split.validation]]

    def rows(self, rows: np.ndarray, split: Simulation) -> SearchData:
        """Some of the rows with one split, whose rows are counted among these."""
        return replace(
            self,
            X=_safe_indexing(self.X, rows),
            y=self.y[rows],
            codes=self.codes[rows],
            weight=self.weight[rows],
            splits=[split],
            checked=[],
            scorers=[],
        )

    def checked_for(self, model: Any, X: Any) -> Any:
        """What `model` returns for X after its checks, which are the same in every round."""
        for known, source, points in self.checked:
            if known is model and source is X:
                return points
        points = model.check_search_data(X, self.y, self.weight)
        if X is self.X:
            self.checked.append((model, X, points))
        return points

    def scorer_for(self, model: Any, X: Any, candidates: list[Candidate], which) -> Callable:
        """What scores candidates on splits by the grid engine, see ``grid_scorer``."""
        splits = [self.splits[s] for s in which]
        parts = [(s.fit, s.validation, np.searchsorted(self.labels, s.known)) for s in splits]
        rows = self.checked_for(model, X), self.y, self.weight, parts
        settings = [candidate.params for candidate in candidates]
        return model.grid_scorer(settings, *rows, n_jobs=self.n_jobs)

    def kept_scorer(self, model: Any, X: Any, candidates: list[Candidate], which) -> Callable:
        """`scorer_for`, with the kernel matrices of the last call if that was for the same."""
        same = candidates, which
        if not self.scorers or self.scorers[0] != same:
            self.scorers[:] = same, self.scorer_for(model, X, candidates, which)
        return self.scorers[1]


def withheld_scores(true: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Sorted highest scores of the unknown among n samples, at most 101 quantiles of them."""
    # Of codes (n,) and scores (..., n, K) as a measure takes them; none at level "class".
    n_classes = scores.shape[-1]
    unknown = np.flatnonzero(true == n_classes) if n_classes > 1 else true[:0]
    best = np.sort(scores[..., unknown, :].max(axis=-1), axis=-1)
    quantiles = np.linspace(0, len(unknown) - 1, min(_QUANTILES, len(unknown)))
    return best[..., quantiles.astype(int)]


def evaluate(
    estimator: BaseEstimator,
    candidates: Sequence[Candidate],
    data: SearchData,
    which: Sequence[int],
    scoring: Callable[[BaseEstimator, Any, np.ndarray], float] | None = None,
    as_fitted: bool = False,
    wanted: np.ndarray | None = None,
) -> Iterator[SplitScores]:
    """Score every candidate on the splits `which`, in an order that suits the estimator."""
    # With a callable (estimator, X, y), and with `as_fitted`, every candidate is fitted on every
    # split. With the latter each fit is what the refit would be: regions are forced to be bounded
    # where the estimator says so. With `wanted`, bools of shape (settings, splits), the grid engine
    # scores only those, and keeps its matrices for the next call with the same candidates.
    if scoring is not None or as_fitted:
        for number, params in candidates:
            model, one = clone(estimator).set_params(**params), [Candidate(number, {})]
            yield from _fit_splits(model, one, data.X, which, data, scoring, as_fitted)
        return
    transformer, final, prefix = split_pipeline(estimator)
    for shared, members in _group(candidates, lambda name: not name.startswith(prefix)):
        if prefix:
            members = [
                Candidate(number, {name.removeprefix(prefix): v for name, v in params.items()})
                for number, params in members
            ]
        if transformer is None:
            yield from _evaluate_final(final, members, data.X, which, data, wanted)
            continue
        head = clone(transformer).set_params(**shared)
        # The transformers of a Pipeline are fitted on the fitting part of each split alone.
        for s in which:
            fit = data.splits[s].fit
            try:
                fitted = clone(head).fit(_safe_indexing(data.X, fit), data.y[fit])
                X = fitted.transform(data.X)
            except Exception as error:
                yield [c.number for c in members], s, -np.inf, np.nan, None, error
            else:
                yield from _evaluate_final(final, members, X, [s], data)


def _group(candidates, is_shared) -> Iterator[tuple[dict[str, Any], list[Candidate]]]:
    """Group by the values of the shared parameters, which the members then lack."""
    names = sorted(filter(is_shared, set().union(*(c.params for c in candidates))))
    if not names:
        yield {}, list(candidates)
        return
    groups: dict[tuple, tuple[dict[str, Any], list[Candidate]]] = {}
    for number, params in candidates:
        shared = {name: params[name] for name in names if name in params}
        rest = {name: value for name, value in params.items() if name not in shared}
        key = tuple((name, repr(value)) for name, value in shared.items())
        groups.setdefault(key, (shared, []))[1].append(Candidate(number, rest))
    yield from groups.values()


def _evaluate_final(final, candidates, X, which, data, wanted=None):
    spec = spec_of(final)
    # A training set of one class has no machine against the rest.
    by_engine = bool(spec.engine) and bool(np.any(data.codes != data.codes[0]))
    cheap = spec.engine if by_engine else spec.after_fit
    for shared, members in _group(candidates, lambda name: name not in cheap):
        # The engine fits nothing, so it needs no clone of its own.
        model = final if by_engine and not shared else clone(final).set_params(**shared)
        if by_engine:
            yield from _by_engine(model, members, X, which, data, wanted)
        else:
            yield from _fit_splits(model, members, X, which, data)


def _by_engine(model, candidates, X, which, data, wanted=None):
    """Score candidates that differ in engine parameters only."""
    bounded = must_be_bounded(model)
    true = [data.true(s) for s in which]

    def judge(grid: GridScores) -> SplitScores:
        codes = true[grid.split]
        scores = data.measure(codes, grid.scores)
        withheld = withheld_scores(codes, grid.scores)
        far = grid.far.max(axis=-1) if bounded else np.full(len(scores), np.nan)
        entry = [t for t, members in enumerate(grid.settings) for _ in members]
        numbers = [candidates[i].number for members in grid.settings for i in members]
        scores = np.where(far >= 0, -np.inf, scores)[entry]
        return numbers, which[grid.split], scores, far[entry], withheld[entry], None

    if wanted is None:
        scorer = data.scorer_for(model, X, candidates, which)
        wanted = np.ones((len(candidates), len(true)), dtype=bool)
    else:
        scorer = data.kept_scorer(model, X, candidates, which)
        wanted = wanted[np.ix_([candidate.number for candidate in candidates], which)]
    for together in scorer(wanted):
        yield from thread_map(judge, together, data.n_jobs)


def _fit_splits(model, candidates, X, which, data, scoring=None, as_fitted=False):
    """Fit a clone per split, in threads, and score the candidates on it."""
    # They differ in parameters that act after fitting.
    final = unwrap(model)
    bounded = must_be_bounded(final) and not as_fitted
    if bounded:
        final.set_params(**{spec_of(final).bounded_switch: False})
    n_jobs = data.n_jobs
    if as_fitted and lend_threads(model, n_jobs):  # there are more classes than splits
        n_jobs = None
    run = partial(_fit_split, model, candidates, X, data, scoring, bounded)
    yield from thread_map(run, which, n_jobs)


def _fit_split(model, candidates, X, data, scoring, bounded, s) -> SplitScores:
    """Fit a clone on one split, and score the candidates on it."""
    _, fit, validation = data.splits[s]
    numbers = [candidate.number for candidate in candidates]
    try:
        weights = fit_weights(model, data.weight[fit])
        fitted = clone(model).fit(_safe_indexing(X, fit), data.y[fit], **weights)
        rows, true = _safe_indexing(X, validation), data.true(s)
        decisions = list(_decisions(fitted, candidates, rows))
        if scoring is None:
            scores = [data.measure(true, each) for each in decisions]
        else:
            scores = [scoring(fitted, rows, data.y[validation])]
        withheld = np.array([withheld_scores(true, each) for each in decisions])
        far = float(unwrap(fitted).far_scores().max()) if bounded else np.nan
    except Exception as error:
        return numbers, s, -np.inf, np.nan, None, error
    return numbers, s, np.where(far >= 0, -np.inf, scores), far, withheld, None


def _decisions(fitted, candidates, X) -> Iterator[np.ndarray]:
    """Acceptance scores (n, K) of each candidate; several differ in what acts after fitting."""
    names = spec_of(fitted).after_fit
    if not (names and any(candidate.params for candidate in candidates)):
        yield from [fitted.decision_function(X)] * len(candidates)
        return
    usual = {name: getattr(fitted, name) for name in names}
    raw = fitted.raw_scores(X)
    for candidate in candidates:
        yield fitted.set_params(**usual | candidate.params).decide(raw)


def lend_threads(model: BaseEstimator, n_jobs: int | None) -> bool:
    """Give threads to the last step of a model if it uses threads and has none of its own."""
    final = split_pipeline(model)[1]
    lent = final.get_params(deep=False).get("n_jobs", 1) is None
    if lent:
        final.set_params(n_jobs=n_jobs)
    return lent


def spec_of(final: BaseEstimator) -> SearchSpec:
    """What the method declares for the search; nothing for other estimators."""
    return getattr(final, "search_spec", SearchSpec())


def must_be_bounded(final: BaseEstimator) -> bool:
    """Whether a setting with an unbounded region is infeasible for this estimator."""
    switch = spec_of(final).bounded_switch
    return switch is not None and bool(getattr(final, switch))


def fit_weights(estimator: BaseEstimator, weight: np.ndarray) -> dict[str, np.ndarray]:
    """The argument of ``fit`` that passes weights to the last step; none if all are one."""
    _, _, prefix = split_pipeline(estimator)
    return {} if np.all(weight == 1) else {f"{prefix}sample_weight": weight}


def held_out_scores(estimator, X, y, fold, fit_rows=None, on_fold=lambda: None) -> np.ndarray:
    """Highest scores (n,) by models fitted to the other folds; those of fold -1 are of no use."""
    fit_rows, scores = np.arange(len(y)) if fit_rows is None else fit_rows, np.empty(len(y))
    for k in range(fold.max() + 1):
        rows, rest = fit_rows[fold[fit_rows] != k], np.flatnonzero(fold == k)
        model = clone(estimator).fit(_safe_indexing(X, rows), y[rows])
        scores[rest] = model.decision_function(_safe_indexing(X, rest)).max(axis=1)
        on_fold()
    return scores


def withheld_class_scores(estimator, X, y, known, fit_rows, random_state) -> np.ndarray:
    """Highest scores (m,) of the m known rows by models that have not seen their classes."""
    # The classes are withheld in folds; each model is fitted to the fitting rows of the others.
    classes, codes = np.unique(y[known], return_inverse=True)
    n_folds = min(_CLASS_FOLDS, len(classes))
    fold_of = check_random_state(random_state).permutation(np.arange(len(classes)) % n_folds)
    fold = np.full(len(y), -1)  # known unknowns are fitted in every fold, and never scored
    fold[known] = fold_of[codes]
    return held_out_scores(estimator, X, y, fold, fit_rows)[known]
