"""Decision regions: the answer for a sample at each point of a plane, white for unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..base import Certificate
from ..metrics import encode_labels
from ..utils import decide, split_fitted, unwrap
from . import _style
from ._display import Display
from ._plane import plane_grid

_LEGEND_UP_TO = 10  # classes; a longer legend would cover the figure


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionRegionsDisplay(Display):
    """Decision regions of an open-set classifier on a plane.

    Each point has the colour of the class that is predicted there; **white is unknown**. Build it
    with :meth:`from_estimator`.

    Parameters
    ----------
    x0, x1 : ndarray of shape (n0,), (n1,)
        Coordinates of the grid.
    regions : ndarray of shape (n1, n0), int
        Index of the class predicted at each point; K is unknown.
    classes : sequence of length K
        The known classes.
    points : ndarray of shape (n, 2), default=None
        Samples to draw.
    point_codes : ndarray of shape (n,), default=None
        Index of the class of each sample; K is unknown.
    certificates : ndarray of shape (K, n1, n0), default=None
        Distance of each point beyond the certificate of each class, negative inside it; NaN
        where a class has no certificate.
    labels : tuple of str, default=("feature 0", "feature 1")
        Names of the coordinates.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes, Figure
    image_ : matplotlib AxesImage
        The regions.
    outlines_, certificates_ : list of matplotlib ContourSet
        Borders of the regions in the figure, and of the certificates.
    points_ : list of matplotlib PathCollection
        Samples, one collection per class.
    legend_ : matplotlib Legend or None

    Examples
    --------
    >>> from openset import OpenSetSVC
    >>> from openset.datasets import make_boat
    >>> from openset.plots import DecisionRegionsDisplay
    >>> X, y = make_boat(random_state=0)
    >>> model = OpenSetSVC(gamma=1.0).fit(X, y)
    >>> display = DecisionRegionsDisplay.from_estimator(model, X, y, grid_resolution=50)
    >>> display.ax_.get_xlabel()
    'feature 0'
    """

    x0: np.ndarray
    x1: np.ndarray
    regions: np.ndarray
    classes: Sequence[Any] | np.ndarray
    points: np.ndarray | None = None
    point_codes: np.ndarray | None = None
    certificates: np.ndarray | None = None
    labels: tuple[str, str] = ("feature 0", "feature 1")

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        plane: str | ArrayLike | None = None,
        grid_resolution: int = 300,
        margin: float = 0.25,
        certificate: bool = False,
        legend: bool | None = None,
        point_size: float = 20,
        ax: Axes | None = None,
    ) -> DecisionRegionsDisplay:
        """Predict a grid of points and draw the answers.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
            Samples that set the range of the figure, usually the training set; d >= 2.
        y : array-like of shape (n,), default=None
            Labels of the samples. If given, the samples are drawn too; a label that is not a known
            class is drawn as unknown.
        plane : None, "pca", "means" or array-like of shape (3, d), default=None
            Plane to draw if there are more than two dimensions: along the first two principal
            directions of X (also None), through the means of the first three classes of y, or
            through three points. The regions are exact on the plane. The samples are projected
            onto it, so a sample off the plane may appear in a region that is not its own.
        grid_resolution : int, default=300
            Number of grid points in each direction.
        margin : float, default=0.25
            How far to show beyond the samples, as a fraction of their range.
        certificate : bool, default=False
            Draw for each class the outline of all circles of radius ``known_radius_`` around its
            positive support vectors: outside, the class rejects every sample. In more than two
            dimensions, the circles are balls cut by the plane; with a scaler, their pre-images.
        legend : bool, default=None
            Whether to draw a legend; None draws one for at most ten classes.
        point_size : float, default=20
            Area of the markers of the samples, in square points.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        DecisionRegionsDisplay
        """
        check_is_fitted(unwrap(estimator))
        classes = unwrap(estimator).classes_
        check_consistent_length(X, y)
        grid = plane_grid(plane, X, y, margin, grid_resolution)
        beyond = _beyond_certificate(estimator, grid.samples) if certificate else None
        display = cls(
            x0=grid.x0,
            x1=grid.x1,
            regions=decide(estimator.decision_function(grid.samples)).reshape(grid.shape),
            classes=classes,
            points=None if y is None else grid.points,
            point_codes=None if y is None else encode_labels(y, classes),
            certificates=None if beyond is None else beyond.reshape(-1, *grid.shape),
            labels=grid.labels,
        )
        return display.plot(ax=ax, legend=legend, point_size=point_size)

    def plot(
        self, ax: Axes | None = None, *, legend: bool | None = None, point_size: float = 20
    ) -> DecisionRegionsDisplay:
        """Draw.

        Parameters
        ----------
        ax, legend, point_size
            As for :meth:`from_estimator`.

        Returns
        -------
        DecisionRegionsDisplay
        """
        ax = self._start(ax)
        n_classes = len(self.classes)
        colors = _style.class_colors(n_classes)
        self.image_ = self._draw_regions(ax, colors)
        self.outlines_ = [
            ax.contour(self.x0, self.x1, self.regions == c, [0.5], colors=[colors[c]], linewidths=1)
            for c in np.unique(self.regions)
            if c < n_classes and np.any(self.regions != c)
        ]
        self.points_ = [] if self.points is None else self._draw_points(ax, colors, point_size)
        self.certificates_ = [] if self.certificates is None else self._draw_circles(ax, colors)
        first, second = map(_style.plain_text, self.labels)
        ax.set(xlabel=first, ylabel=second)
        ax.set(xlim=self.x0[[0, -1]], ylim=self.x1[[0, -1]])
        if legend is None:
            legend = n_classes <= _LEGEND_UP_TO
        self.legend_ = self._draw_legend(ax, colors) if legend else None
        return self

    def _draw_regions(self, ax, colors):
        tints = np.vstack([_style.tint(colors), np.ones(3)])
        # Half a step beyond the ends, so that each value is at the centre of its pixel.
        half = [np.array([-0.5, 0.5]) * (x[1] - x[0]) for x in (self.x0, self.x1)]
        return ax.imshow(
            self.regions,
            cmap=ListedColormap(tints),
            vmin=-0.5,
            vmax=len(colors) + 0.5,
            origin="lower",
            extent=(*(self.x0[[0, -1]] + half[0]), *(self.x1[[0, -1]] + half[1])),
            aspect=ax.get_aspect(),
            interpolation="nearest",
        )

    def _draw_points(self, ax, colors, size):
        drawn = []
        for c in np.unique(self.point_codes):
            rows = self.points[self.point_codes == c]
            if c < len(colors):
                style = {"color": [colors[c]], "marker": _style.class_marker(c)}
                style |= {"edgecolor": "white", "linewidth": 0.02 * size}
            else:
                style = {"color": _style.UNKNOWN_COLOR, "marker": "x", "linewidth": 1}
            drawn.append(ax.scatter(*rows.T, s=size, zorder=3, **style))
        return drawn

    def _draw_circles(self, ax, colors):
        style = {"linewidths": 1.2, "linestyles": "dashed"}
        return [
            ax.contour(self.x0, self.x1, beyond, [0.0], colors=[0.6 * color], **style)
            for color, beyond in zip(colors, self.certificates, strict=True)
            if np.nanmin(np.append(beyond, 0)) < 0 < np.nanmax(np.append(beyond, 0))
        ]

    def _draw_legend(self, ax, colors):
        codes = [] if self.points is None else np.unique(self.point_codes)
        points = dict(zip(codes, self.points_, strict=True))
        handles, names = [], []
        for c, label in enumerate([*self.classes, None]):
            unknown = c == len(colors)
            if not (unknown or c in points or np.any(self.regions == c)):
                continue
            face, edge = (
                ("white", _style.UNKNOWN_COLOR) if unknown else (_style.tint(colors[c]), colors[c])
            )
            region = Patch(facecolor=face, edgecolor=edge)
            handles.append((region, points[c]) if c in points else region)
            names.append("unknown" if unknown else _style.class_name(label))
        return ax.legend(handles, names, loc="upper right", fontsize="small")


def _beyond_certificate(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """Distance of each point beyond the certificate of each class, of shape (K, n)."""
    transform, model = split_fitted(estimator)
    if not hasattr(model, "known_radius_"):
        raise ValueError(
            f"certificate=True needs known_radius_, which {type(model).__name__} does not have. "
            "Use OpenSetSVC, or certificate=False."
        )
    margin = Certificate(model).margin(transform(X)).T
    return np.where(np.isfinite(margin), margin, np.nan)
