"""Scores of many settings on simulated splits, each found the cheapest way.

Three ways, and the estimator says which it allows. Machines of the SVM family run through the grid
engine: all widths, boxes and lambdas of all splits over shared kernel rows, with the held-out rows
scored on the way. Parameters that act after fitting (thresholds) are tried on the scores of one
fit. Anything else is cloned and fitted. A fit that fails scores -inf.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ..base import SearchSpec
from ..utils import split_pipeline, thread_map, unwrap
from ._engine import through_engine
from ._task import Event, Task, validation_codes


def evaluate(estimator, task: Task) -> Iterator[Event]:
    """Score every candidate on every split, in an order that suits the estimator."""
    transformer, final, prefix = split_pipeline(estimator)
    for shared, members in _group(task.candidates, lambda name, _: not name.startswith(prefix)):
        own = [
            {k.removeprefix(prefix): v for k, v in task.candidates[i].items() if k not in shared}
            for i in members
        ]
        if transformer is None:
            events = _evaluate_final(final, own, task.X, range(len(task.splits)), task)
        else:
            head = clone(transformer).set_params(**shared)
            events = _behind_transformer(head, final, own, task)
        for i, s, score, bias in events:
            yield members[i], s, score, bias


def _group(candidates, in_key):
    """Candidates by the values of the parameters for which in_key: (values, indices)."""
    groups: dict[tuple, list[int]] = {}
    for i, candidate in enumerate(candidates):
        key = tuple(sorted((name, repr(v)) for name, v in candidate.items() if in_key(name, v)))
        groups.setdefault(key, []).append(i)
    for members in groups.values():
        first = candidates[members[0]]
        yield {name: v for name, v in first.items() if in_key(name, v)}, members


def _behind_transformer(transformer, final, candidates, task):
    """Each split by itself, with the transformer fitted on its fitting part alone."""
    for s, (fit, _) in enumerate(task.splits):
        fitted = clone(transformer)
        try:
            fitted.fit(_safe_indexing(task.X, fit), task.labels[task.codes[fit]])
            X = fitted.transform(task.X)
        except Exception as error:
            yield from task.fail(error, range(len(candidates)), s)
        else:
            yield from _evaluate_final(final, candidates, X, [s], task)


def _spec(final):
    return getattr(final, "search_spec", SearchSpec())


def _evaluate_final(final, candidates, X, which, task):
    cheap, evaluate_group = _spec(final).after_fit, _on_one_fit
    # A training set of one class has no machine against the rest.
    if _spec(final).engine and len(task.labels) > 1:
        cheap, evaluate_group = _spec(final).engine, through_engine
        width = cheap[0]
        candidates = [{width: getattr(final, width), **candidate} for candidate in candidates]
    # The engine varies numbers; a width with a name ("scale") is one for each fitting part.
    for shared, members in _group(candidates, lambda k, v: k not in cheap or isinstance(v, str)):
        model = clone(final).set_params(**shared)
        own = [{k: v for k, v in candidates[i].items() if k not in shared} for i in members]
        for i, s, score, bias in evaluate_group(model, own, X, which, task):
            yield members[i], s, score, bias


def _on_one_fit(model, candidates, X, which, task):
    """Clone and fit once a split; parameters that act after fitting are tried on its scores."""
    bounded = _relax(model)
    post = {name: getattr(model, name) for name in _spec(model).after_fit}

    def run(s):
        fit, validation = task.splits[s]
        fitted = _fit(model, X, fit, task)
        held_out = _safe_indexing(X, validation)
        true = validation_codes(task.codes, fit, validation)
        if not post:
            decision = fitted.decision_function(held_out)
            return fitted, [task.measure(decision, true)] * len(candidates)
        raw = fitted.raw_scores(held_out)
        decisions = (fitted.set_params(**post | own).decide(raw) for own in candidates)
        return fitted, [task.measure(decision, true) for decision in decisions]

    yield from _run_splits(run, which, len(candidates), bounded, task)


def evaluate_callable(estimator, task: Task, scoring) -> Iterator[Event]:
    """Score with a callable (estimator, X, y): every candidate is fitted on every split."""
    for i, candidate in enumerate(task.candidates):
        model = clone(estimator).set_params(**candidate)
        bounded = _relax(unwrap(model))

        def run(s, model=model):
            fit, validation = task.splits[s]
            fitted = _fit(model, task.X, fit, task)
            truth = task.labels[task.codes[validation]]
            return fitted, [scoring(fitted, _safe_indexing(task.X, validation), truth)]

        for _, s, score, bias in _run_splits(run, range(len(task.splits)), 1, bounded, task):
            yield i, s, score, bias


def _relax(final):
    """Turn ``ensure_bounded`` off; return whether it was on."""
    bounded = getattr(final, "ensure_bounded", False)
    if bounded:
        final.set_params(ensure_bounded=False)
    return bounded


def _fit(model, X, fit, task):
    labels = task.labels[task.codes[fit]]
    return clone(model).fit(_safe_indexing(X, fit), labels, **weights(model, task.weight[fit]))


def weights(estimator, weight: np.ndarray) -> dict[str, np.ndarray]:
    """The argument of ``fit`` that passes weights to the last step; none if all are one."""
    _, _, prefix = split_pipeline(estimator)
    return {} if np.all(weight == 1) else {f"{prefix}sample_weight": weight}


def _run_splits(run, which, n_candidates, bounded, task):
    """Events of run(s), which gives a fitted estimator and the scores of the candidates."""

    def guarded(s):
        try:
            return run(s)
        except Exception as error:
            return None, error

    for s, (fitted, scores) in zip(which, thread_map(guarded, which, task.n_jobs), strict=True):
        if fitted is None:
            yield from task.fail(scores, range(n_candidates), s)
            continue
        bias = float(unwrap(fitted).intercept_.max()) if bounded else np.nan
        for i, score in enumerate(scores):
            yield i, s, -np.inf if bias >= 0 else float(score), bias
