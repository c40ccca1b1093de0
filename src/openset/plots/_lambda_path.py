"""What lambda does: bias and accuracies along the lambda path."""

from __future__ import annotations

import numpy as np

from openset.metrics import OpenSetCounts, encode_labels
from openset.plots import _style
from openset.svm import LambdaPath
from openset.utils import decide


class LambdaPathDisplay:
    """Bias of each class against lambda, and optionally the accuracies below it.

    A class accepts a bounded region where its bias is negative: filled markers; hollow ones are
    unbounded. A tick on the line of zero is the smallest lambda that bounds the class. Build it
    with :meth:`from_path`.

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
        The smallest lambda that bounds each class that is not bounded without.
    accuracy_lines_ : list of Line2D
        AKS, AUS and their mean NA.

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

    def __init__(self, *, path: LambdaPath, accuracy_known=None, accuracy_unknown=None):
        self.path = path
        self.accuracy_known = accuracy_known
        self.accuracy_unknown = accuracy_unknown

    @classmethod
    def from_path(cls, path: LambdaPath, *, y_validation=None, ax=None) -> LambdaPathDisplay:
        """Draw a lambda path.

        Parameters
        ----------
        path : LambdaPath
            From :func:`openset.svm.lambda_path`.
        y_validation : array-like of shape (n,), default=None
            Labels of its validation samples, for the accuracies; a label that is no class of the
            path is unknown.
        ax : matplotlib Axes or sequence of two, default=None
            Where to draw: one for the bias, with `y_validation` a second for the accuracies. None
            makes a new figure.

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
            accuracies = {
                "accuracy_known": counts.accuracy_known(),
                "accuracy_unknown": counts.accuracy_unknown(),
            }
        return cls(path=path, **accuracies).plot(ax=ax)

    def plot(self, ax=None) -> LambdaPathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of two, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LambdaPathDisplay
        """
        n_axes = 1 if self.accuracy_known is None else 2
        if ax is None:
            ax = _style.axes(nrows=n_axes, sharex=True)
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
        ax.legend(title="hollow: unbounded", loc="lower left")  # b falls: this corner is free

    def _draw_accuracies(self, ax):
        curves = {
            "AKS, known": self.accuracy_known,
            "AUS, unknown": self.accuracy_unknown,
            "NA, mean": (self.accuracy_known + self.accuracy_unknown) / 2,
        }
        lines = []
        for k, (name, values) in enumerate(curves.items()):
            shade = str(0.25 * k)
            lines += ax.plot(
                self.path.lams, values, label=name, color=shade, linestyle=_style.line_style(k)
            )
        ax.set(ylabel="accuracy", ylim=(-0.03, 1.03))
        ax.legend()
        return lines
