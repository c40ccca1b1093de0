"""A plane through a feature space of any dimension, and a grid on it."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_array


@dataclass(frozen=True)
class Plane:
    """Points ``origin + u @ directions`` of the feature space."""

    origin: np.ndarray  # (d,)
    directions: np.ndarray  # (2, d), orthonormal
    labels: tuple[str, str]  # names of the two coordinates

    def embed(self, u: np.ndarray) -> np.ndarray:
        """Points of the feature space, (n, d), from coordinates, (n, 2)."""
        return self.origin + u @ self.directions

    def project(self, X: np.ndarray) -> np.ndarray:
        """Coordinates, (n, 2), of the points of the plane nearest to X, (n, d)."""
        return (X - self.origin) @ self.directions.T


def find_plane(plane: str | ArrayLike | None, X: np.ndarray, y: Any, names: Any) -> Plane:
    """Resolve the argument `plane` of a display, for samples X, (n, d), and features `names`.

    None is the feature space itself for d = 2, and "pca" otherwise; only "means" needs y.
    """
    d = X.shape[1]
    if d < 2:
        raise ValueError(f"X has {d} feature; decision regions need at least 2.")
    if plane is None and d == 2:
        first, second = ("feature 0", "feature 1") if names is None else map(str, names)
        return Plane(np.zeros(2), np.eye(2), (first, second))
    if plane is None or (isinstance(plane, str) and plane == "pca"):
        pca = PCA(n_components=2).fit(X)
        share = 100 * pca.explained_variance_ratio_
        first, second = (f"principal direction {k + 1} ({share[k]:.0f} %)" for k in range(2))
        return Plane(pca.mean_, pca.components_, (first, second))
    if isinstance(plane, str):
        if plane != "means":
            raise ValueError(f"plane={plane!r} must be None, 'pca', 'means' or an array (3, d).")
        plane = _three_means(X, y)
    return _through(np.asarray(plane, dtype=np.float64), d)


def _three_means(X, y):
    """Means of the first three classes."""
    if y is None:
        raise ValueError("plane='means' passes through the means of three classes; pass y.")
    classes = np.unique(y)[:3]
    if len(classes) < 3:
        raise ValueError(f"plane='means' needs three classes in y, which has {len(classes)}.")
    return np.stack([X[y == c].mean(axis=0) for c in classes])


def _through(points, d):
    """The plane through three points."""
    if points.shape != (3, d):
        raise ValueError(f"plane has shape {points.shape}; pass three points, of shape (3, {d}).")
    first = points[1] - points[0]
    directions, triangle = np.linalg.qr(np.stack([first, points[2] - points[0]]).T)
    size = np.abs(np.diag(triangle))
    if size[1] <= 1e-10 * size[0] or size[0] == 0:
        raise ValueError("the three points of plane lie on one line; choose others.")
    # Orient the directions: the first towards the second point, the other towards the third.
    directions = directions * np.sign(np.diag(triangle))
    labels = ("coordinate 1 in the plane", "coordinate 2 in the plane")
    return Plane(points[0], directions.T, labels)


class PlaneGrid(NamedTuple):
    """A grid of points on a plane through the feature space."""

    x0: np.ndarray  # (n0,), first coordinates of the grid on the plane
    x1: np.ndarray  # (n1,), second coordinates
    samples: Any  # (n1 * n0, d), the points of the grid, row by row of x1; a table if X is one
    points: np.ndarray  # (n, 2), the samples X, projected onto the plane
    labels: tuple[str, str]  # names of the two coordinates

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n1, n0) of an image on the grid."""
        return len(self.x1), len(self.x0)


def plane_grid(
    plane: str | ArrayLike | None, X: Any, y: Any, margin: float, resolution: int
) -> PlaneGrid:
    """Lay a grid over the samples X, widened by `margin` times their range."""
    if not isinstance(resolution, Integral) or resolution < 2:
        raise ValueError(f"grid_resolution={resolution!r} must be an integer of at least 2.")
    if not isinstance(margin, Real) or not 0 <= margin < np.inf:
        raise ValueError(f"margin={margin!r} must be a number >= 0.")
    values = check_array(X, dtype=np.float64)
    columns = getattr(X, "columns", None)
    chosen = find_plane(plane, values, None if y is None else np.asarray(y), columns)
    points = chosen.project(values)
    low, high = points.min(axis=0), points.max(axis=0)
    size = np.where(high > low, high - low, 1.0)
    x0, x1 = np.linspace(low - margin * size, high + margin * size, resolution).T
    samples = chosen.embed(np.stack(np.meshgrid(x0, x1), axis=-1).reshape(-1, 2))
    if columns is not None:
        samples = type(X)(samples, columns=columns)
    return PlaneGrid(x0, x1, samples, points, chosen.labels)
