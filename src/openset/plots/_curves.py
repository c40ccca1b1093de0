"""Curves over all thresholds: accepted known samples against accepted unknown samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..metrics import encode_labels, oscr_curve
from ..utils import unwrap
from . import _style
from ._display import Display


@dataclass(kw_only=True, eq=False, repr=False)
class _CurveDisplay(Display, ABC):
    """A curve against the share of accepted unknown samples, with the point at threshold 0.

    Several curves on the same axes differ in colour and in line style.
    """

    fpr: np.ndarray
    area: float
    operating_point: tuple[float, float]
    name: str | None = None

    _rate: ClassVar[str]  # attribute with the vertical coordinates
    _ylabel: ClassVar[str]
    _area: ClassVar[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the curve of an estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels; a label that is not a known class is unknown.
        name : str, default=None
            Name in the legend; None uses the name of the estimator.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        display
        """
        model = unwrap(estimator)
        scores = cls._reduce(estimator.decision_function(X))
        name = type(model).__name__ if name is None else name
        return cls.from_predictions(y, scores, known=model.classes_, name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        scores: ArrayLike,
        *,
        known: ArrayLike,
        name: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the curve of scores.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels; a label outside `known` is unknown.
        scores : array-like of shape (n, K) for the OSCR curve, (n,) for the ROC curve
            Acceptance scores with columns in the order of `known`, or one score per sample, for
            example ``known_score(X)``; larger is more known.
        known : array-like of shape (K,)
            The known classes.
        name, ax
            As for :meth:`from_estimator`, but None draws no name.

        Returns
        -------
        display
        """
        fpr, rate, thresholds = cls._curve(y_true, scores, known)
        for share, kind in ((fpr[-1], "unknown"), (rate[-1], "known")):
            if np.isnan(share):
                raise ValueError(
                    f"y_true has no {kind} sample; the curve needs known and unknown ones."
                )
        at = np.flatnonzero(thresholds >= 0)[-1]
        area = float(np.trapezoid(rate, fpr))
        curve: dict[str, Any] = {
            "fpr": fpr,
            cls._rate: rate,
            "operating_point": (fpr[at], rate[at]),
        }
        return cls(area=area, name=name, **curve).plot(ax=ax)

    @staticmethod
    def _reduce(scores: np.ndarray) -> np.ndarray:
        """The scores that the curve needs, from acceptance scores of shape (n, K)."""
        return scores

    @staticmethod
    @abstractmethod
    def _curve(y_true: ArrayLike, scores: ArrayLike, known: ArrayLike) -> tuple[np.ndarray, ...]:
        """Horizontal coordinates, vertical ones and thresholds."""

    def _draw(self, ax):
        k = len(ax.get_legend_handles_labels()[0])  # number of curves already drawn
        color = _style.class_colors(k + 1)[k]
        name = f"{_style.plain_text(self.name)}: " if self.name else ""
        style = {"color": color, "linestyle": _style.line_style(k)}
        label = f"{name}{self._area} {self.area:.3f}"
        (self.line_,) = ax.plot(self.fpr, getattr(self, self._rate), label=label, **style)
        style = {"color": color, "marker": _style.class_marker(k), "markeredgecolor": "white"}
        (self.point_,) = ax.plot(
            *self.operating_point, **style, markersize=8, clip_on=False, zorder=3
        )
        ax.set(xlabel="unknown samples accepted", ylabel=self._ylabel)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        self.legend_ = ax.legend(loc="lower right")


@dataclass(kw_only=True, eq=False, repr=False)
class OSCRDisplay(_CurveDisplay):
    """Open-set classification rate: known samples accepted and correct, against unknown accepted.

    The marker is the threshold 0, at which the estimator itself decides. Build it with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    fpr : ndarray of shape (n_thresholds,)
        Share of the unknown samples that are accepted.
    area : float
        Area under the curve.
    operating_point : tuple of float
        The point of the curve at the threshold 0.
    name : str, default=None
        Name in the legend.
    ccr : ndarray of shape (n_thresholds,)
        From :func:`openset.metrics.oscr_curve`, as is `fpr`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, Figure
    line_, point_ : Line2D
        The curve and its operating point.
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from openset.plots import OSCRDisplay
    >>> scores = [[0.9, 0.1], [0.7, 0.2], [0.3, 0.5]]
    >>> display = OSCRDisplay.from_predictions(["a", "x", "b"], scores, known=["a", "b"])
    >>> display.area
    0.5
    """

    ccr: np.ndarray

    _rate = "ccr"
    _ylabel = "known samples accepted and correct"
    _area = "OSCR area"

    @staticmethod
    def _curve(y_true, scores, known):
        return oscr_curve(y_true, scores, known=known)


@dataclass(kw_only=True, eq=False, repr=False)
class KnownROCDisplay(_CurveDisplay):
    """ROC curve of known against unknown samples.

    The marker is the threshold 0, at which the estimator itself decides. Build it with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    fpr, area, operating_point, name
        As for :class:`OSCRDisplay`.
    tpr : ndarray of shape (n_thresholds,)
        Share of the known samples that are accepted.

    Attributes
    ----------
    ax_, figure_, line_, point_, legend_
        As for :class:`OSCRDisplay`.

    Examples
    --------
    >>> from openset.plots import KnownROCDisplay
    >>> display = KnownROCDisplay.from_predictions(
    ...     ["a", "b", "x", "y"], [0.9, 0.4, 0.5, -1.0], known=["a", "b"]
    ... )
    >>> display.area
    0.75
    """

    tpr: np.ndarray

    _rate = "tpr"
    _ylabel = "known samples accepted"
    _area = "AUROC"

    @staticmethod
    def _reduce(scores):
        return scores.max(axis=1)

    @staticmethod
    def _curve(y_true, scores, known):
        # The ROC curve is the OSCR curve when all known samples belong to one class.
        is_known = encode_labels(y_true, known) < len(known)
        return oscr_curve(is_known, np.reshape(scores, (-1, 1)), known=[True])
