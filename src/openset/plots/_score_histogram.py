"""How the scores of known and unknown samples are distributed."""

from __future__ import annotations

import numpy as np

from openset.metrics._scores import _known_scores
from openset.plots import _style
from openset.utils import unwrap


class ScoreHistogramDisplay:
    """Histograms of the known score of known and of unknown samples.

    Each histogram has the area 1. The line is the threshold 0: what lies right of it is accepted.
    Build it with :meth:`from_estimator` or :meth:`from_predictions`.

    Parameters
    ----------
    known_scores, unknown_scores : ndarray of shape (n_known,), (n_unknown,)
        Scores of the samples of each kind; either may be empty.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    patches_ : list of Polygon
        The histograms that are there.
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

    def __init__(self, *, known_scores, unknown_scores):
        self.known_scores = known_scores
        self.unknown_scores = unknown_scores

    @classmethod
    def from_estimator(cls, estimator, X, y, *, bins=40, ax=None) -> ScoreHistogramDisplay:
        """Draw the scores that an estimator gives.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
            True labels; a label that is no known class is unknown.
        bins : int or array-like, default=40
            As for :func:`numpy.histogram_bin_edges`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ScoreHistogramDisplay
        """
        scores = estimator.decision_function(X).max(axis=1)
        return cls.from_predictions(y, scores, known=unwrap(estimator).classes_, bins=bins, ax=ax)

    @classmethod
    def from_predictions(cls, y_true, scores, *, known, bins=40, ax=None) -> ScoreHistogramDisplay:
        """Draw given scores.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            True labels; a label outside `known` is unknown.
        scores : array-like of shape (n,)
            Larger is more known, for example ``known_score(X)`` of the estimator.
        known : array-like of shape (K,)
            The known classes.
        bins : int or array-like, default=40
            As for :func:`numpy.histogram_bin_edges`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ScoreHistogramDisplay
        """
        is_known, scores = _known_scores(y_true, scores, known)
        display = cls(known_scores=scores[is_known], unknown_scores=scores[~is_known])
        return display.plot(ax=ax, bins=bins)

    def plot(self, ax=None, *, bins=40) -> ScoreHistogramDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        bins : int or array-like, default=40
            As for :func:`numpy.histogram_bin_edges`, over both kinds of samples.

        Returns
        -------
        ScoreHistogramDisplay
        """
        self.ax_ = ax = _style.axes(ax)
        self.figure_ = ax.figure
        edges = np.histogram_bin_edges(
            np.concatenate([self.known_scores, self.unknown_scores]), bins=bins
        )
        red, _, blue = _style.class_colors(3)
        self.patches_ = []
        # Filled against hatched: the two differ without colour, and where they overlap.
        for name, scores, style in (
            ("known", self.known_scores, {"facecolor": _style.tint(blue), "edgecolor": blue}),
            (
                "unknown",
                self.unknown_scores,
                {"facecolor": "none", "edgecolor": red, "hatch": "//"},
            ),
        ):
            if len(scores):
                label = f"{name}, {len(scores)} samples"
                self.patches_ += ax.hist(
                    scores, edges, density=True, histtype="stepfilled", label=label, **style
                )[2]
        self.threshold_ = ax.axvline(0, color=_style.INK, linewidth=1.2, linestyle="--")
        ax.set(xlabel="highest acceptance score (0 or more: accepted)", ylabel="density")
        self.legend_ = ax.legend()
        return self
