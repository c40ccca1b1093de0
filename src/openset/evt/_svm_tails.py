"""Weibull models of the decision values of SVMs on their own training samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..base import KernelMachineClassifier
from ..base.fitted import require
from ..base.parameters import POSITIVE
from ._weibull_tail import WeibullTail

# Fewest scores of a tail, where there are as many. The authors' code stops with an error below 3
# support vectors, which well separated classes may have.
_FEWEST = 3
# Share of tol to which the machines are solved. The order of the rows moves scores by as much, and
# where a tail is hardly wider than tol, a change by tol moves the probability by a third.
_SHARE = 0.01


class TailClassifier(KernelMachineClassifier):
    """Base class of methods that model the tails of decision values, without sample weights."""

    _parameter_constraints: dict = {
        **KernelMachineClassifier._parameter_constraints,
        "tail_factor": [POSITIVE],
    }
    stored_types = (WeibullTail,)
    counts_samples = True

    @property
    def solver_settings(self):
        settings = super().solver_settings
        return settings | {"tol": max(_SHARE * self.tol, self._smallest_tol())}

    def fit(self, X: Any, y: ArrayLike) -> Self:  # type: ignore[override]
        """Train the machines of each class and model the tails of their scores.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (m, d)
        y : array-like of shape (m,)
            Labels of at least two classes.

        Returns
        -------
        self
        """
        return super().fit(X, y)


def check_tails(model, n_models: int, *names: str) -> None:
    """Raise ValueError unless each of the attributes holds that many Weibull models."""
    for name in names:
        tail = getattr(model, name)
        require(isinstance(tail, WeibullTail), f"{name} is no WeibullTail")
        tail.check(name, n_models)


def count_support(scores, margin: float, resolution: float) -> int:
    """How many scores are at most `margin`: those of the support vectors.

    Counted by value: which of equal samples have a multiplier depends on their order, and so it
    does for a sample on the margin. The scores are known up to `resolution`.
    """
    return int(np.count_nonzero(scores <= margin + resolution))


def inclusion_tail(scores, n_support: int, factor: float, resolution: float) -> WeibullTail:
    """Model of the lowest of the scores (m_p,) of the samples of a class.

    Of these samples `n_support` are support vectors; the tail is `factor` times as large. The
    scores are known up to `resolution`.
    """
    size = int(factor * n_support)
    if size >= len(scores) or size <= _FEWEST:
        size = n_support
    return low_tail(scores, size, resolution)


def exclusion_tail(
    scores, n_support: int, n_others: int, factor: float, resolution: float
) -> WeibullTail:
    """Model of the highest scores of the other `n_others` classes, sized as the inclusion tail."""
    size = int(factor * n_support / n_others)
    if size >= len(scores):
        size = n_support // n_others
    if size <= _FEWEST:
        size = n_support
    return WeibullTail.high_negatives(scores[None], max(size, _FEWEST), resolution)


def abating_tail(scores, n_support: int, factor: float, resolution: float) -> WeibullTail:
    """Model of the lowest scores of a class under its one-class SVM; see :func:`inclusion_tail`."""
    size = int(factor * n_support)
    return low_tail(scores, n_support if size >= len(scores) else size, resolution)


def low_tail(scores, size: int, resolution: float) -> WeibullTail:
    """Model of the `size` lowest scores, which are known up to `resolution`."""
    return WeibullTail.low_positives(scores[None], max(size, _FEWEST), resolution)
