"""Weibull models of the decision values of SVMs on their own training samples."""

from __future__ import annotations

from ._weibull_tail import WeibullTail

# Fewest scores of a tail, where there are as many. The authors' code stops with an error below 3
# support vectors, which well separated classes may have.
_FEWEST = 3


def inclusion_tail(scores, n_support: int, factor: float, resolution: float) -> WeibullTail:
    """Model of the lowest scores of a class, sized by the support vectors among its samples.

    Parameters
    ----------
    scores : ndarray of shape (m_p,)
        Decision values of the samples of the class.
    n_support : int
        How many of them are support vectors.
    factor : float
        Size of the tail in support vectors.
    resolution : float
        How well the scores are known.
    """
    size = int(factor * n_support)
    if size >= len(scores) or size <= _FEWEST:
        size = n_support
    return low_tail(scores, size, resolution)


def exclusion_tail(
    scores, n_support: int, n_others: int, factor: float, resolution: float
) -> WeibullTail:
    """Model of the highest scores of the other classes, sized by their support vectors.

    Parameters as for :func:`inclusion_tail`; `n_others` is the number of other classes.
    """
    size = int(factor * n_support / n_others)
    if size >= len(scores):
        size = n_support // n_others
    if size <= _FEWEST:
        size = n_support
    return WeibullTail.high_negatives(scores[None], _size(size), resolution)


def abating_tail(scores, n_support: int, factor: float, resolution: float) -> WeibullTail:
    """Model of the lowest scores of a class under its one-class SVM; see :func:`inclusion_tail`."""
    size = int(factor * n_support)
    return low_tail(scores, n_support if size >= len(scores) else size, resolution)


def low_tail(scores, size: int, resolution: float) -> WeibullTail:
    """Model of the `size` lowest scores, which are known up to `resolution`."""
    return WeibullTail.low_positives(scores[None], _size(size), resolution)


def _size(size):
    return max(size, _FEWEST)
