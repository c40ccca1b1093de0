"""Distribution of the scores of known and unknown samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..metrics import encode_labels
from ..utils import unwrap
from . import _style
from ._display import Display


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreHistogramDisplay(Display):
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

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike,
        *,
        bins: int | ArrayLike = 40,
        ax: Axes | None = None,
    ) -> ScoreHistogramDisplay:
        """Draw the scores of an estimator.

        Parameters
        ----------
        estimator, X, y
            As for :meth:`OSCRDisplay.from_estimator`.
        bins : int or array-like, default=40
            As for :func:`numpy.histogram_bin_edges`, over both kinds of samples.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ScoreHistogramDisplay
        """
        scores = estimator.decision_function(X).max(axis=1)
        return cls.from_predictions(y, scores, known=unwrap(estimator).classes_, bins=bins, ax=ax)

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
        bins, ax
            As for :meth:`from_estimator`.

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

    def plot(self, ax: Axes | None = None, *, bins: int | ArrayLike = 40) -> ScoreHistogramDisplay:
        """Draw.

        Parameters
        ----------
        ax, bins
            As for :meth:`from_estimator`.

        Returns
        -------
        ScoreHistogramDisplay
        """
        axes: Any = self._start(ax)
        everything = np.concatenate([self.known_scores, self.unknown_scores])
        edges = np.histogram_bin_edges(everything, bins=bins)
        red, _, blue = _style.class_colors(3)
        self.patches_: list = []
        # Filled and hatched: the two can be told apart without colour and where they overlap.
        filled = {"facecolor": _style.tint(blue), "edgecolor": blue}
        hatched = {"facecolor": "none", "edgecolor": red, "hatch": "//"}
        for name, scores, style in (
            ("known", self.known_scores, filled),
            ("unknown", self.unknown_scores, hatched),
        ):
            if len(scores):
                style |= {"density": True, "histtype": "stepfilled"}
                label = f"{name}, {len(scores)} samples"
                self.patches_ += axes.hist(scores, edges, label=label, **style)[2]
        self.threshold_ = axes.axvline(0, color=_style.INK, linewidth=1.2, linestyle="--")
        axes.set(xlabel="highest acceptance score (0 or more: accepted)", ylabel="density")
        self.legend_ = axes.legend()
        return self
