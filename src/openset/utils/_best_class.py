"""The decision rule for scores that are stored one class after the other, compiled."""

from __future__ import annotations

import numpy as np

from .compiled import njit

# Samples whose best scores stay in the first-level cache.
_BLOCK = 1024


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
