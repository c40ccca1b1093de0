"""Decision regions: which class a sample at each place would get, white for unknown."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from sklearn.metrics import pairwise_distances_argmin_min
from sklearn.utils.validation import check_array, check_consistent_length

from openset.metrics import encode_labels
from openset.plots import _style
from openset.plots._plane import find_plane, grid_of, like, mesh
from openset.utils import split_fitted, unwrap

_LEGEND_UP_TO = 10  # more classes than these are told apart by place, not by a legend


class DecisionRegionsDisplay:
    """Decision regions of an open-set classifier on a plane.

    A place is coloured like the samples of the class that a sample there would be given; **white
    is unknown**. Build it with :meth:`from_estimator`.

    Parameters
    ----------
    x0, x1 : ndarray of shape (n0,), (n1,)
        Coordinates of the grid.
    regions : ndarray of shape (n1, n0), int
        Index of the class at each place; K is unknown.
    classes : sequence of length K
        The known classes.
    points : ndarray of shape (n, 2), default=None
        Samples to draw.
    point_codes : ndarray of shape (n,), default=None
        Index of their classes; K is unknown.
    certificates : ndarray of shape (K, n1, n0), default=None
        Distance beyond the certificate of each class, negative inside it; NaN without one.
    labels : tuple of str, default=("feature 0", "feature 1")
        Names of the coordinates.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
        The regions.
    outlines_ : list of matplotlib ContourSet
        Border of each region that is there.
    points_ : list of matplotlib PathCollection
        Samples, a collection for each class.
    certificates_ : list of matplotlib ContourSet
        Borders of the certificates.
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

    def __init__(
        self,
        *,
        x0,
        x1,
        regions,
        classes,
        points=None,
        point_codes=None,
        certificates=None,
        labels=("feature 0", "feature 1"),
    ):
        self.x0 = x0
        self.x1 = x1
        self.regions = regions
        self.classes = classes
        self.points = points
        self.point_codes = point_codes
        self.certificates = certificates
        self.labels = labels

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        plane=None,
        grid_resolution: int = 300,
        margin: float = 0.25,
        certificate: bool = False,
        legend: bool | None = None,
        point_size: float = 20,
        ax=None,
    ) -> DecisionRegionsDisplay:
        """Predict a grid of points and draw the answers.

        Parameters
        ----------
        estimator : estimator
            A fitted open-set estimator, or a Pipeline or a search of one.
        X : array-like of shape (n, d)
            Samples that set the range of the figure, usually the training set; d >= 2.
        y : array-like of shape (n,), default=None
            Their labels. With them the samples are drawn; a label that is no known class is
            drawn as unknown.
        plane : None, "pca", "means" or array-like of shape (3, d), default=None
            Where to cut through more than two dimensions: along the first two principal
            directions of X (None as well), through the means of the first three classes of y, or
            through three points. The regions are exact on the plane; the samples are projected
            onto it, so one that lies off the plane may be shown in a region that is not its own.
        grid_resolution : int, default=300
            Points of the grid in each direction.
        margin : float, default=0.25
            How far to show beyond the samples, as a fraction of their range.
        certificate : bool, default=False
            Draw for each class the outline of all circles of radius ``known_radius_`` around its
            positive support vectors: outside, the class rejects every sample. On a plane through
            more dimensions they are balls, cut by the plane; behind a scaler, their pre-images.
        legend : bool, default=None
            Whether to draw a legend of what is in the figure; None draws one for at most ten
            classes.
        point_size : float, default=20
            Area of the markers of the samples, in square points.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        DecisionRegionsDisplay
        """
        model = unwrap(estimator)
        values = check_array(X, dtype=np.float64)
        codes = None
        if y is not None:
            check_consistent_length(values, y)
            codes = encode_labels(y, model.classes_)
        chosen = find_plane(
            plane, values, None if y is None else np.asarray(y), getattr(X, "columns", None)
        )
        points = chosen.project(values)
        x0, x1 = grid_of(points, margin, grid_resolution)
        grid = like(chosen.embed(mesh(x0, x1)), X)
        shape = (len(x1), len(x0))
        answers = estimator.predict(grid)
        regions = np.full(len(answers), len(model.classes_))
        for c, label in enumerate(model.classes_):
            regions[answers == label] = c
        display = cls(
            x0=x0,
            x1=x1,
            regions=regions.reshape(shape),
            classes=model.classes_,
            points=None if y is None else points,
            point_codes=codes,
            certificates=_beyond(estimator, grid).reshape(-1, *shape) if certificate else None,
            labels=chosen.labels,
        )
        return display.plot(ax=ax, legend=legend, point_size=point_size)

    def plot(
        self, ax=None, *, legend: bool | None = None, point_size: float = 20
    ) -> DecisionRegionsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        legend : bool, default=None
            Whether to draw a legend of what is in the figure; None draws one for at most ten
            classes.
        point_size : float, default=20
            Area of the markers of the samples, in square points.

        Returns
        -------
        DecisionRegionsDisplay
        """
        self.ax_ = ax = _style.axes(ax)
        self.figure_ = ax.figure
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
        ax.set(
            xlabel=self.labels[0],
            ylabel=self.labels[1],
            xlim=self.x0[[0, -1]],
            ylim=self.x1[[0, -1]],
        )
        if legend is None:
            legend = n_classes <= _LEGEND_UP_TO
        self.legend_ = self._draw_legend(ax, colors) if legend else None
        return self

    def _draw_regions(self, ax, colors):
        tints = np.vstack([_style.tint(colors), np.ones(3)])
        half = np.array([self.x0[1] - self.x0[0], self.x1[1] - self.x1[0]]) / 2
        return ax.imshow(
            self.regions,
            cmap=ListedColormap(tints),
            vmin=-0.5,
            vmax=len(colors) + 0.5,
            origin="lower",
            extent=(  # the values belong to the centres of the pixels
                self.x0[0] - half[0],
                self.x0[-1] + half[0],
                self.x1[0] - half[1],
                self.x1[-1] + half[1],
            ),
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
        return [
            ax.contour(
                self.x0,
                self.x1,
                beyond,
                [0.0],
                colors=[0.6 * color],
                linewidths=1.2,
                linestyles="dashed",
            )
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


def _beyond(estimator, X):
    """(K, n): distance of each point beyond the certificate of each class; NaN without one."""
    transform, model = split_fitted(estimator)
    if not hasattr(model, "known_radius_"):
        raise ValueError(
            f"certificate=True needs known_radius_, which {type(model).__name__} does not have. "
            "Use OpenSetSVC, or certificate=False."
        )
    X = np.asarray(transform(X))
    beyond = np.full((len(model.classes_), len(X)), np.nan)
    for c in np.flatnonzero(np.isfinite(model.known_radius_)):
        positive = model.support_vectors_[model.dual_coef_[c] > 0]
        if positive.shape[0]:
            beyond[c] = pairwise_distances_argmin_min(X, positive)[1] - model.known_radius_[c]
    return beyond
