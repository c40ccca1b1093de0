"""The decision function of one class over a plane, as a surface."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..utils import unwrap
from . import _style
from ._display import Display
from ._plane import plane_grid


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionSurfaceDisplay(Display):
    """Decision function of one class as a surface in three dimensions.

    The surface has the colour of the class where the class accepts, f >= 0, and is grey elsewhere.
    Coloured lines mark the level 0 on the walls, and where the surface crosses it on the floor.
    The title gives the bias b, the limit of f far from all support vectors. Build it with
    :meth:`from_estimator`.

    Parameters
    ----------
    x0, x1 : ndarray of shape (n0,), (n1,)
        Coordinates of the grid.
    values : ndarray of shape (n1, n0)
        Decision function of the class.
    title : str, default=""
        Name of the class and whether its region is bounded.
    color : color, default=colour of the first class
        Colour of the class.
    labels : tuple of str, default=("feature 0", "feature 1")
        Names of the coordinates.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes3D, Figure
    surface_ : Poly3DCollection
    walls_ : list of Line3D
        The level 0 on the two walls at the back.
    border_ : ContourSet or None
        Border of the accepted region, on the floor; None if the surface does not cross 0.

    Examples
    --------
    >>> from openset import OneVsRestSVC
    >>> from openset.datasets import make_boat
    >>> from openset.plots import DecisionSurfaceDisplay
    >>> X, y = make_boat(random_state=0)
    >>> model = OneVsRestSVC(gamma=1.0).fit(X, y)
    >>> display = DecisionSurfaceDisplay.from_estimator(model, X, 3, grid_resolution=20)
    >>> display.ax_.get_title()
    'Class 3: $b = +0.296$, unbounded'
    """

    x0: np.ndarray
    x1: np.ndarray
    values: np.ndarray
    title: str = ""
    color: Any = _style.BASE_COLORS[0]
    labels: tuple[str, str] = ("feature 0", "feature 1")

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        class_label: Hashable,
        *,
        plane: str | ArrayLike | None = None,
        grid_resolution: int = 80,
        margin: float = 0.25,
        ax: Axes | None = None,
    ) -> DecisionSurfaceDisplay:
        """Evaluate the decision function of a class on a grid and draw it.

        Parameters
        ----------
        estimator, X
            As for :meth:`DecisionRegionsDisplay.from_estimator`.
        class_label : label
            The class to draw.
        plane : None, "pca" or array-like of shape (3, d), default=None
            Plane to draw if there are more than two dimensions, as in
            :meth:`DecisionRegionsDisplay.from_estimator`.
        grid_resolution : int, default=80
            Number of grid points in each direction.
        margin : float, default=0.25
            How far to show beyond the samples, as a fraction of their range.
        ax : matplotlib Axes3D, default=None
            Where to draw, made with ``projection="3d"``; None makes a new figure.

        Returns
        -------
        DecisionSurfaceDisplay
        """
        model = unwrap(estimator)
        check_is_fitted(model)
        classes = model.classes_.tolist()
        if getattr(class_label, "ndim", 0) or class_label not in classes:
            raise ValueError(f"class_label={class_label!r} is not one of the classes {classes}.")
        c = classes.index(class_label)
        grid = plane_grid(plane, X, None, margin, grid_resolution)
        display = cls(
            x0=grid.x0,
            x1=grid.x1,
            values=estimator.decision_function(grid.samples)[:, c].reshape(grid.shape),
            title=_title(model, c),
            color=_style.class_colors(len(model.classes_))[c],
            labels=grid.labels,
        )
        return display.plot(ax=ax)

    def _start(self, ax, **subplots):
        if ax is not None and ax.name != "3d":
            raise ValueError("ax must have three dimensions: make it with projection='3d'.")
        return super()._start(ax, subplot_kw={"projection": "3d"})

    def _draw(self, ax):
        u, v = np.meshgrid(self.x0, self.x1)
        colors = _style.tint([0.7] * 3), _style.tint(self.color, 0.75)
        share = self._accepted_share()[..., np.newaxis]
        faces = (1 - share) * colors[0] + share * colors[1]
        self.surface_ = ax.plot_surface(
            u, v, self.values, rcount=len(self.x1), ccount=len(self.x0), facecolors=faces
        )
        # Leave room below the surface to see the floor, and always show the level 0.
        low, high = min(self.values.min(), 0.0), max(self.values.max(), 0.0)
        floor = low - 0.5 * (high - low)
        self.border_ = self._draw_border(ax, u, v, floor)
        self.walls_ = self._draw_walls(ax)
        ax.set(xlim=self.x0[[0, -1]], ylim=self.x1[[0, -1]], zlim=(floor, high), title=self.title)
        first, second = map(_style.plain_text, self.labels)
        ax.set(xlabel=first, ylabel=second, zlabel="decision function $f$")
        for axis in "xy":
            ax.locator_params(axis=axis, nbins=5)  # slanted tick labels need room
        ax.set_box_aspect(None, zoom=0.94)  # as do the axis labels

    def _accepted_share(self):
        """Estimate the accepted share of each face, for a smooth border between the colours."""
        padded = np.pad(self.values, ((0, 1), (0, 1)), mode="edge")
        corners = np.stack([padded[:-1, :-1], padded[1:, :-1], padded[:-1, 1:], padded[1:, 1:]])
        low, high = corners.min(axis=0), corners.max(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(low >= 0, 1.0, np.clip(high / (high - low), 0.0, 1.0))

    def _draw_border(self, ax, u, v, floor):
        if not self.values.min() < 0 < self.values.max():
            return None
        return ax.contour(
            u, v, self.values, [0.0], zdir="z", offset=floor, colors=[self.color], linewidths=1.5
        )

    def _draw_walls(self, ax):
        # The two walls that the viewer sees from inside.
        azimuth = np.deg2rad(ax.azim)
        wall0 = self.x0[0] if np.cos(azimuth) > 0 else self.x0[-1]
        wall1 = self.x1[0] if np.sin(azimuth) > 0 else self.x1[-1]
        ends = ([wall0, wall0], self.x1[[0, -1]]), (self.x0[[0, -1]], [wall1, wall1])
        style = {"color": self.color, "linewidth": 2, "zorder": 0}
        return [line for x, y in ends for line in ax.plot(x, y, [0, 0], **style)]


def _title(model, c):
    """The class, its bias where the method has one, and whether its region is bounded."""
    name = _style.class_name(model.classes_[c])
    name = name[:1].upper() + name[1:]
    bounded = bool(model.bounded_[c])
    if hasattr(model, "intercept_"):
        return f"{name}: $b = {model.intercept_[c]:+.3f}$, {'bounded' if bounded else 'unbounded'}"
    # Without a bias, False may only mean that boundedness is not proved.
    return f"{name}: bounded" if bounded else name
