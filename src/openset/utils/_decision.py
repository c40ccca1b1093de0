"""The decision rule of every open-set classifier, as functions of its scores."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from .compiled import njit

# Samples whose best scores stay in the first-level cache.
_BLOCK = 1024


def decide(scores: np.ndarray) -> np.ndarray:
    """Return the index of the accepting class with the highest score, or K if none accepts.

    This is the one decision rule of the library. A score >= 0 accepts; the first class wins a tie.

    Parameters
    ----------
    scores : ndarray of shape (..., K)
        Acceptance scores, as returned by ``decision_function``.

    Returns
    -------
    ndarray of shape (...), int
        A column of `scores`, or K for unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.utils import decide
    >>> decide(np.array([[0.5, 0.2], [-0.1, -0.3], [0.0, 0.0]]))
    array([0, 2, 0])
    """
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
    """Return the classes followed by the unknown label, in a dtype that holds both.

    Indexing the result with the output of :func:`decide` gives the answers.

    Parameters
    ----------
    classes : ndarray of shape (K,)
    unknown_label : int, float or str

    Returns
    -------
    ndarray of shape (K + 1,)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.utils import answer_labels
    >>> answer_labels(np.array(["a", "b"]), "unknown")
    array(['a', 'b', 'unknown'], dtype='<U7')
    """
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
