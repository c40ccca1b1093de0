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
    """Points ``origin + u @ directions`` of the feature space.

    Attributes
    ----------
    origin : ndarray of shape (d,)
    directions : ndarray of shape (2, d)
        Orthonormal.
    labels : tuple of str
        Names of the two coordinates.
    """

    origin: np.ndarray
    directions: np.ndarray
    labels: tuple[str, str]

    def embed(self, u: np.ndarray) -> np.ndarray:
        """Points of the feature space, (n, d), from coordinates, (n, 2)."""
        return self.origin + u @ self.directions

    def project(self, X: np.ndarray) -> np.ndarray:
        """Coordinates, (n, 2), of the points of the plane nearest to X, (n, d)."""
        return (X - self.origin) @ self.directions.T


def find_plane(plane: str | ArrayLike | None, X: np.ndarray, y: Any, names: Any) -> Plane:
    """Resolve the argument `plane` of a display.

    Parameters
    ----------
    plane : None, "pca", "means" or array-like of shape (3, d)
        None is the feature space itself for d = 2, and "pca" otherwise.
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,) or None
        For "means".
    names : sequence of str or None
        Names of the features.
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
    return Plane(
        points[0], directions.T, ("coordinate 1 in the plane", "coordinate 2 in the plane")
    )


class PlaneGrid(NamedTuple):
    """A grid of points on a plane through the feature space.

    Attributes
    ----------
    x0, x1 : ndarray of shape (n0,), (n1,)
        Coordinates of the grid on the plane.
    samples : array-like of shape (n1 * n0, d)
        The points of the grid, row by row of `x1`; a table if X is one.
    points : ndarray of shape (n, 2)
        The samples X, projected onto the plane.
    labels : tuple of str
        Names of the two coordinates.
    """

    x0: np.ndarray
    x1: np.ndarray
    samples: Any
    points: np.ndarray
    labels: tuple[str, str]

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
