"""Groups of similar unknown samples, each proposed as a new class."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.cluster import HDBSCAN
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, check_is_fitted

from ..utils import decide, unwrap
from ..utils.distances import METRICS, DistancesTo, row_blocks

# Labels of samples that are in no group.
_NOISE, _ACCEPTED = -1, -2


@dataclass(frozen=True)
class Group:
    """Similar unknown samples, proposed as a new class.

    Attributes
    ----------
    label : int, float or str
        Suggested name of the class: of the same type as the known classes, and not one of them.
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
        head = f"{len(self.unknown)} of {len(self.labels)} samples are unknown, {n_alone} of them "
        head += f"in none of {len(self)} groups"
        lines = [
            f"{group.label!r}: {len(group)} samples, near {group.nearest_class!r}, typical rows "
            f"{group.members[:3].tolist()}"
            for group in self.groups
        ]
        return "\n".join([head, *lines])


def group_unknowns(
    estimator: BaseEstimator, X: ArrayLike, *, min_size: int = 5, allow_single: bool = False
) -> UnknownGroups:
    """Find groups among the samples that a model rejects, and propose them as classes.

    The rejected samples are clustered by HDBSCAN [1]_ in the space in which the model measures
    distances: after the transformers of a Pipeline, and with the metric of the estimator if it
    has one.

    Parameters
    ----------
    estimator : estimator
        A fitted open-set estimator, or a Pipeline, search or wrapper around one.
    X : array-like or CSR matrix of shape (n, d)
        Samples, known and unknown.
    min_size : int, default=5
        Smallest size of a group. Larger values give fewer groups.
    allow_single : bool, default=False
        Whether all rejected samples may form a single group. HDBSCAN looks for groups that stand
        out from the rest; with this option, groups that are not far apart are joined.

    Returns
    -------
    UnknownGroups
        Without groups if fewer than `min_size` samples are rejected.

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
    if not isinstance(min_size, Integral) or isinstance(min_size, bool) or min_size < 2:
        raise ValueError(f"min_size={min_size!r} must be an integer, at least 2.")
    model = unwrap(estimator)
    check_is_fitted(model)
    scores = estimator.decision_function(X)
    unknown = np.flatnonzero(decide(scores) == len(model.classes_))
    labels = np.full(len(scores), _ACCEPTED)
    labels[unknown] = _NOISE
    if len(unknown) < min_size:
        return UnknownGroups([], labels)
    points, metric = _in_own_space(estimator, _safe_indexing(X, unknown))
    clusters = HDBSCAN(
        min_cluster_size=int(min_size), metric=metric, allow_single_cluster=allow_single, copy=True
    ).fit_predict(points)
    found = [_by_typicality(points, clusters == k, metric) for k in range(clusters.max() + 1)]
    found.sort(key=lambda group: (-len(group[0]), group[0].min()))
    nearest = scores[unknown].argmax(axis=1)
    groups = []
    for k, (members, distance) in enumerate(found):
        most = np.bincount(nearest[members]).argmax()
        label = _new_label(model.classes_, model.unknown_label_, k)
        groups.append(Group(label, unknown[members], distance, model.classes_.tolist()[most]))
        labels[unknown[members]] = k
    return UnknownGroups(groups, labels)


def _in_own_space(estimator, X):
    """Return X as the innermost estimator sees it, dense, and the metric of that estimator."""
    while True:
        if isinstance(estimator, Pipeline):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        elif isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "estimator_"):
            estimator = estimator.estimator_
        else:
            break
    X = X.toarray() if sparse.issparse(X) else X
    metric = getattr(estimator, "metric", None)
    return check_array(X, dtype=np.float64), metric if metric in METRICS else "euclidean"


def _by_typicality(points, chosen, metric):
    """Return the chosen rows, sorted by mean distance to the others, and these distances."""
    members = np.flatnonzero(chosen)
    distances = DistancesTo(points[members], metric)
    blocks = row_blocks(0, len(members), len(members))
    total = [distances(points[members[rows]]).sum(axis=1) for rows in blocks]
    mean = np.concatenate(total) / (len(members) - 1)
    order = np.argsort(mean, kind="stable")
    return members[order], mean[order]


def _new_label(classes, unknown_label, k):
    """A label for group k that is neither a class nor the unknown label."""
    taken = [*classes.tolist(), unknown_label]
    if not isinstance(taken[0], str):
        return max(taken) + 1 + k
    stem = "group"
    while any(label.startswith(stem) for label in taken):
        stem += "_"
    return f"{stem}{k + 1}"
