"""Groups of similar unknown samples, each proposed as a new class."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator
from sklearn.cluster import HDBSCAN
from sklearn.covariance import ledoit_wolf
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import check_array, check_is_fitted

from ..solver.points import METRICS, DistancesTo, directions, row_blocks
from ..utils import decide, layers, unwrap
from ..wrappers import OpenSetWrapper

# Labels of samples that are in no group.
_NOISE, _ACCEPTED = -1, -2
# Principal components that are clustered: in hundreds of dimensions all distances are similar.
_COMPONENTS = 12
# Principal components in which members are separated from others, once there are groups.
_DETAILS = 50
# A cluster whose members are farther apart than this fraction of the mean distance between all
# rejected samples is background, not a group; there may be groups inside it.
_BACKGROUND = 0.9
# Neighbours that define a density: the fewest, and the share of the smallest group.
_NEIGHBORS, _NEIGHBOR_SHARE = 5, 0.4


@dataclass(frozen=True)
class Group:
    """Similar unknown samples, proposed as a new class.

    Attributes
    ----------
    label : int, float or str
        Suggested name of the class, of the type of the known classes and not one of them.
    members : ndarray of shape (n_members,)
        Rows of X, most typical first.
    distance : ndarray of shape (n_members,)
        Mean distance of each member to the others, ascending.
    nearest_class : label
        The known class that scores highest for most members.
    """

    label: Hashable
    members: np.ndarray
    distance: np.ndarray
    nearest_class: Hashable

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True)
class UnknownGroups:
    """The result of :func:`group_unknowns`.

    Attributes
    ----------
    groups : list of Group
        Largest first.
    labels : ndarray of shape (n,), int
        Index of the group of each row of X; -1 for an unknown sample in no group, -2 for a sample
        that the model accepted.
    """

    groups: list[Group]
    labels: np.ndarray

    @property
    def unknown(self) -> np.ndarray:
        """Rows of X that were rejected."""
        return np.flatnonzero(self.labels != _ACCEPTED)

    def __len__(self) -> int:
        return len(self.groups)

    def __str__(self) -> str:
        n_alone = int(np.sum(self.labels == _NOISE))
        text = f"{len(self.unknown)} of {len(self.labels)} samples are unknown, {n_alone} of them "
        text += f"in none of {len(self)} groups"
        for group in self.groups:
            text += f"\n{group.label!r}: {len(group)} samples, near {group.nearest_class!r}, "
            text += f"typical rows {group.members[:3].tolist()}"
        return text


def group_unknowns(
    estimator: BaseEstimator,
    X: ArrayLike,
    *,
    min_size: int | str = "auto",
    allow_single: bool = False,
) -> UnknownGroups:
    """Find groups among the samples that a model rejects, and propose them as classes.

    The rejected samples are clustered by HDBSCAN [1]_ in the space in which the model measures
    distances: after the transformers of a Pipeline, and with the metric of the estimator if it
    has one. Of more than 12 features the first 12 principal components of the rejected samples are
    clustered; in hundreds of dimensions density says little. A cluster that is about as loose as
    all rejected samples together is no group: its members are clustered again. The other clusters
    are the cores of the groups. The members of a group are the samples that more likely than not
    belong to it, in a mixture of normal distributions: one per group, and one for all other
    rejected samples.

    Parameters
    ----------
    estimator : estimator
        A fitted open-set estimator, or a Pipeline, search or wrapper around one.
    X : array-like or CSR matrix of shape (n, d)
        Samples, known and unknown.
    min_size : int or "auto", default="auto"
        Smallest size of a group. Larger values give fewer groups. "auto" is half of the square root
        of the number of rejected samples, at least 5: the more samples, the larger are the groups
        that chance forms.
    allow_single : bool, default=False
        Whether all rejected samples may form a single group. HDBSCAN looks for groups that stand
        out from the rest; with this option, groups that are not far apart are joined.

    Returns
    -------
    UnknownGroups
        Without groups if fewer than `min_size` samples are rejected, or if none stands out.

    See Also
    --------
    openset.OpenSetSVC.add_classes : Add the classes that a person has approved.

    References
    ----------
    .. [1] R. J. G. B. Campello, D. Moulavi, J. Sander, "Density-Based Clustering Based on
       Hierarchical Density Estimates", PAKDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.discovery import group_unknowns
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 0.3, (20, 2)) for center in (0, 3, 6, 9)])
    >>> y = np.repeat([1, 2, 3, 4], 20)
    >>> model = OpenSetSVC(gamma=1.0, C=8.0).fit(X[:40], y[:40])
    >>> found = group_unknowns(model, X[40:])
    >>> [(group.label, len(group)) for group in found.groups]
    [(3, 20), (4, 20)]
    >>> found.groups[0].members[:3]
    array([16, 15,  8])

    A person looks at the typical members and names the groups; then the model learns them:

    >>> model.add_classes(X, y).predict([[6, 6], [30, 30]])
    array([ 3, -1])
    """
    auto = isinstance(min_size, str) and min_size == "auto"
    if not auto and not (isinstance(min_size, Integral) and min_size >= 2):
        raise ValueError(f"min_size={min_size!r} must be 'auto' or an integer, at least 2.")
    model = unwrap(estimator)
    check_is_fitted(model)
    (X,) = indexable(X)
    scores = estimator.decision_function(X)
    unknown = np.flatnonzero(decide(scores) == len(model.classes_))
    labels = np.full(len(scores), _ACCEPTED)
    labels[unknown] = _NOISE
    smallest = max(5, round(len(unknown) ** 0.5 / 2)) if auto else int(min_size)
    if len(unknown) < smallest:
        return UnknownGroups([], labels)
    points, metric = in_own_space(estimator, _safe_indexing(X, unknown))
    # With allow_single, however loose.
    limit = np.inf if allow_single else _BACKGROUND * mean_distance(points, metric)
    clusters = _tight_clusters(points, metric, limit, smallest, allow_single)
    if not allow_single:  # What is outside a single cluster may be its own border.
        clusters = members_of_groups(_reduced(points, metric, _DETAILS), clusters)
    found = [by_typicality(points, rows, metric) for rows in clusters if len(rows) >= smallest]
    found.sort(key=lambda group: (-len(group[0]), group[0].min()))
    nearest = scores[unknown].argmax(axis=1)
    groups = []
    for k, (members, distance) in enumerate(found):
        most = np.bincount(nearest[members]).argmax()
        label = new_label(model.classes_, model.unknown_label_, k)
        groups.append(Group(label, unknown[members], distance, model.classes_.tolist()[most]))
        labels[unknown[members]] = k
    return UnknownGroups(groups, labels)


def in_own_space(estimator: BaseEstimator, X: Any) -> tuple[np.ndarray, str]:
    """Return X as the innermost estimator sees it, dense, and the metric of that estimator."""
    *_, (inner, heads) = layers(estimator, through=(OpenSetWrapper,))
    for head in heads:
        X = head.transform(X)
    X = X.toarray() if sparse.issparse(X) else X
    metric = getattr(inner, "metric", None)
    return check_array(X, dtype=np.float64), metric if metric in METRICS else "euclidean"


def _reduced(points, metric, n_components):
    """The points in few dimensions, with Euclidean distances."""
    if metric == "cosine":  # |x - z|^2 = 2 (1 - cos) for unit vectors
        points = directions(points)
    few = min(points.shape) <= n_components
    return points if few else principal_components(points, n_components)


def principal_components(points: np.ndarray, n_components: int) -> np.ndarray:
    """The first principal components, by a matrix of the smaller side of the points."""
    solver = "covariance_eigh" if points.shape[1] <= len(points) else "full"
    pca = PCA(n_components, svd_solver=solver).set_output(transform="default")
    return pca.fit_transform(points)


def mean_distance(points: np.ndarray, metric: str) -> float:
    """Mean distance between points, of at most 1,000 that are evenly spaced."""
    some = points[:: -(-len(points) // 1000)]
    return DistancesTo(some, metric)(some).sum() / max(1, len(some) * (len(some) - 1))


def _tight_clusters(points, metric, limit, smallest, allow_single):
    """Clusters with a mean distance below the limit: their rows."""
    space = _reduced(points, metric, _COMPONENTS)
    found, parts = [], [np.arange(len(points))]
    while parts:
        rows = parts.pop()
        labels = HDBSCAN(
            min_cluster_size=smallest,
            min_samples=min(smallest, max(_NEIGHBORS, round(_NEIGHBOR_SHARE * smallest))),
            allow_single_cluster=allow_single,
            copy=True,
        ).fit_predict(space[rows])
        for k in range(labels.max() + 1):
            members, distance = by_typicality(points, rows[labels == k], metric)
            if distance.mean() < limit:
                found.append(members)
            elif len(members) < len(rows):
                parts.append(members)
    return found


def by_typicality(
    points: np.ndarray, members: np.ndarray, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the members, sorted by mean distance to the others, and these distances."""
    distances = DistancesTo(points[members], metric)
    blocks = row_blocks(0, len(members), len(members))
    total = [distances(points[members[rows]]).sum(axis=1) for rows in blocks]
    mean = np.concatenate(total) / (len(members) - 1)
    order = np.argsort(mean, kind="stable")
    return members[order], mean[order]


