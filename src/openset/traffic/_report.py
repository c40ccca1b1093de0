"""How much of the traffic is unknown, for a fitted model: a promise, an estimate, and the text."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length

from ..calibration import Mixture, calibrate
from ..metrics import encode_labels
from ..utils import split_fitted
from ..utils.text import shortened

_FOLDS = (
    "the scores of the known rows are those of models fitted to a part of the training rows, not "
    "of this model: keep rows back (openset fit --calibration 0.2), or calibrate it"
)
_N_SHOWN = 12  # classes in the text


@dataclass(frozen=True, eq=False)
class TrafficReport(Mixture):
    """How much of the traffic is unknown; what :func:`estimate_traffic` returns.

    A :class:`openset.calibration.Mixture`, with its promise ``unknown_at_least`` and its estimate
    ``unknown_share``, for a model. Printing it tells everything in words.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The known classes.
    rejected : float or None
        Share of the traffic that the model answers with unknown; None for a model with thresholds
        per category.
    thresholds : ndarray of shape (K,)
        Of the model, on the scores that are compared.
    """

    class_shares: np.ndarray
    class_intervals: np.ndarray
    classes: np.ndarray
    rejected: float | None
    thresholds: np.ndarray

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON allows.

        Returns
        -------
        dict
        """
        shares = zip(
            self.classes.tolist(),
            self.class_shares.tolist(),
            self.class_intervals.tolist(),
            strict=True,
        )
        return {
            "unknown_at_least": self.unknown_at_least,
            "unknown_at_least_any_mix": self.unknown_at_least_any_mix,
            "confidence": self.confidence,
            "reason": self.reason,
            "unknown_share": self.unknown_share,
            "unknown_interval": list(self.unknown_interval),
            "rejected": self.rejected,
            "classes": {str(c): {"share": s, "interval": i} for c, s, i in shares},
            "rows": self.n_traffic,
            "calibration_rows": self.n_calibration,
            "warning": self.warning,
        }

    def to_json(self) -> str:
        """Return the numbers as a JSON document.

        Returns
        -------
        str
        """
        return json.dumps(self.as_dict(), indent=1)

    def __str__(self) -> str:
        promise = f"promise: none, because {self.reason}"
        if self.unknown_at_least is not None:
            promise = (
                f"promise: at least {self.unknown_at_least:.1%} of the traffic is unknown, with "
                f"confidence {self.confidence:g}"
            )
            if self.unknown_at_least == 0:
                promise = f"promise: none; 0 % unknown is possible (confidence {self.confidence:g})"
            elif self.unknown_at_least_any_mix is not None:
                any_mix = f"{self.unknown_at_least_any_mix:.1%}"
                promise += f"; {any_mix} if the known classes may have any shares"
        low, high = self.unknown_interval
        lines = [
            f"{self.n_traffic:,} rows of traffic, {self.n_calibration:,} calibration rows",
            promise,
            f"estimate: {self.unknown_share:.1%} unknown ({low:.1%} to {high:.1%})",
        ]
        if self.rejected is not None:
            lines[-1] += f"; the model answers unknown to {self.rejected:.1%}"
        order = np.argsort(-self.class_shares, kind="stable")
        shares = [
            f"{self.classes[c]} {self.class_shares[c]:.1%} ({low:.1%} to {high:.1%})"
            for c, (low, high) in zip(order, self.class_intervals[order], strict=True)
        ]
        lines.append(f"known rows by class, an estimate: {shortened(shares, _N_SHOWN)}")
        return "\n".join(lines + ([] if self.warning is None else [f"WARNING: {self.warning}"]))


