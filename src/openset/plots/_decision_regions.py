"""Decision regions and the decision function of a class, on a plane through the feature space."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from ..base import Certificate
from ..metrics import encode_labels
from ..utils import decide, split_fitted, unwrap
from ._display import (
    BASE_COLORS,
    UNKNOWN_COLOR,
    Display,
    axes_for,
    class_colors,
    class_marker,
    class_name,
    plain_text,
    tint,
)

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

        Returns
        -------
        DecisionRegionsDisplay
        """
        check_is_fitted(unwrap(estimator))
        classes = unwrap(estimator).classes_
        check_consistent_length(X, y)
        grid, samples, points = plane_grid(plane, X, y, margin, grid_resolution)
        shape = -1, grid_resolution, grid_resolution
        if y is not None:
            grid |= {"points": points, "point_codes": encode_labels(y, classes)}
        if certificate:
            grid["certificates"] = _beyond_certificate(estimator, samples).reshape(shape)
        regions = decide(estimator.decision_function(samples)).reshape(shape[1:])
        display = cls(regions=regions, classes=classes, **grid)
        return display.plot(ax=ax, legend=legend, point_size=point_size)

    def _draw(self, ax, legend=None, point_size=20):
        n_classes = len(self.classes)
        colors = class_colors(n_classes)
        # Half a step beyond the ends, so that each value is at the centre of its pixel.
        axes = (self.x0[[0, 1, -1]], self.x1[[0, 1, -1]])
        extent = [edge for x, y, z in axes for edge in (x - (y - x) / 2, z + (y - x) / 2)]
        cmap = ListedColormap(np.vstack([tint(colors), np.ones(3)]))
        limits = {"vmin": -0.5, "vmax": n_classes + 0.5, "extent": extent}
        style = {"origin": "lower", "aspect": ax.get_aspect(), "interpolation": "nearest"}
        self.image_ = ax.imshow(self.regions, cmap=cmap, **limits, **style)
        self.outlines_ = [
            ax.contour(self.x0, self.x1, self.regions == c, [0.5], colors=[colors[c]], linewidths=1)
            for c in np.unique(self.regions)
            if c < n_classes and np.any(self.regions != c)
        ]
        points = {} if self.points is None else self._draw_points(ax, colors, point_size)
        self.points_ = [*points.values()]
        dashed = {"linewidths": 1.2, "linestyles": "dashed"}
        self.certificates_ = [
            ax.contour(self.x0, self.x1, beyond, [0.0], colors=[0.6 * colors[c]], **dashed)
            for c, beyond in enumerate(() if self.certificates is None else self.certificates)
            if np.nanmin(np.append(beyond, 0)) < 0 < np.nanmax(np.append(beyond, 0))
        ]
        _name_axes(ax, self)
        self.legend_ = None
        if n_classes <= _LEGEND_UP_TO if legend is None else legend:
            self.legend_ = self._draw_legend(ax, colors, points)

    def _draw_points(self, ax, colors, size):
        drawn = {}
        for c in np.unique(self.point_codes):
            rows = self.points[self.point_codes == c]
            if c < len(colors):
                style = {"color": [colors[c]], "marker": class_marker(c)}
                style |= {"edgecolor": "white", "linewidth": 0.02 * size}
            else:
                style = {"color": UNKNOWN_COLOR, "marker": "x", "linewidth": 1}
            drawn[c] = ax.scatter(*rows.T, s=size, zorder=3, **style)
        return drawn

    def _draw_legend(self, ax, colors, points):
        handles, names = [], []
        for c, label in enumerate([*self.classes, None]):
            unknown = c == len(colors)
            if not (unknown or c in points or np.any(self.regions == c)):
                continue
            face, edge = ("white", UNKNOWN_COLOR) if unknown else (tint(colors[c]), colors[c])
            region = Patch(facecolor=face, edgecolor=edge)
            handles.append((region, points[c]) if c in points else region)
            names.append("unknown" if unknown else class_name(label))
        return ax.legend(handles, names, loc="upper right", fontsize="small")


def _name_axes(ax, display):
    first, second = map(plain_text, display.labels)
    ax.set(xlabel=first, ylabel=second, xlim=display.x0[[0, -1]], ylim=display.x1[[0, -1]])


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


