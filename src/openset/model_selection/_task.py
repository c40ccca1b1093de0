"""What a search evaluates, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# (candidate, split, score, largest bias of its machines or NaN)
Event = tuple[int, int, float, float]


@dataclass(frozen=True)
class Task:
    """What a search evaluates.

    Attributes
    ----------
    candidates : list of dict
        Parameter settings of the estimator.
    X, codes, weight : arrays of m rows
        Training set; codes index `labels`.
    labels : ndarray of shape (n_classes,)
        The classes, sorted.
    splits : list of (fit, validation) index arrays
    measure : callable
        ``measure(decision, true)`` maps decisions (..., n, K) and codes (n,), K for unknown, to
        scores (...).
    n_jobs : int or None
    positives : sequence of int or None
        For the binary machines alone: the code of the class whose machine split s is for. Then
        ``measure`` gets the decisions (..., n) of that machine and codes (n,) that are 0 for the
        class, 1 for known negatives and 2 for simulated unknowns.
    failures : list of Exception
        What was raised by fits that failed; they score -inf.
    """

    candidates: list[dict[str, Any]]
    X: Any
    codes: np.ndarray
    weight: np.ndarray
    labels: np.ndarray
    splits: Sequence[tuple[np.ndarray, np.ndarray]]
    measure: Callable[[np.ndarray, np.ndarray], np.ndarray]
    n_jobs: int | None
    positives: Sequence[int] | None = None
    failures: list[Exception] = field(default_factory=list)

    def fail(self, error: Exception, members: Sequence[int], split: int) -> Iterator[Event]:
        """Record a failed fit and score the candidates it was for."""
        self.failures.append(error)
        for i in members:
            yield i, split, -np.inf, np.nan


def validation_codes(codes: np.ndarray, fit: np.ndarray, validation: np.ndarray) -> np.ndarray:
    """Codes of the validation part among the K classes of the fitting part; K is unknown."""
    known = np.unique(codes[fit])
    true = np.searchsorted(known, codes[validation])
    true[~np.isin(codes[validation], known)] = len(known)
    return true
