"""Conformal p-values, and the false discovery rate of a batch.

If a known sample is exchangeable with n calibration samples, the number of their scores that are
not above its own is at least k with probability 1 - k / (n + 1) or more, ties included. So
p = (1 + #{i: s_i <= s}) / (n + 1) is at most alpha with a probability of at most alpha.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils import unwrap


def p_value(calibration: np.ndarray, scores: np.ndarray, slack: float) -> np.ndarray:
    """(1 + #{i: s_i <= s}) / (n + 1) for sorted calibration scores.

    Scores up to `slack` above s count as equal to it: rounding must not lower a p-value.
    """
    below = np.searchsorted(calibration, scores + slack, side="right")
    return (1 + below) / (len(calibration) + 1)


def find_unknowns(model: Any, X: Any, *, q: float = 0.1) -> np.ndarray:
    """Tell which samples of a batch are unknown, with few false alarms among them.

    Of the samples that are reported, an expected share of at most `q` is known: the false discovery
    rate. This is Benjamini and Hochberg's procedure on the p-values of "this is known at all".
    Unlike a threshold it adapts to the batch: many unknown samples lower the bar for all.

    Parameters
    ----------
    model : CalibratedRejector
        Fitted, with ``per_class=False``: the p-values must come from one calibration set.
    X : array-like of shape (n, d), or whatever the model takes
        The batch. Its known samples must be independent of each other and of the calibration set.
    q : float in (0, 1), default=0.1
        Share of false alarms that is allowed.

    Returns
    -------
    ndarray of shape (n,), bool

    References
    ----------
    S. Bates, E. Candès, L. Lei, Y. Romano, M. Sesia, "Testing for outliers with conformal
    p-values", Annals of Statistics 51(1), 2023: these p-values depend on each other positively
    (PRDS), so the procedure is valid.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.frozen import FrozenEstimator
    >>> from openset import CalibratedRejector, OpenSetSVC
    >>> from openset.calibration import find_unknowns
    >>> X, y = load_digits(return_X_y=True)
    >>> X, known = X / 16, y < 6
    >>> svc = OpenSetSVC(gamma=0.5).fit(X[known][::2], y[known][::2])
    >>> model = CalibratedRejector(FrozenEstimator(svc)).fit(X[known][1:800:2], y[known][1:800:2])
    >>> batch = list(X[known][801::2]) + list(X[~known])
    >>> found = find_unknowns(model, batch, q=0.1)
    >>> n_known = len(X[known][801::2])
    >>> print(f"{found.sum()} reported, {found[:n_known].mean():.1%} of the known ones")
    715 reported, 6.4% of the known ones
    """
    if not 0 < q < 1:
        raise ValueError(f"q={q!r} must be between 0 and 1.")
    rejector = unwrap(model)
    if not hasattr(rejector, "known_p_value"):
        raise TypeError(
            f"model is a {type(rejector).__name__}, which has no p-values; calibrate it first: "
            "CalibratedRejector(FrozenEstimator(model)).fit(X_calibration, y_calibration)."
        )
    if rejector.per_class:
        raise ValueError(
            "The false discovery rate is not controlled with p-values per class. Calibrate with "
            "per_class=False."
        )
    smallest = 1 / (rejector.n_calibration_ + 1)
    if smallest > q:
        raise ValueError(
            f"q={q:g} needs at least {int(np.ceil(1 / q)) - 1} calibration samples; there are "
            f"{rejector.n_calibration_}, whose smallest p-value is {smallest:.3g}. Calibrate with "
            "more, or raise q."
        )
    p = rejector.known_p_value(X)
    order = np.argsort(p, kind="stable")
    passed = np.flatnonzero(p[order] <= q * np.arange(1, len(p) + 1) / len(p))
    found = np.zeros(len(p), dtype=bool)
    if passed.size:
        found[order[: passed[-1] + 1]] = True
    return found
