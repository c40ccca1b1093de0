"""Kernel expansions prepared once per fitted model, so that scoring one row is quick."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from ..kernels import Kernel, Linear
from ..solver import DecisionValues

# A model has at most two expansions: that of its machines, and that of the caps of a W-SVM.
_KEPT = 2


class _Entry(NamedTuple):
    """What an expansion was prepared from, and the expansion."""

    arrays: tuple[Any, ...]
    kernel: Kernel | Linear
    state: dict[str, Any]
    values: DecisionValues

    def serves(self, arrays, kernel) -> bool:
        same = all(mine is given for mine, given in zip(self.arrays, arrays, strict=True))
        if not same or type(kernel) is not type(self.kernel):
            return False
        try:  # a kernel of the user may hold anything
            return bool(self.state == vars(kernel))
        except ValueError:
            return False


# Not an attribute of the model: scoring leaves a model as it is, and a pickle stays small.
_entries: WeakKeyDictionary[BaseEstimator, tuple[_Entry, ...]] = WeakKeyDictionary()
# Models with moved thresholds, and the model that each has its expansions from.
_origins: WeakKeyDictionary[BaseEstimator, BaseEstimator] = WeakKeyDictionary()
_lock = threading.Lock()


def share_prepared(model: BaseEstimator, moved: BaseEstimator) -> None:
    """Let `moved`, a copy of `model` with other biases, use what is prepared for `model`."""
    with _lock:
        _origins[moved] = _origins.get(model, model)


def prepared(
    model: BaseEstimator,
    support_vectors,
    coef: np.ndarray,
    gamma: np.ndarray,
    kernel: Kernel | Linear,
) -> DecisionValues:
    """Return the decision values of a model, prepared in this call or in an earlier one.

    They are prepared again if an array or the kernel was replaced. The arrays become read-only,
    because a change in place would go unnoticed; assign a new array instead.

    Parameters
    ----------
    model : KernelMachineClassifier
        Fitted.
    support_vectors : ndarray or CSR matrix of shape (n_sv, d)
    coef : ndarray of shape (K, n_sv)
    gamma : ndarray of shape (K,)
    kernel : Kernel or Linear

    Returns
    -------
    DecisionValues
    """
    arrays = support_vectors, coef, gamma
    with _lock:
        model = _origins.get(model, model)
        entries = _entries.get(model, ())
    for entry in entries:
        if entry.serves(arrays, kernel):
            return entry.values
    # Outside of the lock: two threads may both prepare, with the same result.
    own = [coef, gamma]
    if sparse.issparse(support_vectors):
        points = support_vectors
        own += [points.data, points.indices, points.indptr]
    else:
        points = support_vectors.view()
        own.append(support_vectors)
    values = DecisionValues(points, coef.view(), kernel, gamma.view())
    for array in own:
        array.flags.writeable = False
    entry = _Entry(arrays, kernel, dict(vars(kernel)), values)
    with _lock:
        _entries[model] = (entry, *_entries.get(model, ()))[:_KEPT]
    return values
