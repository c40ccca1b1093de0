"""The trade-off of a threshold: known samples accepted against unknown samples rejected."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..metrics import encode_labels, harmonic_mean, oscr_curve
from ..utils import unwrap
from ._gaps import between, width

# Distance of a threshold below the lowest score, where any value gives the same answers.
_ROOM = 1e-3


class OperatingCurve(NamedTuple):
    """The trade-off between known and unknown samples, one entry per threshold.

    Parameters
    ----------
    thresholds : ndarray of shape (n_thresholds,)
        Smallest score that accepts, descending from infinity, which rejects all samples; 0 is the
        threshold of the estimator itself.
    aks, fu : ndarray of shape (n_thresholds,)
        Shares of the known samples that their own class accepts (the accuracy on known samples),
        and that are rejected.
    aus, hna : ndarray of shape (n_thresholds,)
        Accuracy on unknown samples (the share that is rejected), and its harmonic mean with `aks`.
    """

    thresholds: np.ndarray
    aks: np.ndarray
    fu: np.ndarray
    aus: np.ndarray
    hna: np.ndarray


def operating_curve(estimator: BaseEstimator, X, y) -> OperatingCurve:
    """Measures of an estimator under every threshold common to all classes.

    :class:`openset.plots.OSCRDisplay` draws `aks` against 1 - `aus`.

    Parameters
    ----------
    estimator : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d)
        Known and unknown samples that were not used in fit.
    y : array-like of shape (n,)
        True labels; a label that is no known class is unknown.

    Returns
    -------
    OperatingCurve

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.calibration import operating_curve
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> model = OpenSetSVC(gamma=0.5).fit(X, ["left", "left", "right", "right"])
    >>> curve = operating_curve(model, [[0, 0.4], [5, 5.8], [2, 2]], ["left", "right", "?"])
    >>> curve.aks
    array([0. , 0.5, 1. , 1. ])
    >>> curve.aus
    array([1., 1., 1., 0.])
    """
    return curve_of(y, estimator.decision_function(X), unwrap(estimator).classes_)


def curve_of(y, scores: np.ndarray, classes) -> OperatingCurve:
    """The curve of scores of shape (n, K)."""
    fpr, aks, thresholds = oscr_curve(y, scores, known=classes)
    for share, kind in ((fpr[-1], "unknown"), (aks[-1], "known")):
        if np.isnan(share):
            raise ValueError(f"y has no {kind} sample; the curve needs known and unknown ones.")
    known = np.sort(scores[encode_labels(y, classes) < len(classes)].max(axis=1))
    fu = np.searchsorted(known, thresholds) / len(known)
    aus = 1.0 - fpr
    return OperatingCurve(thresholds, aks, fu, aus, harmonic_mean(aks, aus))


def is_gap(thresholds: np.ndarray, band: float) -> np.ndarray:
    """(n,) bool: whether each of descending scores lies above the next one, rounding aside."""
    return np.append(thresholds[:-1] - thresholds[1:] > width(thresholds[1:], band), True)


def below(thresholds: np.ndarray, i: int, far: np.ndarray) -> float:
    """A threshold with the same answers as the i-th of descending scores."""
    lowest = thresholds[-1] - _ROOM * max(1.0, abs(thresholds[-1]))
    return between(thresholds[i], np.append(thresholds, lowest)[i + 1], far)
