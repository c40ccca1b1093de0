"""Scores of many candidates on simulated splits, each computed the cheapest way.

The estimator's ``search_spec`` says which of three ways it allows. Kernel machines run through the
grid engine: all widths, boxes and lambdas of all splits over shared kernel rows. Parameters that
act after fitting (thresholds) are tried on the raw scores of one fit. Everything else is cloned
and fitted. A fit that fails scores -inf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing

from ..base import GridScores, SearchSpec, known_classes
from ..utils import split_pipeline, thread_map, unwrap
from ._split import Simulation

# Quantiles of the scores of withheld rows that are kept of each setting and simulation.
_QUANTILES = 101


class Candidate(NamedTuple):
    """A setting of a search under its number, which it keeps wherever it goes."""

    number: int
    params: dict[str, Any]


class Split(NamedTuple):
    """A simulation of a search."""

    fit: np.ndarray  # rows to fit on
    validation: np.ndarray  # rows to judge
    machines: np.ndarray  # the classes whose scores are wanted, as indices in the sorted labels
    true: np.ndarray  # codes of the rows to judge, see `SearchData`


class SplitScores(NamedTuple):
    """Scores of some candidates on one split."""

    candidates: list[int]
    split: int
    scores: np.ndarray  # -inf if the setting is infeasible or the fit failed
    far: np.ndarray  # largest score far from all samples where regions must be bounded, else NaN
    withheld: np.ndarray | None = None  # (n_candidates, n), see `withheld_scores`
    error: Exception | None = None  # what a failed fit raised


@dataclass(frozen=True)
class SearchData:
    """The training set of a search, of m rows, its splits and its measure.

    ``measure(scores, true)`` maps acceptance scores (..., n, K) and codes (n,) to scores (...). The
    code of a sample outside the K classes is K. At level "class" there is one column, and codes are
    0 for the positive class, 1 for known negatives and 2 for unknowns.
    """

    X: Any
    y: np.ndarray
    weight: np.ndarray
    splits: Sequence[Split]
    measure: Callable[[np.ndarray, np.ndarray], np.ndarray] | None  # None: a callable scores models
    n_jobs: int | None
    n_classes: int  # known ones
    unknown_label: Any = "auto"  # of the estimator
    checked: list = field(default_factory=list)  # models, X, and what their checks returned

    def only(self, which: Sequence[int]) -> SearchData:
        """The same with some of the splits."""
        return replace(self, splits=[self.splits[s] for s in which])

    def checked_for(self, model: Any, X: Any) -> Any:
        """What `model` returns for X after its checks, which are the same in every round."""
        for known, source, points in self.checked:
            if known is model and source is X:
                return points
        points = model.check_search_data(X, self.y, self.weight)
        if X is self.X:
            self.checked.append((model, X, points))
        return points


def make_splits(
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    y: np.ndarray,
    unknown_label: Any,
    positives: Sequence[Any] | None = None,
) -> list[Split]:
    """Splits by their rows to fit on and to judge; at level "class" each has a positive class."""
    classes, codes = known_classes(unknown_label, y)
    place, splits = np.searchsorted(np.unique(y), classes), []
    for s, (fit, validation) in enumerate(parts):
        known = np.flatnonzero(np.bincount(codes[fit], minlength=len(classes))[: len(classes)])
        true = np.full(len(classes) + 1, len(known))
        true[known] = np.arange(len(known))
        if positives is not None:
            true = np.where(true == len(known), 2, 1)
            known = np.array([classes.tolist().index(positives[s])])
            true[known] = 0
        splits.append(Split(fit, validation, place[known], true[codes[validation]]))
    return splits


def usable_part(simulation: Simulation, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and to judge: known unknowns are all judged if the method refuses them."""
    if len(usable) == len(simulation.fit) + len(simulation.validation):
        return simulation.fit, simulation.validation
    fit = np.intersect1d(simulation.fit, usable)
    refused = np.setdiff1d(simulation.fit, fit)
    return fit, np.sort(np.append(simulation.validation, refused))


