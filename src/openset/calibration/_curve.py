"""The trade-off of a threshold: known samples accepted against unknown samples rejected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..metrics import encode_labels, harmonic_mean, oscr_curve
from ..utils import unwrap
from ._criterion import CalibrationScores, Criterion, Thresholds, below, check_fraction, is_gap


@dataclass(frozen=True)
class UnknownRejected(Criterion):
    """The lowest threshold at which a share of the unknown samples in ``fit`` is rejected.

    No promise: it holds for the samples that were passed, not for those to come.
    Price: the larger `share`, the more known samples are rejected.

    Parameters
    ----------
    share : float in (0, 1), default=0.95
        Share of the unknown samples that are rejected at least.
    """

    share: float = 0.95

    needs_unknown: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_fraction("UnknownRejected", "share", self.share)

    @property
    def sentence(self) -> str:
        return f"at least {self.share * 100:g} % of the unknown samples in fit are rejected"

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        curve, separate = _curve_of_scores(scores)
        # Allow for the rounding error of 1 - 0.95.
        best = int(np.flatnonzero(separate & (curve.aus >= self.share - 1e-12))[-1])
        return _common_threshold(self, curve, best, scores)


@dataclass(frozen=True)
class Accuracy(Criterion):
    """The threshold with the best accuracies on the known and the unknown samples in ``fit``.

    No promise. Price: it takes samples of unknowns like those to come.

    Parameters
    ----------
    balanced : bool, default=True
        Whether known and unknown samples count the same: the harmonic mean of the accuracies on
        both is maximized. The plain accuracy needs the share of unknown samples among those to
        come, which no calibration set tells: it is
        ``Cost(reject=1, wrong=1, accept_unknown=1, unknown_share=...)``.
    """

    balanced: bool = True

    needs_unknown: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        if self.balanced is not True:
            raise ValueError(
                f"Accuracy(balanced={self.balanced!r}): the plain accuracy needs the share of "
                "unknown samples to come. Use Cost(reject=1, wrong=1, accept_unknown=1, "
                "unknown_share=...)."
            )

    @property
    def sentence(self) -> str:
        return "best harmonic mean of the accuracies on known and unknown samples in fit"

    def thresholds(self, scores: CalibrationScores) -> Thresholds:
        curve, separate = _curve_of_scores(scores)
        best = int(np.where(separate, curve.hna, -1.0).argmax())
        return _common_threshold(self, curve, best, scores)


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


def _curve_of_scores(scores: CalibrationScores) -> tuple[OperatingCurve, np.ndarray]:
    """The curve of calibration scores, and whether each threshold is in a gap between scores."""
    n_classes = len(scores.classes)
    codes = np.append(scores.codes, np.full(len(scores.unknown), n_classes))
    curve = curve_of(codes, np.vstack([scores.known, scores.unknown]), np.arange(n_classes))
    return curve, is_gap(curve.thresholds, scores.band)


def _common_threshold(criterion, curve, best: int, scores) -> Thresholds:
    if best == 0:
        raise ValueError(
            f"Only a threshold that rejects all known samples satisfies {criterion}: the samples "
            "of X_unknown score too high. Choose a weaker criterion, or train a better estimator."
        )
    return Thresholds(np.full(len(scores.classes), below(curve.thresholds, best, scores.far)))
