"""Scores and answers on test samples: curves over all thresholds, histogram, confusion matrix."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.metrics import ConfusionMatrixDisplay

from ..metrics import encode_labels, open_set_confusion_matrix, oscr_curve
from ..traffic import TrafficReport, estimate_traffic
from ..utils import unwrap
from ._display import (
    INK,
    Display,
    class_colors,
    class_marker,
    line_style,
    plain_text,
    tint,
)


class _AnswersDisplay(Display):
    """A display of true labels and of what an estimator answers; see ``_ask``."""

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw what an estimator answers to samples.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels; a label that is not a known class is unknown.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **options
            Further arguments of ``from_predictions``. In the legend of a curve, a name of None is
            that of the estimator.

        Returns
        -------
        display
        """
        model = unwrap(estimator)
        answers, defaults = cls._ask(estimator, X, model)
        options |= {name: v for name, v in defaults.items() if options.get(name) is None}
        return cls.from_predictions(y, answers, known=model.classes_, ax=ax, **options)

    # What `from_predictions` takes after the true labels, and its options by default.
    _ask: ClassVar[Callable[..., tuple[np.ndarray, dict[str, Any]]]]
    from_predictions: ClassVar[Callable[..., Any]]


@dataclass(kw_only=True, eq=False, repr=False)
class _CurveDisplay(_AnswersDisplay):
    """A curve against the share of accepted unknown samples, with the point at threshold 0."""

    # Several curves on the same axes differ in colour and in line style.

    fpr: np.ndarray
    area: float
    operating_point: tuple[float, float]
    name: str | None = None

    _named: ClassVar[bool]  # do only samples count that are given their own class?
    _rate: ClassVar[str]  # attribute with the vertical coordinates
    _ylabel: ClassVar[str]
    _area: ClassVar[str]

    @classmethod
    def _ask(cls, estimator, X, model):
        scores = estimator.decision_function(X)
        return scores if cls._named else scores.max(axis=1), {"name": type(model).__name__}

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
        name : str, default=None
            Name in the legend; None draws no name.
        ax : matplotlib Axes, default=None

        Returns
        -------
        display
        """
        if not cls._named:  # the OSCR curve of a single class that all known samples belong to
            y_true = encode_labels(y_true, known) < len(known)  # type: ignore[arg-type]
            scores, known = np.reshape(scores, (-1, 1)), [True]
        fpr, rate, thresholds = oscr_curve(y_true, scores, known=known)
        for share, kind in ((fpr[-1], "unknown"), (rate[-1], "known")):
            if np.isnan(share):
                raise ValueError(
                    f"y_true has no {kind} sample; the curve needs known and unknown ones."
                )
        at = np.flatnonzero(thresholds >= 0)[-1]
        curve: dict[str, Any] = {"fpr": fpr, cls._rate: rate}
        curve |= {"area": float(np.trapezoid(rate, fpr)), "operating_point": (fpr[at], rate[at])}
        return cls(name=name, **curve).plot(ax=ax)

    def _draw(self, ax):
        k = len(ax.get_legend_handles_labels()[0])  # number of curves already drawn
        color = class_colors(k + 1)[k]
        name = f"{plain_text(self.name)}: " if self.name else ""
        style = {"color": color, "linestyle": line_style(k)}
        label = f"{name}{self._area} {self.area:.3f}"
        (self.line_,) = ax.plot(self.fpr, getattr(self, self._rate), label=label, **style)
        style = {"color": color, "marker": class_marker(k), "markeredgecolor": "white"}
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
    _named = True


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
    _named = False


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreHistogramDisplay(_AnswersDisplay):
    """Histograms of the known score of known and of unknown samples.

    Each histogram has area 1. The line is the threshold 0: samples to the right are accepted.
    Build it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    known_scores, unknown_scores : ndarray of shape (n_known,), (n_unknown,)
        Scores of the samples of each kind; either may be empty.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, Figure
    patches_ : list of Polygon
        The histograms that are not empty.
    threshold_ : Line2D
    legend_ : matplotlib Legend

    Examples
    --------
    >>> from openset.plots import ScoreHistogramDisplay
    >>> display = ScoreHistogramDisplay.from_predictions(
    ...     ["a", "b", "x"], [0.5, 0.2, -0.4], known=["a", "b"], bins=5
    ... )
    >>> display.unknown_scores
    array([-0.4])
    """

    known_scores: np.ndarray
    unknown_scores: np.ndarray

    @staticmethod
    def _ask(estimator, X, model):
        return estimator.decision_function(X).max(axis=1), {}

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        scores: ArrayLike,
        *,
        known: ArrayLike,
        bins: int | ArrayLike = 40,
        ax: Axes | None = None,
    ) -> ScoreHistogramDisplay:
        """Draw given scores.

        Parameters
        ----------
        y_true, scores, known
            As for :meth:`KnownROCDisplay.from_predictions`.
        bins : int or array-like, default=40
            As for :func:`numpy.histogram_bin_edges`, over both kinds of samples.
        ax : matplotlib Axes, default=None

        Returns
        -------
        ScoreHistogramDisplay
        """
        is_known = encode_labels(y_true, known) < len(known)  # type: ignore[arg-type]
        scores = np.asarray(scores, dtype=np.float64)
        if scores.shape != is_known.shape or not np.isfinite(scores).all():
            raise ValueError(
                f"scores of shape {scores.shape} must be finite, one for each of the "
                f"{len(is_known)} samples of y_true."
            )
        display = cls(known_scores=scores[is_known], unknown_scores=scores[~is_known])
        return display.plot(ax=ax, bins=bins)

    def _draw(self, ax, bins=40):
        everything = np.concatenate([self.known_scores, self.unknown_scores])
        edges = np.histogram_bin_edges(everything, bins=bins)
        red, _, blue = class_colors(3)
        self.patches_: list = []
        # Filled and hatched: the two can be told apart without colour and where they overlap.
        for name, style in (
            ("known", {"facecolor": tint(blue), "edgecolor": blue}),
            ("unknown", {"facecolor": "none", "edgecolor": red, "hatch": "//"}),
        ):
            if n := len(scores := getattr(self, f"{name}_scores")):
                style |= {"density": True, "histtype": "stepfilled"}
                self.patches_ += ax.hist(scores, edges, label=f"{name}, {n} samples", **style)[2]
        self.threshold_ = ax.axvline(0, color=INK, linewidth=1.2, linestyle="--")
        ax.set(xlabel="highest acceptance score (0 or more: accepted)", ylabel="density")
        self.legend_ = ax.legend()


@dataclass(kw_only=True, eq=False, repr=False)
class TrafficDisplay(Display):
    """Scores of unlabelled traffic, and the part of them that is estimated to be known.

    The filled histogram is the traffic. The line is that of the calibration rows, scaled to the
    estimated share of known rows: what lies outside it is unknown. The dashed line is the threshold
    of the model; a band where the classes have different ones. Build it with :meth:`from_report` or
    :meth:`from_estimator`.

    Parameters
    ----------
    report : TrafficReport
        From :func:`openset.traffic.estimate_traffic`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, Figure
    traffic_, known_ : Polygon
    threshold_ : Line2D or Rectangle
    legend_ : matplotlib Legend

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetLDA
    >>> from openset.plots import TrafficDisplay
    >>> from openset.traffic import estimate_traffic
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 2)), np.repeat([0, 1], 100)
    >>> X[y == 1] += 9
    >>> model = OpenSetLDA().fit(X[::2], y[::2])
    >>> report = estimate_traffic(model, rng.normal(size=(50, 2)) + 4, (X[1::2], y[1::2]))
    >>> TrafficDisplay.from_report(report).legend_.get_texts()[0].get_text()
    'traffic, 50 rows'
    """

    report: TrafficReport

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X_traffic: ArrayLike,
        calibration: tuple[ArrayLike, ArrayLike] | None = None,
        *,
        bins: int | ArrayLike = 40,
        ax: Axes | None = None,
    ) -> TrafficDisplay:
        """Estimate the share of unknown rows and draw the scores.

        Parameters
        ----------
        estimator, X_traffic, calibration
            As for :func:`openset.traffic.estimate_traffic`.
        bins : int or array-like, default=40
            As for :func:`numpy.histogram_bin_edges`, over the scores of calibration rows and
            traffic.
        ax : matplotlib Axes, default=None

        Returns
        -------
        TrafficDisplay
        """
        report = estimate_traffic(estimator, X_traffic, calibration)
        return cls.from_report(report, bins=bins, ax=ax)

    @classmethod
    def from_report(
        cls, report: TrafficReport, *, bins: int | ArrayLike = 40, ax: Axes | None = None
    ) -> TrafficDisplay:
        """Draw the scores of a report.

        Parameters
        ----------
        report : TrafficReport
        bins, ax
            As for :meth:`from_estimator`.

        Returns
        -------
        TrafficDisplay
        """
        return cls(report=report).plot(ax=ax, bins=bins)

    def _draw(self, ax, bins=40):
        report, (red, _, blue) = self.report, class_colors(3)
        known, traffic = report.calibration_scores, report.traffic_scores
        edges = np.histogram_bin_edges(np.concatenate([known, traffic]), bins=bins)
        share = 1 - report.unknown_share
        filled = {"histtype": "stepfilled", "facecolor": tint(red), "edgecolor": red}
        line = {"histtype": "step", "color": blue, "lw": 1.8}
        title = f"known part, estimated {share:.1%} ({len(known):,} calibration rows)"
        self.traffic_, self.known_ = (
            ax.hist(scores, edges, weights=np.full(len(scores), part / len(scores)), **style)[2][0]
            for scores, part, style in (
                (traffic, 1, filled | {"label": f"traffic, {len(traffic):,} rows"}),
                (known, share, line | {"label": title}),
            )
        )
        low, high = report.thresholds.min(), report.thresholds.max()
        if low == high:
            self.threshold_ = ax.axvline(low, color=INK, lw=1.2, ls="--", label="threshold")
        else:
            self.threshold_ = ax.axvspan(
                low, high, color=INK, alpha=0.2, lw=0, label="thresholds of the classes"
            )
        title = f"about {report.unknown_share:.1%} unknown"
        if report.unknown_at_least is not None:
            title += f"\nat least {report.unknown_at_least:.1%}, confidence {report.confidence:g}"
        ax.set(xlabel="highest score of a class", ylabel="share of the traffic")
        ax.set_title(title, fontsize="medium")
        ax.set_ylim(0, 1.4 * ax.get_ylim()[1])  # room for the legend
        self.legend_ = ax.legend()


class OpenSetConfusionMatrixDisplay(_AnswersDisplay, ConfusionMatrixDisplay):
    """Where the samples of each class went; unknown is the last row and the last column.

    All true labels outside the known classes share the last row. Lines separate it, and the column
    of rejected samples, from the rest. Build it with :meth:`from_estimator` or
    :meth:`from_predictions`.

    Parameters
    ----------
    confusion_matrix : ndarray of shape (K + 1, K + 1)
    display_labels : ndarray of shape (K + 1,), default=None
        Names of the classes, unknown last.

    Attributes
    ----------
    ax_, figure_, im_ : matplotlib Axes, Figure, AxesImage
    text_ : ndarray of shape (K + 1, K + 1) of Text, or None
    borders_ : list of Line2D

    Examples
    --------
    >>> from openset.plots import OpenSetConfusionMatrixDisplay
    >>> display = OpenSetConfusionMatrixDisplay.from_predictions(
    ...     ["a", "b", "x"], ["a", "?", "?"], known=["a", "b"], unknown_label="?"
    ... )
    >>> display.confusion_matrix
    array([[1, 0, 0],
           [0, 0, 1],
           [0, 0, 1]])
    """

    @staticmethod
    def _ask(estimator, X, model):
        return estimator.predict(X), {"unknown_label": model.unknown_label_}

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        known: ArrayLike,
        unknown_label: Hashable,
        normalize: str | None = None,
        include_values: bool | None = None,
        ax: Axes | None = None,
    ) -> OpenSetConfusionMatrixDisplay:
        """Draw the matrix of predictions.

        Parameters
        ----------
        y_true, y_pred, known, unknown_label
            As for :func:`openset.metrics.open_set_confusion_matrix`.
        normalize : {"true", None}, default=None
            "true" shows the share of each row instead of the number of samples.
        include_values : bool, default=None
            Whether to write the values; None writes them for at most twelve classes.
        ax : matplotlib Axes, default=None

        Returns
        -------
        OpenSetConfusionMatrixDisplay
        """
        if normalize not in (None, "true"):
            raise ValueError(f"normalize={normalize!r} must be 'true' or None.")
        counts = open_set_confusion_matrix(y_true, y_pred, known=known, unknown_label=unknown_label)
        # The maximum with 1 keeps a row without samples at 0.
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        labels = np.array([*map(str, known), "unknown"])  # type: ignore[arg-type]
        display = cls(confusion_matrix=shares if normalize else counts, display_labels=labels)
        return display.plot(ax=ax, include_values=include_values)

    def _draw(self, ax, include_values=None):
        size = len(self.confusion_matrix)
        shares = np.issubdtype(self.confusion_matrix.dtype, np.floating)
        ConfusionMatrixDisplay.plot(
            self,
            ax=ax,
            include_values=size <= 13 if include_values is None else include_values,
            cmap="Blues",
            values_format=".2f" if shares else "d",
            xticks_rotation="vertical" if max(map(len, self.display_labels)) > 3 else "horizontal",
            colorbar=False,
        )
        names = [plain_text(label) for label in self.display_labels]
        ax.set(xticklabels=names, yticklabels=names)
        self.borders_ = [line(size - 1.5, color=INK, lw=1.5) for line in (ax.axhline, ax.axvline)]