@dataclass(kw_only=True, eq=False, repr=False)
class DecisionSurfaceDisplay(Display):
    """Decision function of one class as a surface in three dimensions.

    The surface has the colour of the class where the class accepts, f >= 0, and is grey elsewhere.
    Coloured lines mark the level 0 on the walls, and where the surface crosses it on the floor.
    The title gives the bias b, the limit of f far from all support vectors. Build it with
    :meth:`from_estimator`.

    Parameters
    ----------
    x0, x1
        As for :class:`DecisionRegionsDisplay`, as are the labels.
    values : ndarray of shape (n1, n0)
        Decision function of the class.
    title : str, default=""
        Name of the class and whether its region is bounded.
    color : color, default=colour of the first class
    labels : tuple of str, default=("feature 0", "feature 1")

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
    color: Any = BASE_COLORS[0]
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
        plane, grid_resolution, margin
            As for :meth:`DecisionRegionsDisplay.from_estimator`, without the plane "means".
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
        grid, samples, _ = plane_grid(plane, X, None, margin, grid_resolution)
        values = estimator.decision_function(samples)[:, c].reshape(2 * [grid_resolution])
        color = class_colors(len(classes))[c]
        return cls(values=values, title=_title(model, c), color=color, **grid).plot(ax=ax)

    @staticmethod
    def _axes(ax):
        if ax is not None and ax.name != "3d":
            raise ValueError("ax must have three dimensions: make it with projection='3d'.")
        return axes_for(ax, subplot_kw={"projection": "3d"})

    def _draw(self, ax):
        u, v = np.meshgrid(self.x0, self.x1)
        share = self._accepted_share()[..., np.newaxis]
        faces = (1 - share) * tint([0.7] * 3) + share * tint(self.color, 0.75)
        self.surface_ = ax.plot_surface(
            u, v, self.values, rcount=len(self.x1), ccount=len(self.x0), facecolors=faces
        )
        # Leave room below the surface to see the floor, and always show the level 0.
        low, high = min(self.values.min(), 0.0), max(self.values.max(), 0.0)
        floor = low - 0.5 * (high - low)
        self.border_ = None
        if self.values.min() < 0 < self.values.max():
            line = {"colors": [self.color], "linewidths": 1.5}
            self.border_ = ax.contour(u, v, self.values, [0.0], zdir="z", offset=floor, **line)
        # The two walls that the viewer sees from inside.
        azimuth = np.deg2rad(ax.azim)
        wall0 = self.x0[0 if np.cos(azimuth) > 0 else -1]
        wall1 = self.x1[0 if np.sin(azimuth) > 0 else -1]
        ends = ([wall0, wall0], self.x1[[0, -1]]), (self.x0[[0, -1]], [wall1, wall1])
        style = {"color": self.color, "linewidth": 2, "zorder": 0}
        self.walls_ = [line for x, y in ends for line in ax.plot(x, y, [0, 0], **style)]
        _name_axes(ax, self)
        ax.set(zlim=(floor, high), title=self.title, zlabel="decision function $f$")
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


def _title(model, c):
    """The class, its bias where the method has one, and whether its region is bounded."""
    name = class_name(model.classes_[c])
    facts = ["bounded"] if model.bounded_[c] else []
    if hasattr(model, "intercept_"):
        # Without a bias, False may only mean that boundedness is not proved.
        facts = [f"$b = {model.intercept_[c]:+.3f}$", *(facts or ["unbounded"])]
    return ": ".join(filter(None, [name[:1].upper() + name[1:], ", ".join(facts)]))


def plane_grid(
    plane: str | ArrayLike | None, X: Any, y: Any, margin: float, resolution: int
) -> tuple[dict[str, Any], Any, np.ndarray]:
    """Lay a grid over the samples X on a plane, widened by `margin` times their range."""
    # Returns the coordinates of the grid and their names, as the displays take them; its points in
    # the feature space, (n1 * n0, d), row by row of x1 and a table if X is one; the samples
    # projected onto the plane, (n, 2).
    if not isinstance(resolution, Integral) or resolution < 2:
        raise ValueError(f"grid_resolution={resolution!r} must be an integer of at least 2.")
    if not isinstance(margin, Real) or not 0 <= margin < np.inf:
        raise ValueError(f"margin={margin!r} must be a number >= 0.")
    values = check_array(X, dtype=np.float64)
    columns = getattr(X, "columns", None)
    y = None if y is None else np.asarray(y)
    origin, directions, labels = _find_plane(plane, values, y, columns)
    points = (values - origin) @ directions.T
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.where(high > low, high - low, 1.0)
    x0, x1 = np.linspace(low - margin * size, high + margin * size, resolution).T
    samples = origin + np.stack(np.meshgrid(x0, x1), axis=-1).reshape(-1, 2) @ directions
    if columns is not None:
        samples = type(X)(samples, columns=columns)
    return {"x0": x0, "x1": x1, "labels": labels}, samples, points


def _find_plane(plane, X, y, names):
    """Origin, (d,), directions, (2, d), orthonormal, and names of the coordinates of a plane."""
    # None is the feature space itself for d = 2, and "pca" otherwise; only "means" needs y.
    d = X.shape[1]
    if d < 2:
        raise ValueError(f"X has {d} feature; decision regions need at least 2.")
    if plane is None and d == 2:
        labels = ("feature 0", "feature 1") if names is None else tuple(map(str, names))
        return np.zeros(2), np.eye(2), labels
    if plane is None or (isinstance(plane, str) and plane == "pca"):
        pca = PCA(n_components=2).fit(X)
        shares = enumerate(100 * pca.explained_variance_ratio_, start=1)
        labels = tuple(f"principal direction {k} ({share:.0f} %)" for k, share in shares)
        return pca.mean_, pca.components_, labels
    if isinstance(plane, str):
        if plane != "means":
            raise ValueError(f"plane={plane!r} must be None, 'pca', 'means' or an array (3, d).")
        if y is None:
            raise ValueError("plane='means' passes through the means of three classes; pass y.")
        classes = np.unique(y)[:3]
        if len(classes) < 3:
            raise ValueError(f"plane='means' needs three classes in y, which has {len(classes)}.")
        plane = [X[y == c].mean(axis=0) for c in classes]
    points = np.asarray(plane, dtype=np.float64)
    if points.shape != (3, d):
        raise ValueError(f"plane has shape {points.shape}; pass three points, of shape (3, {d}).")
    directions, triangle = np.linalg.qr((points[1:] - points[0]).T)
    size = np.abs(np.diag(triangle))
    if size[1] <= 1e-10 * size[0] or size[0] == 0:
        raise ValueError("the three points of plane lie on one line; choose others.")
    # Orient the directions: the first towards the second point, the other towards the third.
    directions = (directions * np.sign(np.diag(triangle))).T
    return points[0], directions, ("coordinate 1 in the plane", "coordinate 2 in the plane")
