"""Generators of the 2-D sets of the paper's figures, after Kuncheva's published descriptions.

Classes are numbered from 1, and the rows are sorted by class, as in the original files.
"""

from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

Random = int | np.random.RandomState | None
Labelled = tuple[np.ndarray, np.ndarray]


def make_boat(n_samples: int = 100, *, random_state: Random = None) -> Labelled:
    """Two square clusters (classes 1 and 2) side by side, inside an elliptic ring (class 3).

    No other class surrounds the ring, so a plain SVM accepts an unbounded region for class 3.

    Parameters
    ----------
    n_samples : int, default=100
        One third per class; the ring gets the remainder.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same points in every call.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    References
    ----------
    L. I. Kuncheva, "Combining Pattern Classifiers", Wiley, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.datasets import make_boat
    >>> X, y = make_boat(random_state=0)
    >>> np.bincount(y)
    array([ 0, 33, 33, 34])
    """
    rng = check_random_state(random_state)
    y = _labels(n_samples, [1, 1, 1])
    left, right, ring = np.bincount(y)[1:]
    angle = rng.uniform(0, 2 * np.pi, ring)
    left_square = rng.uniform([-2.5, -0.9], [-0.6, 1.0], (left, 2))
    right_square = rng.uniform([0.9, -0.9], [2.9, 1.0], (right, 2))
    ellipse = np.column_stack([5 * np.cos(angle), 2 * np.sin(angle)])
    return np.concatenate([left_square, right_square, ellipse + rng.normal(0, 0.1, (ring, 2))]), y


def make_cone_torus(n_samples: int = 400, *, random_state: Random = None) -> Labelled:
    """A cone (class 1) under half a torus (class 2), and a normal cluster over both (class 3).

    It is from the same book as :func:`make_boat`.

    Parameters
    ----------
    n_samples : int, default=400
        One quarter in each of the classes 1 and 2; class 3 gets the rest.
    random_state
        As for :func:`make_boat`.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.datasets import make_cone_torus
    >>> X, y = make_cone_torus(random_state=0)
    >>> np.bincount(y)
    array([  0, 100, 100, 200])
    """
    rng = check_random_state(random_state)
    y = _labels(n_samples, [1, 1, 2])
    cone, torus, normal = np.bincount(y)[1:]
    # If the density falls linearly from the centre, the radius has a Beta(2, 2) distribution.
    disc = _polar(rng.uniform(0, 2 * np.pi, cone), 0.17 * rng.beta(2, 2, cone))
    arch = _polar(rng.uniform(0, np.pi, torus), rng.uniform(0.27, 0.36, torus))
    cluster = rng.normal([0.64, 0.53], [0.17, 0.19], (normal, 2))
    return np.concatenate([disc + np.array([0.37, 0.21]), arch + np.array([0.45, 0.2]), cluster]), y


def make_four_gauss(n_samples: int = 100, *, random_state: Random = None) -> Labelled:
    """Four round normal clusters, one of them small and between the other three.

    They are from the same book as :func:`make_boat`.

    Parameters
    ----------
    n_samples : int, default=100
        One quarter per class; the last class gets the remainder.
    random_state
        As for :func:`make_boat`.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from openset.datasets import make_four_gauss
    >>> X, y = make_four_gauss(random_state=0)
    >>> np.bincount(y)
    array([ 0, 25, 25, 25, 25])
    """
    rng = check_random_state(random_state)
    y = _labels(n_samples, [1, 1, 1, 1])
    centres = np.array([[0.0, 0.0], [4.0, 4.0], [-2.0, 5.0], [4.0, -4.0]])
    deviations = np.array([0.3, 1.0, 1.0, 1.0])
    X = centres[y - 1] + deviations[y - 1, np.newaxis] * rng.normal(size=(len(y), 2))
    return X, y


def make_regular() -> Labelled:
    """Sixteen classes in a 4 x 4 arrangement, each a 3 x 3 grid of points; not random.

    They are from the same book as :func:`make_boat`.

    Returns
    -------
    X : ndarray of shape (144, 2)
    y : ndarray of shape (144,)

    Examples
    --------
    >>> from openset.datasets import make_regular
    >>> X, y = make_regular()
    >>> X[y == 16].mean(axis=0)
    array([21., 21.])
    """
    block, step = np.meshgrid(np.arange(4), np.arange(3), indexing="ij")
    coordinate = (2 + 6 * block + step).ravel()
    x0, x1 = np.meshgrid(coordinate, coordinate, indexing="ij")
    y = 1 + 4 * ((x0 - 2) // 6) + (x1 - 2) // 6
    order = np.argsort(y, axis=None, kind="stable")
    X = np.column_stack([x0.ravel(), x1.ravel()]).astype(np.float64)
    return X[order], y.ravel()[order]


def _labels(n_samples, shares):
    """Classes 1, 2, ... in proportion to the shares, rounded down; the last gets the rest."""
    if not isinstance(n_samples, Integral) or n_samples < 2 * sum(shares):
        raise ValueError(
            f"n_samples={n_samples!r} must be an integer of at least {2 * sum(shares)}."
        )
    counts = [n_samples * share // sum(shares) for share in shares]
    counts[-1] += n_samples - sum(counts)
    return np.repeat(np.arange(1, len(shares) + 1), counts)


def _polar(angle, radius):
    return radius[:, np.newaxis] * np.column_stack([np.cos(angle), np.sin(angle)])
