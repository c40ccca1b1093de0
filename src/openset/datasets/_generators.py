"""The 2-D sets of the paper's figures, drawn at random after their published descriptions.

Classes are numbered from 1 and come in that order, as in the files they stand for.
"""

from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state


def make_boat(n_samples: int = 100, *, random_state=None) -> tuple[np.ndarray, np.ndarray]:
    """Two square clusters side by side, classes 1 and 2, in an elliptic ring, class 3.

    Nothing surrounds the ring, so the plain SVM accepts an unbounded region for class 3.

    Parameters
    ----------
    n_samples : int, default=100
        A third of them in each class; the ring takes the rest.
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
    X = np.concatenate(
        [
            rng.uniform([-2.5, -0.9], [-0.6, 1.0], (left, 2)),
            rng.uniform([0.9, -0.9], [2.9, 1.0], (right, 2)),
            np.column_stack([5 * np.cos(angle), 2 * np.sin(angle)]) + rng.normal(0, 0.1, (ring, 2)),
        ]
    )
    return X, y


def make_cone_torus(n_samples: int = 400, *, random_state=None) -> tuple[np.ndarray, np.ndarray]:
    """A cone (class 1) under half a torus (class 2), and a normal cluster over both (class 3).

    Parameters
    ----------
    n_samples : int, default=400
        A quarter of them in each of the classes 1 and 2; class 3 takes the rest.
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
    >>> from openset.datasets import make_cone_torus
    >>> X, y = make_cone_torus(random_state=0)
    >>> np.bincount(y)
    array([  0, 100, 100, 200])
    """
    rng = check_random_state(random_state)
    y = _labels(n_samples, [1, 1, 2])
    cone, torus, normal = np.bincount(y)[1:]
    # A density that falls linearly from the centre has a radius of law Beta(2, 2).
    disc = _polar(rng.uniform(0, 2 * np.pi, cone), 0.17 * rng.beta(2, 2, cone))
    arch = _polar(rng.uniform(0, np.pi, torus), rng.uniform(0.27, 0.36, torus))
    X = np.concatenate(
        [
            disc + np.array([0.37, 0.21]),
            arch + np.array([0.45, 0.2]),
            rng.normal([0.64, 0.53], [0.17, 0.19], (normal, 2)),
        ]
    )
    return X, y


def make_four_gauss(n_samples: int = 100, *, random_state=None) -> tuple[np.ndarray, np.ndarray]:
    """Four round normal clusters, one of them small and between the other three.

    Parameters
    ----------
    n_samples : int, default=100
        A quarter of them in each class; the last takes the rest.
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


def make_regular() -> tuple[np.ndarray, np.ndarray]:
    """Sixteen classes in a 4 x 4 arrangement, each a 3 x 3 grid of points; there is no chance.

    Returns
    -------
    X : ndarray of shape (144, 2)
    y : ndarray of shape (144,)

    References
    ----------
    L. I. Kuncheva, "Combining Pattern Classifiers", Wiley, 2004.

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
    """Classes 1, 2, ... in proportion to the shares, rounded down; the last takes the rest."""
    if not isinstance(n_samples, Integral) or n_samples < 2 * sum(shares):
        raise ValueError(
            f"n_samples={n_samples!r} must be an integer of at least {2 * sum(shares)}."
        )
    counts = [n_samples * share // sum(shares) for share in shares]
    counts[-1] += n_samples - sum(counts)
    return np.repeat(np.arange(1, len(shares) + 1), counts)


def _polar(angle, radius):
    return radius[:, np.newaxis] * np.column_stack([np.cos(angle), np.sin(angle)])
