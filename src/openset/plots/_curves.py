"""Curves over all thresholds: known accepted against unknown accepted."""

from __future__ import annotations

import numpy as np

from openset.metrics import encode_labels, oscr_curve
from openset.plots import _style
from openset.utils import unwrap


class _CurveDisplay:
    """A curve against the share of accepted unknown samples, and the point at threshold 0.

    Several curves on the same axes differ in colour and in line style.
    """

    _ylabel: str
    _area: str

    def _draw(self, ax, x, y, area, operating_point, name):
        self.ax_ = ax = _style.axes(ax)
        self.figure_ = ax.figure
        k = len(ax.get_legend_handles_labels()[0])  # curves that are there already
        color = _style.class_colors(k + 1)[k]
        name = f"{name}: " if name else ""
        (self.line_,) = ax.plot(
            x,
            y,
            color=color,
            linestyle=_style.line_style(k),
            label=f"{name}{self._area} {area:.3f}",
        )
        (self.point_,) = ax.plot(
            *operating_point,
            color=color,
            marker=_style.class_marker(k),
            markeredgecolor="white",
            markersize=8,
            clip_on=False,
            zorder=3,
        )
        ax.set(xlabel="unknown samples accepted", ylabel=self._ylabel)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        self.legend_ = ax.legend(loc="lower right")
        return self


class OSCRDisplay(_CurveDisplay):
    """Open-set classification rate: known samples accepted and correct, against unknown accepted.

    The marker is the threshold 0, at which the estimator itself decides. Build it with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    fpr, ccr : ndarray of shape (n_thresholds,)
        From :func:`openset.metrics.oscr_curve`.
    area : float
        Area under the curve.
    operating_point : tuple of float
        (fpr, ccr) at the threshold 0.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
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

    _ylabel = "known samples accepted and correct"
    _area = "OSCR area"

    def __init__(self, *, fpr, ccr, area, operating_point, name=None):
        self.fpr = fpr
        self.ccr = ccr
        self.area = area
        self.operating_point = operating_point
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, X, y, *, name: str | None = None, ax=None) -> OSCRDisplay:
        """Draw the curve of an estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels; a label that is no known class is unknown.
        name : str, default=None
            Name in the legend; None is that of the estimator.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        OSCRDisplay
        """
        model = unwrap(estimator)
        return cls.from_predictions(
            y,
            estimator.decision_function(X),
            known=model.classes_,
            name=type(model).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls, y_true, scores, *, known, name: str | None = None, ax=None
    ) -> OSCRDisplay:
        """Draw the curve of scores.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels; a label outside `known` is unknown.
        scores : array-like of shape (n, K)
            Acceptance scores, columns in the order of `known`.
        known : array-like of shape (K,)
            The known classes.
        name : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        OSCRDisplay
        """
        fpr, ccr, thresholds = oscr_curve(y_true, scores, known=known)
        _check_both(fpr[-1], ccr[-1])
        at = np.flatnonzero(thresholds >= 0)[-1]
        return cls(
            fpr=fpr,
            ccr=ccr,
            area=float(np.trapezoid(ccr, fpr)),
            operating_point=(fpr[at], ccr[at]),
            name=name,
        ).plot(ax=ax)

    def plot(self, ax=None) -> OSCRDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        OSCRDisplay
        """
        return self._draw(ax, self.fpr, self.ccr, self.area, self.operating_point, self.name)


class KnownROCDisplay(_CurveDisplay):
    """ROC curve of known against unknown samples.

    The marker is the threshold 0, at which the estimator itself decides. Build it with
    :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    fpr, tpr : ndarray of shape (n_thresholds,)
        Shares of the unknown and of the known samples that are accepted.
    area : float
        Area under the curve.
    operating_point : tuple of float
        (fpr, tpr) at the threshold 0.
    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_, point_ : Line2D
        The curve and its operating point.
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from openset.plots import KnownROCDisplay
    >>> display = KnownROCDisplay.from_predictions(
    ...     ["a", "b", "x", "y"], [0.9, 0.4, 0.5, -1.0], known=["a", "b"]
    ... )
    >>> display.area
    0.75
    """

    _ylabel = "known samples accepted"
    _area = "AUROC"

    def __init__(self, *, fpr, tpr, area, operating_point, name=None):
        self.fpr = fpr
        self.tpr = tpr
        self.area = area
        self.operating_point = operating_point
        self.name = name

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, name: str | None = None, ax=None
    ) -> KnownROCDisplay:
        """Draw the curve of an estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels; a label that is no known class is unknown.
        name : str, default=None
            Name in the legend; None is that of the estimator.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        KnownROCDisplay
        """
        model = unwrap(estimator)
        return cls.from_predictions(
            y,
            estimator.decision_function(X).max(axis=1),
            known=model.classes_,
            name=type(model).__name__ if name is None else name,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls, y_true, scores, *, known, name: str | None = None, ax=None
    ) -> KnownROCDisplay:
        """Draw the curve of scores.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels; a label outside `known` is unknown.
        scores : array-like of shape (n,)
            Larger is more known, for example ``known_score(X)`` of the estimator.
        known : array-like of shape (K,)
            The known classes.
        name : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        KnownROCDisplay
        """
        # Known against unknown is the OSCR curve of a single class that all known samples are of.
        is_known = encode_labels(y_true, known) < len(known)
        fpr, tpr, thresholds = oscr_curve(is_known, np.reshape(scores, (-1, 1)), known=[True])
        _check_both(fpr[-1], tpr[-1])
        at = np.flatnonzero(thresholds >= 0)[-1]
        return cls(
            fpr=fpr,
            tpr=tpr,
            area=float(np.trapezoid(tpr, fpr)),
            operating_point=(fpr[at], tpr[at]),
            name=name,
        ).plot(ax=ax)

    def plot(self, ax=None) -> KnownROCDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        KnownROCDisplay
        """
        return self._draw(ax, self.fpr, self.tpr, self.area, self.operating_point, self.name)


def _check_both(fpr, rate):
    for share, kind in ((fpr, "unknown"), (rate, "known")):
        if np.isnan(share):
            raise ValueError(
                f"y_true has no {kind} sample; the curve needs known and unknown ones."
            )
