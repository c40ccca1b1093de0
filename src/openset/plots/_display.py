"""What all displays share: axes, colours, markers, line styles and names."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure, SubFigure
from numpy.typing import ArrayLike

# Red, green and blue come first, as in the paper. Any two stay apart (CIELAB distance above 23)
# for normal sight and for the three kinds of colour blindness; the first four also in grey.
BASE_COLORS = "#e31e1f #24b17e #0b3cc2 #f7be0c #7e5492 #a2b3f0 #442217 #d0bacc".split()
UNKNOWN_COLOR = "#4d4d4d"
INK = "#262626"

_MARKERS = "os^Dvp*P<>hX"
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def class_colors(n_classes: int) -> np.ndarray:
    """Return the colours that all displays give to the classes.

    The first eight differ for every kind of colour blindness; the next ones are darker shades of
    them.

    Parameters
    ----------
    n_classes : int

    Returns
    -------
    ndarray of shape (n_classes, 3)
        RGB values in [0, 1], in the order of ``classes_``.

    Examples
    --------
    >>> from openset.plots import class_colors
    >>> class_colors(3).round(2)
    array([[0.89, 0.12, 0.12],
           [0.14, 0.69, 0.49],
           [0.04, 0.24, 0.76]])
    """
    base = np.array([to_rgb(color) for color in BASE_COLORS])
    index = np.arange(n_classes)
    shade = 0.62 ** (index // len(base))
    return base[index % len(base)] * shade[:, np.newaxis]


def tint(colors: ArrayLike, amount: float = 0.35) -> np.ndarray:
    """Mix colours with white, as decision regions are coloured.

    Parameters
    ----------
    colors : array-like of shape (..., 3)
        RGB values in [0, 1].
    amount : float, default=0.35
        Share of the colour; the rest is white.

    Returns
    -------
    ndarray of shape (..., 3)

    Examples
    --------
    >>> from openset.plots import tint
    >>> tint([1.0, 0.0, 0.5], amount=0.5)
    array([1.  , 0.5 , 0.75])
    """
    return 1 - amount * (1 - np.asarray(colors))


def class_marker(k: int) -> str:
    """Return the marker of class number k; markers of neighbouring classes differ.

    Parameters
    ----------
    k : int
        Position in ``classes_``.

    Returns
    -------
    str
        A marker of matplotlib.

    Examples
    --------
    >>> from openset.plots import class_marker
    >>> [class_marker(k) for k in range(3)]
    ['o', 's', '^']
    """
    return _MARKERS[k % len(_MARKERS)]


def line_style(k: int) -> str | tuple:
    """Line style of curve number k."""
    return _LINES[k % len(_LINES)]


def plain_text(name: object) -> str:
    r"""Return a name so that matplotlib draws it as it is, whatever it holds.

    Dollar signs would begin a formula, control characters would break the line or fail, and a
    legend would leave out a name that begins with an underscore.

    Parameters
    ----------
    name : object
        For example a class or the name of a column; ``str(name)`` is drawn.

    Returns
    -------
    str

    Examples
    --------
    >>> from openset.plots import plain_text
    >>> print(plain_text("$5 to $10"))
    \$5 to \$10
    """
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(name))
    return (f" {shown}" if shown.startswith("_") else shown).replace("$", r"\$")


def class_name(label: Hashable) -> str:
    """Name of a class in a legend: a string as it is, a number with the word "class"."""
    return plain_text(label if isinstance(label, str) else f"class {label}")


def axes_for(ax: Any = None, **subplots: Any) -> Any:
    """Return `ax`, or the axes of a new pyplot figure if it is None."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # loads a backend, so only when needed

    return plt.subplots(layout="constrained", **subplots)[1]


class Display:
    """A figure on one Axes; subclasses define ``_draw(ax, **options)``."""

    ax_: Axes
    figure_: Figure | SubFigure

    _draw: Callable[..., None]
    _axes = staticmethod(axes_for)

    def plot(self, ax: Axes | None = None, **options: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **options
            How to draw, as for the class method that built this display.

        Returns
        -------
        display
            This object.
        """
        self.ax_ = self._axes(ax)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_, **options)
        return self
