"""What a model must satisfy before it answers: every object in it is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from types import NoneType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector

from ..base import OpenSetClassifier
from ..base.fitted import check_compressed, require
from ._scikit_learn import LOSSES, check_estimator, is_fitted

# Objects with nothing inside.
_PLAIN = (str, int, float, bool, NoneType, np.generic, np.dtype, slice, type, np.ufunc)


def check_model(model: BaseEstimator) -> None:
    """Raise ValueError if a part of the model is damaged, or is nothing that can be checked."""
    for part in parts(model):
        try:
            _check_part(part)
        except Exception as error:  # attributes of odd types may raise anything
            raise ValueError(f"{type(part).__name__}: {error}") from error


def parts(model) -> Iterator[Any]:
    """Every object inside, at any depth."""
    seen: dict[int, Any] = {}  # keeps them alive, so that no number is used twice
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or type(part) in (str, int, float, bool, NoneType):
            continue
        seen[id(part)] = part
        yield part
        if isinstance(part, dict):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple | set | frozenset):
            waiting += part
        elif isinstance(part, np.ma.MaskedArray):
            waiting += [part.data, part.mask]
        elif isinstance(part, np.ndarray):
            waiting += part.ravel().tolist() if part.dtype.hasobject else []
        elif isinstance(part, BaseEstimator) or _is_ours(part):
            waiting += vars(part).values()


def _is_ours(part):
    """Kernels and the fitted parts that estimators declare in ``stored_types``."""
    return is_dataclass(part) and type(part).__module__.startswith("openset.")


def _check_part(part):
    if isinstance(part, OpenSetClassifier):
        if is_fitted(part) or set(vars(part)) & set(part.fitted_attributes or ()):
            part.check_fitted()
    elif isinstance(part, BaseEstimator):
        check_estimator(part)
        if is_classifier(part) or is_outlier_detector(part):
            _check_finite(part)
    elif sparse.issparse(part):
        require(part.format == "csr", f"a sparse matrix of format {part.format}, not CSR")
        check_compressed("a sparse matrix", part)
    elif isinstance(part, np.ndarray):
        known = type(part) in (np.ndarray, np.ma.MaskedArray) and part.dtype.kind != "V"
        require(known, f"an array of {part.dtype}")
    elif isinstance(part, np.random.RandomState):
        state: Any = part.get_state(legacy=False)
        # The generator reads the word at this position.
        require(0 <= state["state"]["pos"] <= 624, "a random state is damaged")
    else:
        containers = dict, list, tuple, set, frozenset
        known = isinstance(part, (*_PLAIN, *containers)) or _is_ours(part)
        known = known or type(part).__module__ in LOSSES
        require(known, "objects of this type cannot be checked")


def _check_finite(part):
    """The public fitted arrays of a classifier or detector have finite numbers."""
    for name, value in vars(part).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            require(np.isfinite(value).all(), f"{name} has entries that are not finite")
