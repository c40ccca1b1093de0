"""Where a grid begins: at its largest width the kernel matrix is nearly the identity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ._problem import Problem, shift_total


def near_identity(sample: np.ndarray) -> bool:
    """Whether a typical row's kernel values with all others add up to no more than with itself.

    Parameters
    ----------
    sample : ndarray of shape (n, m)
        Some rows of the kernel matrix.
    """
    return bool(np.median(sample.sum(axis=1)) < 2.0)


def identity_solution(problem: Problem, total: float) -> np.ndarray:
    """clip(p + mu) with the mu that gives the right sum: exact if the kernel matrix is I."""
    low, high = (problem.lower - problem.p).min(), (problem.upper - problem.p).max()
    for _ in range(60):
        mu = 0.5 * (low + high)
        reached = np.clip(problem.p + mu, problem.lower, problem.upper).sum()
        low, high = (low, mu) if reached > total else (mu, high)
    here = replace(problem, total=float(total))
    return shift_total(here, problem.p + 0.5 * (low + high), problem.p)
