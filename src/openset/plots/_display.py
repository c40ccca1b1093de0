"""What the displays share: they draw on given or new axes, and return themselves."""

from __future__ import annotations

from typing import Any, Self

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure


def axes_for(ax: Any = None, **subplots: Any) -> Any:
    """Return `ax`, or the axes of a new pyplot figure if it is None."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # loads a backend, so only when needed

    return plt.subplots(layout="constrained", **subplots)[1]


class Display:
    """A figure on one Axes; subclasses implement ``_draw``."""

    ax_: Axes
    figure_: Figure | SubFigure

    def _start(self, ax: Axes | None, **subplots: Any) -> Axes:
        """Set and return the axes to draw on."""
        self.ax_ = axes_for(ax, **subplots)
        self.figure_ = self.ax_.figure
        return self.ax_

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        display
            This object.
        """
        self._draw(self._start(ax))
        return self

    def _draw(self, ax: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define how it is drawn.")
