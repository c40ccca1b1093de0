"""Bias and accuracies along the lambda path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from ..metrics import OpenSetCounts, encode_labels
from ..svm import LambdaPath
from ..utils import decide
from . import _style
from ._display import axes_for


@dataclass(kw_only=True, eq=False, repr=False)
class LambdaPathDisplay:
    """Bias of each class against lambda, and optionally the accuracies below it.

    Filled markers mean that the class accepts a bounded region (its bias is negative), hollow
    markers that the region is unbounded. A tick on the zero line is the smallest lambda at which
    the class becomes bounded. Build it with :meth:`from_path`.

    Parameters
    ----------
    path : LambdaPath
        From :func:`openset.svm.lambda_path`.
    accuracy_known, accuracy_unknown : ndarray of shape (T,), default=None
        AKS and AUS of the classifier at each lambda of the path.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, of shape (1,) or (2,)
    figure_ : matplotlib Figure
    lines_ : list of Line2D
        Bias of each class.
    crossings_ : list of Line2D
        Smallest lambda that bounds the class, for each class that is unbounded at lambda = 0.
    accuracy_lines_ : list of Line2D
        AKS, AUS and NA, the mean of both.

    Examples
    --------
    >>> from openset.datasets import make_boat
    >>> from openset.plots import LambdaPathDisplay
    >>> from openset.svm import lambda_path
    >>> X, y = make_boat(random_state=0)
    >>> display = LambdaPathDisplay.from_path(lambda_path(X, y, gamma=1.0))
    >>> len(display.lines_), len(display.crossings_)
    (3, 1)
    """

    path: LambdaPath
    accuracy_known: np.ndarray | None = None
    accuracy_unknown: np.ndarray | None = None

    @classmethod
    def from_path(
        cls,
        path: LambdaPath,
        *,
        y_validation: ArrayLike | None = None,
        ax: Axes | Sequence[Axes] | None = None,
    ) -> LambdaPathDisplay:
        """Draw a lambda path.

        Parameters
        ----------
        path
            As for the class.
        y_validation : array-like of shape (n,), default=None
            Labels of the validation samples of the path, for the accuracies; a label that is not
            one of its classes is unknown.
        ax : matplotlib Axes or sequence of two, default=None
            Where to draw: one Axes for the bias and, with `y_validation`, a second one for the
            accuracies. None makes a new figure.

        Returns
        -------
        LambdaPathDisplay
        """
        accuracies = {}
        if y_validation is not None:
            if path.scores is None:
                raise ValueError(
                    "y_validation was passed, but the path has no scores; "
                    "call lambda_path with X_validation=."
                )
            true = encode_labels(y_validation, path.classes)
            if len(true) != path.scores.shape[2]:
                raise ValueError(
                    f"y_validation has {len(true)} labels, the path scores of "
                    f"{path.scores.shape[2]} samples."
                )
            answers = decide(np.moveaxis(path.scores, 0, -1))
            counts = OpenSetCounts.from_codes(true, answers, len(path.classes))
            names = ("accuracy_known", "accuracy_unknown")
            accuracies = {name: getattr(counts, name)() for name in names}
        return cls(path=path, **accuracies).plot(ax=ax)

    def plot(self, ax: Axes | Sequence[Axes] | None = None) -> LambdaPathDisplay:
        """Draw.

        Parameters
        ----------
        ax
            As for :meth:`from_path`.

        Returns
        -------
        LambdaPathDisplay
        """
        n_axes = 1 if self.accuracy_known is None else 2
        ax = axes_for(ax, nrows=n_axes, sharex=True)
        self.axes_ = np.atleast_1d(np.asarray(ax, dtype=object))
        if self.axes_.shape != (n_axes,):
            raise ValueError(f"ax has {self.axes_.size} axes; this display draws on {n_axes}.")
        self.figure_ = self.axes_[0].figure
        self._draw_bias(self.axes_[0])
        self.accuracy_lines_ = [] if n_axes == 1 else self._draw_accuracies(self.axes_[1])
        self.axes_[-1].set_xlabel(r"$\lambda$, fraction of its range")
        return self

    def _draw_bias(self, ax):
        path = self.path
        colors = _style.class_colors(len(path.classes))
        ax.axhline(0, color=_style.INK, linewidth=0.8, zorder=1)
        self.lines_, self.crossings_ = [], []
        for c, label in enumerate(path.classes):
            marker = {"marker": _style.class_marker(c), "markersize": 5, "color": colors[c]}
            (line,) = ax.plot(path.lams, path.bias[c], label=_style.class_name(label), **marker)
            self.lines_.append(line)
            unbounded = ~path.bounded[c]
            if unbounded.any():
                over = {"markerfacecolor": "white", "linestyle": "none", "zorder": 3}
                ax.plot(path.lams[unbounded], path.bias[c, unbounded], **marker, **over)
                crossing = path.smallest_bounding[c]
                self.crossings_ += ax.plot(
                    crossing, 0, "|", color=colors[c], markersize=16, markeredgewidth=2, zorder=4
                )
        ax.set_ylabel("bias $b$")
        ax.legend(title="hollow: unbounded", loc="lower left")  # free, as the bias falls

    def _draw_accuracies(self, ax):
        curves = {
            "AKS, known": self.accuracy_known,
            "AUS, unknown": self.accuracy_unknown,
            "NA, mean": (self.accuracy_known + self.accuracy_unknown) / 2,
        }
        lines = []
        for k, (name, values) in enumerate(curves.items()):
            style = {"color": str(0.25 * k), "linestyle": _style.line_style(k)}
            lines += ax.plot(self.path.lams, values, label=name, **style)
        ax.set(ylabel="accuracy", ylim=(-0.03, 1.03))
        ax.legend()
        return lines
