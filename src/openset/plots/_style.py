"""What the figures share: colours, markers, the axes to draw on."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

# Red, green and blue come first, as in the paper. Any two stay apart (CIELAB distance above 23)
# for normal sight and for the three kinds of colour blindness; the first four also in grey.
BASE_COLORS = (
    "#e31e1f",
    "#24b17e",
    "#0b3cc2",
    "#f7be0c",
    "#7e5492",
    "#a2b3f0",
    "#442217",
    "#d0bacc",
)
UNKNOWN_COLOR = "#4d4d4d"
INK = "#262626"

_MARKERS = "os^Dvp*P<>hX"
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def class_colors(n: int) -> np.ndarray:
    """Colours of n classes, (n, 3); after the eight base colours, darker shades of them."""
    base = np.array([to_rgb(color) for color in BASE_COLORS])
    index = np.arange(n)
    shade = 0.62 ** (index // len(base))
    return base[index % len(base)] * shade[:, np.newaxis]


def tint(colors, amount: float = 0.35) -> np.ndarray:
    """Mix colours, (..., 3), with white; `amount` is the share of the colour."""
    return 1 - amount * (1 - np.asarray(colors))


def class_marker(k: int) -> str:
    """Marker of the k-th class: neighbouring classes differ without colour."""
    return _MARKERS[k % len(_MARKERS)]


def line_style(k: int):
    """Line style of the k-th curve."""
    return _LINES[k % len(_LINES)]


def axes(ax=None, **subplots):
    """Return the axes to draw on: `ax`, or those of a new figure, which pyplot then shows."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # loads a backend, so not before it is needed

    return plt.subplots(layout="constrained", **subplots)[1]


def class_name(label) -> str:
    """A class in a legend: numbers are called classes, names speak for themselves."""
    return str(label) if isinstance(label, str) else f"class {label}"
