"""A page on which a person looks at unknown samples and decides what they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing, indexable

from ..utils import atomic_write, decide, split_fitted
from ._group_unknowns import group_unknowns, in_own_space, principal_components

# Accepted samples shown behind the unknown ones, bars of the counts, classes named per sample.
_BEHIND, _BARS, _NEAREST = 2000, 60, 3


def review_data(
    estimator: BaseEstimator,
    X: Any,
    *,
    texts: Sequence[str] | None = None,
    images: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Collect what the review page shows about the rejected samples.

    Parameters
    ----------
    estimator : estimator
        A fitted open-set estimator, or a Pipeline or a search of one.
    X : array-like of shape (n, d), or whatever the estimator takes
        Samples in the order in which they arrived.
    texts : sequence of n str, default=None
        What each sample is, in words.
    images : sequence of n str, default=None
        What each sample looks like, as addresses that a page can show (``data:`` addresses keep it
        self-contained).

    Returns
    -------
    dict
        As JSON allows: classes, counts over time, groups, samples and the map.

    Examples
    --------
    >>> import numpy as np
    >>> from openset import OpenSetSVC
    >>> from openset.discovery import review_data
    >>> model = OpenSetSVC(gamma=0.5).fit([[0, 0], [0, 1], [5, 5], [5, 6]], [1, 1, 2, 2])
    >>> data = review_data(model, [[0.0, 0.5], [9.0, 9.0]])
    >>> data["samples"]["row"]
    [2]
    """
    X, texts, images = indexable(X, texts, images)  # raises if their lengths differ
    transform, model = split_fitted(estimator)
    (Z,) = indexable(transform(X))
    scores = model.decision_function(Z)
    answers = decide(scores)
    found = group_unknowns(model, Z)
    rows = found.unknown
    accepted = np.flatnonzero(answers < len(model.classes_))
    behind = accepted[:: max(1, -(-len(accepted) // _BEHIND))]
    places = _flat(in_own_space(model, _safe_indexing(Z, np.r_[rows, behind]))[0])
    best = np.argsort(-scores[rows], axis=1, kind="stable")[:, :_NEAREST]
    similar = distance = rows
    if len(rows):
        similar, distance, _ = model.neighbourhood(_safe_indexing(Z, rows))
    position = {row: k for k, row in enumerate(rows.tolist())}
    typical = _typical_distance(found)
    return {
        "classes": [str(label) for label in model.classes_.tolist()],
        "n": len(scores),
        "counts": _counts(answers == len(model.classes_)),
        "groups": [
            {
                "name": str(group.label),
                "near": str(group.nearest_class),
                "tightness": round(float(group.distance.mean() / typical), 3),
                "members": [position[row] for row in group.members.tolist()],
            }
            for group in found.groups
        ],
        "samples": {
            "row": (rows + 1).tolist(),
            "group": found.labels[rows].tolist(),
            "place": places[: len(rows)].round(3).tolist(),
            "near": best.tolist(),
            "score": np.take_along_axis(scores[rows], best, axis=1).round(3).tolist(),
            "similar": (similar + 1).tolist(),
            "distance": [round(float(d), 3) if np.isfinite(d) else None for d in distance],
            "text": None if texts is None else [*map(str, _safe_indexing(texts, rows))],
            "image": None if images is None else [*map(str, _safe_indexing(images, rows))],
        },
        "known": {
            "place": places[len(rows) :].round(3).tolist(),
            "class": answers[behind].tolist(),
        },
    }


def write_review(data: dict[str, Any], path: str | os.PathLike, title: str = "Unknowns") -> None:
    """Write the review page: one file that works without a network.

    Parameters
    ----------
    data : dict
        From :func:`review_data`.
    path : path-like
        HTML file to write or replace, atomically.
    title : str, default="Unknowns"

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from openset import OpenSetSVC
    >>> from openset.discovery import review_data, write_review
    >>> model = OpenSetSVC(gamma=0.5).fit([[0, 0], [0, 1], [5, 5], [5, 6]], [1, 1, 2, 2])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "review.html")
    ...     write_review(review_data(model, [[9.0, 9.0]]), path)
    ...     path.read_text()[:15]
    '<!DOCTYPE html>'
    """
    here = files(__package__)
    # Inside a script element only "<" could end it; as an escape it cannot.
    content = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = here.joinpath("review.html").read_text("utf-8")
    parts = {
        "title": escape(title),
        "script": here.joinpath("review.js").read_text("utf-8"),
        "data": content,
    }
    page = re.sub(r"\{\{(title|script|data)\}\}", lambda found: parts[found[1]], page)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _flat(points):
    """The samples in two dimensions: their first principal components, in [0, 1]."""
    if len(points) < 2 or points.shape[1] < 2:
        return np.column_stack([points[:, 0], np.zeros(len(points))])
    flat = principal_components(points, 2)
    spread = np.ptp(flat, axis=0)
    return (flat - flat.min(axis=0)) / np.where(spread > 0, spread, 1)


def _typical_distance(found):
    """Mean distance in all groups, the unit of tightness."""
    means = [group.distance.mean() for group in found.groups]
    return np.mean(means) or 1.0 if means else 1.0


def _counts(unknown):
    """[samples, unknown] of consecutive parts of the stream."""
    parts = np.array_split(unknown, min(_BARS, len(unknown)))
    return [[len(part), int(part.sum())] for part in parts]
