"""Which samples belong to a group, once a clustering has found its core."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax
from sklearn.covariance import ledoit_wolf
from sklearn.metrics.pairwise import euclidean_distances

# Directions that are looked at, if there are fewer groups: samples of the background that agree
# with a group in a few directions differ from it in others.
_DIRECTIONS = 12
# Steps of the EM algorithm, and the change of a probability that ends it before.
_STEPS, _CHANGE = 50, 1e-3
# Smallest variance, as a fraction of that of all samples: duplicate samples have none.
_FLOOR = 1e-9


def members_of_groups(points: np.ndarray, cores: list[np.ndarray]) -> list[np.ndarray]:
    """Return the samples that more likely than not belong to the group of each core.

    The points are projected on the directions in which the means of the cores and of the rest
    differ, in units of the spread within cores (Fisher's discriminant analysis), and on those of
    the largest variance next to them. There the samples are a mixture of one round normal
    distribution per group, none wider than the widest core, and a general one for the background;
    the EM algorithm starts from the cores.

    Parameters
    ----------
    points : ndarray of shape (n, d)
    cores : list of ndarray of int
        Rows of each core, disjoint.

    Returns
    -------
    list of ndarray of int
        Rows of each group.
    """
    if not cores:
        return []
    space = _discriminant_space(points, cores)
    floor = _FLOOR * space.var(axis=0).mean()
    widest = max(space[rows].var(axis=0).mean() for rows in cores)
    probability = np.zeros((len(points), len(cores) + 1))
    for k, rows in enumerate(cores):
        probability[rows, k] = 1
    probability[:, -1] = 1 - probability.sum(axis=1)
    for _ in range(_STEPS):
        before = probability
        probability = _expectation(space, before, floor, max(widest, floor))
        if np.abs(probability - before).max() < _CHANGE:
            break
    return [np.flatnonzero(column > 0.5) for column in probability[:, :-1].T]


def _discriminant_space(points, cores):
    """The points along directions that separate the cores from each other and from the rest."""
    rest = np.setdiff1d(np.arange(len(points)), np.concatenate(cores))
    parts = [*cores, rest] if len(rest) else cores
    within = np.concatenate([points[rows] - points[rows].mean(axis=0) for rows in cores])
    covariance, _ = ledoit_wolf(within, assume_centered=True)
    covariance.flat[:: len(covariance) + 1] += _FLOOR * points.var(axis=0).mean()
    white = np.linalg.solve(np.linalg.cholesky(covariance), (points - points.mean(axis=0)).T).T
    means = np.stack([white[rows].mean(axis=0) for rows in parts])
    first = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)[2][: len(cores)].T
    others = white - (white @ first) @ first.T
    axes = np.linalg.eigh(others.T @ others)[1][:, first.shape[1] :]  # ascending variance
    more = max(0, _DIRECTIONS - first.shape[1])
    return white @ np.column_stack([first, axes[:, ::-1][:, :more]])


def _expectation(points, probability, floor, widest):
    """One step of EM: fit the mixture to the probabilities and return those that it gives."""
    n_features = points.shape[1]
    weight = np.maximum(probability.sum(axis=0), np.finfo(float).tiny)
    means = (probability.T @ points) / weight[:, None]
    squared = euclidean_distances(points, means[:-1], squared=True)
    variance = (probability[:, :-1] * squared).sum(axis=0) / weight[:-1] / n_features
    variance = np.clip(variance, floor, widest)
    groups = -0.5 * squared / variance - 0.5 * n_features * np.log(variance)
    apart = points - means[-1]
    spread, axes = np.linalg.eigh((apart * probability[:, -1:]).T @ apart / weight[-1])
    spread = np.maximum(spread, floor)
    rest = -0.5 * ((apart @ axes) ** 2 / spread).sum(axis=1) - 0.5 * np.log(spread).sum()
    return softmax(np.column_stack([groups, rest]) + np.log(weight), axis=1)