def new_label(classes: np.ndarray, unknown_label: Hashable, k: int) -> Hashable:
    """A label for group k that is neither a class nor the unknown label."""
    taken = [*classes.tolist(), unknown_label]
    if not isinstance(taken[0], str):
        return max(taken) + 1 + k
    stem = "group"
    while any(label.startswith(stem) for label in taken):
        stem += "_"
    return f"{stem}{k + 1}"


# Directions that are looked at, if there are fewer groups: samples of the background that agree
# with a group in a few directions differ from it in others.
_DIRECTIONS = 12
# Steps of the EM algorithm, and the change of a probability that ends it before.
_STEPS, _CHANGE = 50, 1e-3
# Smallest variance, as a fraction of that of all samples: duplicate samples have none.
_FLOOR = 1e-9


def members_of_groups(points: np.ndarray, cores: list[np.ndarray]) -> list[np.ndarray]:
    """Rows of points (n, d) that more likely than not belong to the group of each core."""
    # The points are projected on the directions in which the means of the cores (disjoint rows) and
    # of the rest differ, in units of the spread within cores (Fisher's discriminant analysis), and
    # on those of the largest variance next to them. There the points are a mixture of one round
    # normal distribution per group, none wider than the widest core, and a general one for the
    # background; the EM algorithm starts from the cores.
    if not cores:
        return []
    space = _discriminant_space(points, cores)
    floor = _FLOOR * space.var(axis=0).mean()
    widest = max(floor, *(space[rows].var(axis=0).mean() for rows in cores))
    probability = np.zeros((len(points), len(cores) + 1))
    for k, rows in enumerate(cores):
        probability[rows, k] = 1
    probability[:, -1] = 1 - probability.sum(axis=1)
    for _ in range(_STEPS):
        before, probability = probability, _expectation(space, probability, floor, widest)
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