def withheld_scores(scores: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Sorted highest scores of the unknown among n samples, at most 101 quantiles of them.

    Of scores (..., n, K) and codes (n,) as a measure takes them; none at level "class".
    """
    n_classes = scores.shape[-1]
    unknown = np.flatnonzero(true == n_classes) if n_classes > 1 else true[:0]
    best = np.sort(scores[..., unknown, :].max(axis=-1), axis=-1)
    quantiles = np.linspace(0, len(unknown) - 1, min(_QUANTILES, len(unknown)))
    return best[..., quantiles.astype(int)]


def evaluate(
    estimator: BaseEstimator, candidates: Sequence[Candidate], data: SearchData
) -> Iterator[SplitScores]:
    """Score every candidate on every split, in an order that suits the estimator."""
    transformer, final, prefix = split_pipeline(estimator)
    everywhere = range(len(data.splits))
    for shared, members in _group(candidates, lambda name: not name.startswith(prefix)):
        members = [
            Candidate(c.number, {name.removeprefix(prefix): v for name, v in c.params.items()})
            for c in members
        ]
        if transformer is None:
            yield from _evaluate_final(final, members, data.X, everywhere, data)
            continue
        head = clone(transformer).set_params(**shared)
        # The transformers of a Pipeline are fitted on the fitting part of each split alone.
        for s in everywhere:
            fit = data.splits[s].fit
            try:
                fitted = clone(head).fit(_safe_indexing(data.X, fit), data.y[fit])
                X = fitted.transform(data.X)
            except Exception as error:
                yield from _failed(error, members, s)
            else:
                yield from _evaluate_final(final, members, X, [s], data)


def _group(candidates, in_key) -> Iterator[tuple[dict[str, Any], list[Candidate]]]:
    """Group by the values of the parameters for which in_key, which the members then lack."""
    if not any(map(in_key, {name for candidate in candidates for name in candidate.params})):
        yield {}, list(candidates)
        return
    groups: dict[tuple, list[Candidate]] = {}
    shared: dict[tuple, dict[str, Any]] = {}
    for candidate in candidates:
        own = {name: v for name, v in candidate.params.items() if not in_key(name)}
        common = {name: v for name, v in candidate.params.items() if in_key(name)}
        key = tuple(sorted((name, repr(v)) for name, v in common.items()))
        shared[key] = common
        groups.setdefault(key, []).append(Candidate(candidate.number, own))
    for key, members in groups.items():
        yield shared[key], members


def _evaluate_final(final, candidates, X, which, data):
    spec = spec_of(final)
    # A training set of one class has no machine against the rest.
    by_engine = bool(spec.engine) and bool(np.any(data.y != data.y[0]))
    cheap, run = (spec.engine, _by_engine) if by_engine else (spec.after_fit, _on_one_fit)
    for shared, members in _group(candidates, lambda name: name not in cheap):
        # The engine fits nothing, so it needs no clone of its own.
        model = final if by_engine and not shared else clone(final).set_params(**shared)
        yield from run(model, members, X, which, data)


def _by_engine(model, candidates, X, which, data):
    """Score candidates that differ in engine parameters only."""
    bounded = must_be_bounded(model)
    settings = [candidate.params for candidate in candidates]
    parts = [data.splits[s][:3] for s in which]

    def judge(found: GridScores) -> SplitScores:
        s = which[found.split]
        scores = data.measure(found.scores, data.splits[s].true)
        withheld = withheld_scores(found.scores, data.splits[s].true)
        far = found.far.max(axis=-1) if bounded else np.full(len(scores), np.nan)
        entry = [t for t, members in enumerate(found.settings) for _ in members]
        numbers = [candidates[i].number for members in found.settings for i in members]
        return _split_scores(numbers, s, scores[entry], far[entry], withheld[entry])

    arguments = settings, data.checked_for(model, X), data.y, data.weight, parts, judge
    yield from model.grid_scores(*arguments, n_jobs=data.n_jobs)


def _on_one_fit(model, candidates, X, which, data):
    """Clone and fit once per split; try parameters that act after fitting on its raw scores."""
    after_fit = {name: getattr(model, name) for name in spec_of(model).after_fit}

    def scores_of(fitted, validation, s):
        true = data.splits[s].true
        if not after_fit:
            decisions = [fitted.decision_function(validation)] * len(candidates)
        else:
            raw = fitted.raw_scores(validation)
            decisions = (fitted.set_params(**after_fit | c.params).decide(raw) for c in candidates)
        found = [
            (data.measure(scores, true), withheld_scores(scores, true)) for scores in decisions
        ]
        return tuple(map(np.array, zip(*found, strict=True)))

    yield from _fit_splits(model, candidates, X, which, data, scores_of)


def evaluate_with_callable(
    estimator: BaseEstimator,
    candidates: Sequence[Candidate],
    data: SearchData,
    scoring: Callable[[BaseEstimator, Any, np.ndarray], float],
    as_fitted: bool = False,
) -> Iterator[SplitScores]:
    """Score with a callable (estimator, X, y): every candidate is fitted on every split.

    With `as_fitted` each fit is what the refit would be: regions are forced to be bounded where the
    estimator says so.
    """

    def scores_of(fitted, validation, s):
        score = scoring(fitted, validation, data.y[data.splits[s].validation])
        withheld = withheld_scores(fitted.decision_function(validation), data.splits[s].true)
        return np.array([score]), withheld[None]

    for candidate in candidates:
        model = clone(estimator).set_params(**candidate.params)
        which = range(len(data.splits))
        yield from _fit_splits(model, [candidate], data.X, which, data, scores_of, as_fitted)


def _fit_splits(model, candidates, X, which, data, scores_of, as_fitted=False):
    """Fit a clone per split, in threads, and score the candidates by scores_of."""
    final = unwrap(model)
    bounded = must_be_bounded(final) and not as_fitted
    if bounded:
        final.set_params(**{spec_of(final).bounded_switch: False})
    n_jobs = data.n_jobs
    if as_fitted and lend_threads(model, n_jobs):  # there are more classes than splits
        n_jobs = None

    def run(s):
        fit, validation = data.splits[s][:2]
        try:
            weights = fit_weights(model, data.weight[fit])
            fitted = clone(model).fit(_safe_indexing(X, fit), data.y[fit], **weights)
            return fitted, *scores_of(fitted, _safe_indexing(X, validation), s), None
        except Exception as error:
            return None, None, None, error

    for s, (fitted, scores, withheld, error) in zip(
        which, thread_map(run, which, n_jobs), strict=True
    ):
        if error is not None:
            yield from _failed(error, candidates, s)
            continue
        far = float(unwrap(fitted).far_scores().max()) if bounded else np.nan
        numbers = [candidate.number for candidate in candidates]
        yield _split_scores(numbers, s, scores, np.full(len(scores), far), withheld)


def _split_scores(candidates, split, scores, far, withheld):
    """Scores; -inf where a bounded region is required (`far` is a number) and there is none."""
    return SplitScores(candidates, split, np.where(far >= 0, -np.inf, scores), far, withheld)


def _failed(error, candidates, split):
    numbers = [candidate.number for candidate in candidates]
    missing = np.full(len(numbers), np.nan)
    yield SplitScores(numbers, split, np.full(len(numbers), -np.inf), missing, None, error)


def lend_threads(model: BaseEstimator, n_jobs: int | None) -> bool:
    """Give threads to the last step of a model if it uses threads and has none of its own."""
    final = split_pipeline(model)[1]
    lent = getattr(final, "n_jobs", 1) is None
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