def estimate_traffic(
    model: BaseEstimator,
    X_traffic: Any,
    calibration: tuple[Any, Any] | None = None,
    *,
    confidence: float = 0.95,
) -> TrafficReport:
    """Tell how much of unlabelled traffic is unknown.

    Two answers: a *promise*, a lower limit that holds with the confidence whatever the unknown rows
    are like, and an *estimate*, which is too low if unknown rows score as high as known ones.

    Parameters
    ----------
    model : estimator
        A fitted open-set estimator, or a Pipeline or a search of one. A calibrated one
        (:class:`openset.CalibratedRejector`) holds what is needed.
    X_traffic : array-like of shape (N, d), or whatever the model takes
        Unlabelled rows, known and unknown ones mixed, independent of each other.
    calibration : (X, y), default=None
        Rows of known classes that the model has not seen, and their classes; rows with any other
        label are left out. None uses the calibration rows of a calibrated model.
    confidence : float in (0, 1), default=0.95
        Of the promise and of the intervals.

    Returns
    -------
    TrafficReport

    See Also
    --------
    openset.calibration.mixture : The same from scores alone, with definitions and references.

    Notes
    -----
    The promise is about the population that the traffic is drawn from. The known rows of the
    traffic must be distributed as the calibration rows are; ``unknown_at_least_any_mix`` allows
    other shares of the classes. A model that ``openset fit`` saved without ``--calibration`` has
    scores of held-out rows by models that were fitted to the other rows: they give an estimate, and
    no promise.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from openset import OpenSetSVC
    >>> from openset.traffic import estimate_traffic
    >>> X, y = load_digits(return_X_y=True)
    >>> known = y < 6
    >>> model = OpenSetSVC(gamma=1e-3, C=8).fit(X[known][::2], y[known][::2])
    >>> traffic = list(X[known][601::2]) + list(X[~known][:200])  # 40 % unknown
    >>> report = estimate_traffic(model, traffic, (X[known][1:600:2], y[known][1:600:2]))
    >>> print(f"at least {report.unknown_at_least:.0%}, about {report.unknown_share:.0%}")
    at least 36%, about 46%
    """
    transform, final = split_fitted(model)
    classes, thresholds = final.classes_, np.zeros(len(final.classes_))
    if calibration is not None:
        transform, rejector = split_fitted(_calibrated(model, *_checked(calibration), classes))
        found = rejector.mixture(transform(X_traffic), confidence=confidence)
    elif hasattr(final, "mixture"):
        found = final.mixture(transform(X_traffic), confidence=confidence)
        thresholds = final.thresholds_.reshape(-1, len(classes)).min(axis=0)
    elif (rows := _fold_rows(final)) is not None:
        scores = final.decision_function(transform(X_traffic))
        traffic = np.column_stack([scores.max(axis=1), scores.argmax(axis=1)])
        how: dict[str, Any] = {"confidence": confidence, "reason": _FOLDS}
        found = Mixture.from_rows(rows, traffic, len(classes), **how)
    else:
        raise ValueError(
            f"{type(final).__name__} holds no scores of rows that it has not seen. Pass "
            "calibration=(X, y), rows of known classes that it was not fitted to, or calibrate it "
            "first: openset.calibration.calibrate."
        )
    rejected = None
    if getattr(final, "categories_", None) is None and np.ptp(thresholds) == 0:
        rejected = float(np.mean(found.traffic_scores < thresholds[0]))
    elif getattr(final, "categories_", None) is None:  # a threshold per class
        rejected = float(np.mean(model.predict(X_traffic) == final.unknown_label_))
    more = {"classes": classes, "rejected": rejected, "thresholds": thresholds}
    return TrafficReport(**vars(found), **more)


def _fold_rows(final: Any) -> np.ndarray | None:
    """Held-out rows (n, 3) that ``openset fit`` scored, unless classes were added since."""
    rows = getattr(final, "fold_rows_", None)
    present = rows is not None and len(np.unique(rows[:, 2])) == len(final.classes_)
    return rows if present else None


def _checked(calibration: Any) -> tuple[Any, np.ndarray]:
    """Rows X and labels (n,) of the argument `calibration`."""
    if not isinstance(calibration, tuple) or len(calibration) != 2:
        raise ValueError(
            f"calibration is a {type(calibration).__name__}; pass a pair (X, y): rows of known "
            "classes that the model has not seen, and their classes."
        )
    X, y = calibration[0], np.asarray(calibration[1])
    check_consistent_length(X, y)
    return X, y


def _calibrated(model: Any, X: Any, y: np.ndarray, classes: np.ndarray) -> Any:
    """The model with the scores of known rows X kept; its thresholds do not matter."""
    known = np.flatnonzero(encode_labels(y, classes) < len(classes))
    if not known.size:
        raise ValueError(
            f"calibration has no row of a known class; the classes are {classes.tolist()!r}."
        )
    with warnings.catch_warnings():  # of the operating point
        warnings.simplefilter("ignore", UserWarning)
        return calibrate(model, _safe_indexing(X, known), y[known], alpha=0.5)
