"""Scores of many settings on simulated splits, each found the cheapest way.

Three ways, and the estimator says which it allows. Machines of the SVM family run through the grid
engine: all widths, boxes and lambdas of all splits over shared kernel rows, with the held-out rows
scored on the way. Parameters that act after fitting (thresholds) are tried on the scores of one
fit. Anything else is cloned and fitted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from ..utils import unwrap
from ._engine import through_engine
from ._task import Event, Task, validation_codes


def evaluate(estimator, task: Task) -> Iterator[Event]:
    """Score every candidate on every split, in an order that suits the estimator."""
    transformer, final, prefix = split_pipeline(estimator)
    for shared, members in _group(task.candidates, lambda name: not name.startswith(prefix)):
        own = [
            {k.removeprefix(prefix): v for k, v in task.candidates[i].items() if k not in shared}
            for i in members
        ]
        if transformer is None:
            blocks = [(range(len(task.splits)), task.X)]
        else:
            blocks = _transformed(clone(transformer).set_params(**shared), task)
        for which, X in blocks:
            for i, s, score, bias in _evaluate_final(final, own, X, which, task):
                yield members[i], s, score, bias


def split_pipeline(estimator):
    """(transformers or None, last step, prefix of its parameter names)."""
    if not isinstance(estimator, Pipeline):
        return None, estimator, ""
    name, final = estimator.steps[-1]
    head = estimator[:-1] if len(estimator.steps) > 1 else None
    return head, final, f"{name}__"


def _group(candidates, in_key):
    """Candidates by the values of the parameters for which in_key(name): (values, indices)."""
    groups: dict[tuple, list[int]] = {}
    for i, candidate in enumerate(candidates):
        key = tuple(sorted((name, repr(v)) for name, v in candidate.items() if in_key(name)))
        groups.setdefault(key, []).append(i)
    for members in groups.values():
        first = candidates[members[0]]
        yield {name: v for name, v in first.items() if in_key(name)}, members


def _transformed(transformer, task):
    """Each split with the transformer fitted on its fitting part alone."""
    for s, (fit, _) in enumerate(task.splits):
        fitted = clone(transformer)
        fitted.fit(_safe_indexing(task.X, fit), task.labels[task.codes[fit]])
        yield [s], fitted.transform(task.X)


def _evaluate_final(final, candidates, X, which, task):
    engine = getattr(final, "_engine_params", ())
    post = getattr(final, "_post_params", ())
    if engine and all(_is_number(c[name]) for c in candidates for name in engine if name in c):
        cheap, evaluate_group = engine, through_engine
    else:
        cheap, evaluate_group = post, _on_one_fit
    for shared, members in _group(candidates, lambda name: name not in cheap):
        model = clone(final).set_params(**shared)
        own = [{k: v for k, v in candidates[i].items() if k not in shared} for i in members]
        for i, s, score, bias in evaluate_group(model, own, X, which, task):
            yield members[i], s, score, bias


def _is_number(value):
    return isinstance(value, int | float | np.number)


def _on_one_fit(model, candidates, X, which, task):
    """Clone and fit once a split; parameters that act after fitting are tried on its scores."""
    required = getattr(model, "ensure_bounded", False)
    if required:
        model.set_params(ensure_bounded=False)
    for s in which:
        fit, validation = task.splits[s]
        true = validation_codes(task.codes, fit, validation)
        fitted = clone(model)
        fitted.fit(X[fit], task.labels[task.codes[fit]], **_weights(model, task.weight[fit]))
        worst = float(fitted.intercept_.max()) if required else np.nan
        if candidates[0]:
            raw = fitted._raw_scores(X[validation])
        for i, candidate in enumerate(candidates):
            if candidate:
                decision = fitted.set_params(**candidate)._decide(raw)
            else:
                decision = fitted.decision_function(X[validation])
            score = -np.inf if worst >= 0 else float(task.measure(decision, true))
            yield i, s, score, worst


def evaluate_callable(estimator, task: Task, y, scoring) -> Iterator[Event]:
    """Score with a callable (estimator, X, y): every candidate is fitted on every split."""
    _, final, prefix = split_pipeline(estimator)
    for i, candidate in enumerate(task.candidates):
        model = clone(estimator).set_params(**candidate)
        if hasattr(final, "ensure_bounded"):
            model.set_params(**{f"{prefix}ensure_bounded": False})
        for s, (fit, validation) in enumerate(task.splits):
            weights = _weights(final, task.weight[fit])
            weights = {prefix + name: value for name, value in weights.items()}
            fitted = clone(model).fit(_safe_indexing(task.X, fit), y[fit], **weights)
            score = scoring(fitted, _safe_indexing(task.X, validation), y[validation])
            worst = float(getattr(unwrap(fitted), "intercept_", np.array(np.nan)).max())
            bad = getattr(final, "ensure_bounded", False) and worst >= 0
            yield i, s, -np.inf if bad else float(score), worst


def _weights(estimator, weight):
    if np.all(weight == 1) or not has_fit_parameter(estimator, "sample_weight"):
        return {}
    return {"sample_weight": weight}
