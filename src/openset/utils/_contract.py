"""What every floor shares of the contract: the decision rule, and what a Pipeline wraps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .compiled import njit

# Samples whose best scores stay in the first-level cache.
_BLOCK = 1024


def decide(scores: np.ndarray) -> np.ndarray:
    """Index (...) of the accepting class with the highest of scores (..., K), K if none accepts."""
    # This is the one decision rule of the library. A score >= 0 accepts; the first class wins a
    # tie.
    scores = np.asarray(scores)
    if scores.shape[-1] == 1:
        return np.where(scores[..., 0] >= 0, 0, 1)
    by_class = np.moveaxis(scores, -1, 0)
    if by_class.flags.c_contiguous and scores.dtype == np.float64:
        # One class after the other in memory, as in a search: no copy in another order.
        answers = best_class(by_class.reshape(len(by_class), -1))
        return answers.reshape(scores.shape[:-1])
    best = scores.argmax(axis=-1)
    accepted = np.take_along_axis(scores, best[..., None], axis=-1)[..., 0] >= 0
    return np.where(accepted, best, scores.shape[-1])


@njit(cache=True, nogil=True)
def best_class(scores):
    """The accepting class with the highest score, or K; `scores` has shape (K, n)."""
    n_classes, n = scores.shape
    answers = np.empty(n, dtype=np.int64)
    for begin in range(0, n, _BLOCK):
        best = scores[0, begin : begin + _BLOCK].copy()
        answer = answers[begin : begin + _BLOCK]
        answer[:] = 0
        for c in range(1, n_classes):
            row = scores[c, begin : begin + _BLOCK]
            for t in range(row.size):
                if row[t] > best[t]:
                    best[t] = row[t]
                    answer[t] = c
        for t in range(best.size):
            if not best[t] >= 0.0:
                answer[t] = n_classes
    return answers


def answer_labels(classes: np.ndarray, unknown_label: Any) -> np.ndarray:
    """The classes (K,) and the unknown label, (K + 1,), in a dtype that holds both."""
    kind = classes.dtype.kind
    fractional = kind in "biu" and not isinstance(unknown_label, Integral)
    # A float64 holds every integer up to 2**53.
    if kind in "fU" or (fractional and max(map(abs, classes.tolist())) <= 2**53):
        return np.append(classes, unknown_label)
    answers = np.empty(len(classes) + 1, dtype=object)
    answers[:-1] = classes.tolist()
    answers[-1] = unknown_label
    if kind == "O" or fractional:
        return answers
    # Integers that fit no integer type stay objects: a label is never rounded or wrapped.
    for dtype in (classes.dtype, np.dtype(np.int64)):
        if dtype.kind == "i":
            bounds = np.iinfo(dtype)
            if bounds.min <= answers.min() and answers.max() <= bounds.max:
                return answers.astype(dtype)
    return answers


def layers(
    estimator: BaseEstimator, through: tuple[type, ...] = ()
) -> Iterator[tuple[BaseEstimator, list[Pipeline]]]:
    """Yield an estimator and those it wraps, each with the transformers (Pipelines) before it."""
    # From the outside in, until an open-set estimator that is not of a type in `through`: last
    # steps of Pipelines, frozen estimators, best estimators of searches, and what searches and
    # wrappers that are not fitted yet will fit.
    heads: list[Pipeline] = []
    while True:
        yield estimator, heads
        if isinstance(estimator, Pipeline):
            heads = [*heads, estimator[:-1]] if len(estimator.steps) > 1 else heads
            estimator = estimator.steps[-1][1]
            continue
        if isinstance(estimator, FrozenEstimator):  # it lends the attributes of what is inside
            estimator = estimator.estimator
            continue
        if hasattr(estimator, "unknown_label") and not isinstance(estimator, through):
            return
        names = ("best_estimator_", "estimator_", "estimator")
        inner = next((name for name in names if hasattr(estimator, name)), None)
        if inner is None:
            return
        estimator = getattr(estimator, inner)


def unwrap(estimator: BaseEstimator) -> BaseEstimator:
    """The open-set estimator inside Pipelines, searches and wrappers, to any depth."""
    for layer, _ in layers(estimator):
        if hasattr(layer, "unknown_label") and not isinstance(layer, FrozenEstimator | type):
            return layer
    if isinstance(layer, type):
        raise TypeError(f"{layer.__name__} is a class. Pass an instance, {layer.__name__}(...).")
    raise TypeError(
        f"{type(layer).__name__} is not an open-set estimator and wraps none. "
        "Wrap a closed-set classifier with a rejector of openset first."
    )


def split_fitted(estimator: BaseEstimator) -> tuple[Callable, BaseEstimator]:
    """The function from X to the input of the open-set estimator inside, and this estimator."""
    for final, heads in layers(estimator):
        if hasattr(final, "unknown_label") and not isinstance(final, FrozenEstimator):
            if hasattr(final, "classes_"):
                return partial(_transform, heads), final
            break
        if not (hasattr(final, "best_estimator_") or isinstance(final, Pipeline | FrozenEstimator)):
            break  # its answers are not those of what it wraps
    unwrap(final)  # raises a TypeError if it is not an open-set estimator
    raise NotFittedError(f"This {type(final).__name__} is not fitted yet. Call fit first.")


def _transform(heads, X):
    for head in heads:
        X = head.transform(X)
    return X


def replace_final(model: BaseEstimator, final: BaseEstimator) -> BaseEstimator:
    """The model with another open-set estimator inside, where :func:`split_fitted` finds it."""
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return type(model)([*model.steps[:-1], (name, replace_final(last, final))])
    if isinstance(model, FrozenEstimator):
        return FrozenEstimator(replace_final(model.estimator, final))
    if hasattr(model, "best_estimator_"):
        return replace_final(model.best_estimator_, final)
    return final


def chosen_width(final: BaseEstimator) -> dict[str, float]:
    """The kernel width of a fitted model as a parameter, if its own is a name such as "scale"."""
    named = isinstance(getattr(final, "gamma", None), str)
    return {"gamma": float(final.gamma_[0])} if named else {}


def split_pipeline(estimator: BaseEstimator) -> tuple[BaseEstimator | None, BaseEstimator, str]:
    """Transformers (or None), the last step, and the prefix of its parameters."""
    if not isinstance(estimator, Pipeline):
        return None, estimator, ""
    name, final = estimator.steps[-1]
    head = estimator[:-1] if len(estimator.steps) > 1 else None
    return head, final, f"{name}__"


def refuse_masked(name: str, values: Any) -> None:
    """Raise ValueError if the argument `name` has masked entries."""
    if np.ma.is_masked(values):
        # NumPy's conversions drop the mask without a warning.
        n = int(np.ma.count_masked(values))
        entries = "1 masked entry" if n == 1 else f"{n} masked entries"
        raise ValueError(
            f"{name} has {entries}; leave such rows out, or fill in values by {name}.filled(...)."
        )


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Say, if a module is missing, what needs it and which extra installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        message = f'{what.format(error.name)}; run: pip install "openset[{extra}]"'
        raise ModuleNotFoundError(message, name=error.name) from error
