"""A page on which a person looks at unknown samples, and what that person decided about them.

The decisions are a CSV file with the columns row, decision and label.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import repeat
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import _safe_indexing, indexable

from ..utils import atomic_write, decide, split_fitted
from ._group_unknowns import (
    by_typicality,
    group_unknowns,
    in_own_space,
    mean_distance,
    new_label,
    principal_components,
)

# Accepted samples shown behind the unknown ones, bars of the counts, classes named per sample.
_BEHIND, _BARS, _NEAREST = 2000, 60, 3
# Samples outside the groups that are nearest neighbours of each other make small groups, if they
# are closer than this fraction of the mean distance between the rejected samples.
_CLOSE = 0.5


def review_data(
    estimator: BaseEstimator,
    X: Any,
    *,
    texts: Sequence[str] | None = None,
    images: Sequence[str] | None = None,
    train_texts: Sequence[str] | None = None,
    train_images: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Collect what the review page shows about the rejected samples.

    The groups of :func:`group_unknowns` come first. Samples in none of them that are very close to
    each other form small groups, which come last: chance makes such groups, too.

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
    train_texts, train_images : sequence of str, default=None
        The same of all training samples, in the order of the fit: that of the most similar one is
        shown next to each sample.

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
    rows, labels, groups = _groups(model, Z, scores)
    accepted = np.flatnonzero(answers < len(model.classes_))
    parts = np.array_split(answers == len(model.classes_), min(_BARS, len(answers)))
    behind = accepted[:: max(1, -(-len(accepted) // _BEHIND))]
    places = _flat(in_own_space(model, _safe_indexing(Z, np.r_[rows, behind]))[0])
    best = np.argsort(-scores[rows], axis=1, kind="stable")[:, :_NEAREST]
    similar = distance = rows
    if len(rows):
        similar, distance, _ = model.neighbourhood(_safe_indexing(Z, rows))
    return {
        "classes": [str(label) for label in model.classes_.tolist()],
        "n": len(scores),
        "counts": [[len(part), int(part.sum())] for part in parts],  # samples, unknown ones
        "groups": groups,
        "samples": {
            "row": (rows + 1).tolist(),
            "group": labels.tolist(),
            "place": places[: len(rows)].round(3).tolist(),
            "near": best.tolist(),
            "score": np.take_along_axis(scores[rows], best, axis=1).round(3).tolist(),
            "similar": (similar + 1).tolist(),
            "distance": [round(float(d), 3) if np.isfinite(d) else None for d in distance],
            "text": None if texts is None else [*map(str, _safe_indexing(texts, rows))],
            "image": None if images is None else [*map(str, _safe_indexing(images, rows))],
        },
        "train": {
            "text": _of_rows(train_texts, similar, "train_texts"),
            "image": _of_rows(train_images, similar, "train_images"),
        },
        "known": {
            "place": places[len(rows) :].round(3).tolist(),
            "class": answers[behind].tolist(),
        },
    }


def _groups(model, Z, scores):
    """Rejected rows (m,), index of the group of each (m,), and the groups, small ones last."""
    found = group_unknowns(model, Z)
    rows, labels = found.unknown, found.labels[found.unknown]
    members = [np.searchsorted(rows, group.members).tolist() for group in found.groups]
    distances = [float(group.distance.mean()) for group in found.groups]
    for part, distance in _small_groups(model, Z, rows, np.flatnonzero(labels < 0)):
        labels[part] = len(members)
        members.append(part.tolist())
        distances.append(distance)
    unit = np.mean(distances[: len(found)] or distances or 1.0) or 1.0
    best, classes = scores[rows].argmax(axis=1), model.classes_.tolist()
    groups = [
        {
            "name": str(new_label(model.classes_, model.unknown_label_, k)),
            "near": str(classes[np.bincount(best[part]).argmax()]),
            "tightness": round(distance / unit, 3),
            "members": part,
            "small": k >= len(found),
        }
        for k, (part, distance) in enumerate(zip(members, distances, strict=True))
    ]
    return rows, labels, groups


def _small_groups(model, Z, rows, rest):
    """Parts of the positions `rest` that are close together, and mean distances; largest first."""
    # They are the components of the graph that joins each sample to its nearest neighbour, if that
    # is near.
    if len(rest) < 2:
        return []
    points, metric = in_own_space(model, _safe_indexing(Z, rows))
    limit = _CLOSE * mean_distance(points, metric)
    graph = kneighbors_graph(points[rest], 1, mode="distance", metric=metric)
    near = graph.data <= limit
    graph.data = near.astype(float)
    graph.eliminate_zeros()
    _, component = connected_components(graph, directed=False)
    parts = [np.flatnonzero(component == k) for k in np.unique(component[near])]
    parts.sort(key=lambda part: (-len(part), part[0]))
    sorted_parts = (by_typicality(points, rest[part], metric) for part in parts)
    return [(members, float(distance.mean())) for members, distance in sorted_parts]


def _of_rows(values, similar, name):
    """{row counted from 1: text} of the training rows that are most similar to some sample."""
    if values is None:
        return None
    if len(similar) and similar.max() >= len(values):
        raise ValueError(
            f"{name} has {len(values)} entries, but the model was fitted to at least "
            f"{similar.max() + 1} samples; pass one entry per training sample"
        )
    shown = np.unique(similar[similar >= 0])
    texts = map(str, _safe_indexing(values, shown))
    return dict(zip((shown + 1).tolist(), texts, strict=True))


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
        "key": sha256(content.encode()).hexdigest()[:16],  # of names that a browser keeps
    }
    page = re.sub(r"\{\{(title|script|data|key)\}\}", lambda found: parts[found[1]], page)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _flat(points):
    """The samples in two dimensions: their first principal components, in [0, 1]."""
    if len(points) < 2 or points.shape[1] < 2:
        return np.column_stack([points[:, 0], np.zeros(len(points))])
    flat = principal_components(points, 2)
    spread = np.ptp(flat, axis=0)
    return (flat - flat.min(axis=0)) / np.where(spread > 0, spread, 1)


KINDS = ("new", "class", "junk")
_COLUMNS = ("row", "decision", "label")


class DecisionError(ValueError):
    """A decision cannot be followed; the message names its line and row."""


@dataclass(frozen=True)
class Decisions:
    """Decisions about samples, in the order of the file.

    Attributes
    ----------
    rows : ndarray of shape (n,), int
        Rows of the data, counted from 0; in the file they are counted from 1.
    kinds : list of str
        "new": the label names a new class; "class": the sample is of the known class `label`;
        "junk": it belongs to no class.
    labels : list of label or None
        Of the type of the known classes; None for junk.
    """

    rows: np.ndarray
    kinds: list[str]
    labels: list[Hashable | None]

    def __len__(self) -> int:
        return len(self.rows)

    def of_kind(self, *kinds: str) -> np.ndarray:
        """Return which decisions are of these kinds.

        Parameters
        ----------
        *kinds : str

        Returns
        -------
        ndarray of shape (n,), bool
        """
        return np.isin(self.kinds, kinds)

    def check(self, n_rows: int, classes: Sequence, unknown_label: Hashable) -> None:
        """Raise DecisionError for the first decision that cannot be followed.

        Parameters
        ----------
        n_rows, classes, unknown_label
            As for :func:`read_decisions`.
        """
        if not len(self.rows) == len(self.kinds) == len(self.labels):
            raise DecisionError(
                f"rows, kinds and labels must have one entry per decision; they have "
                f"{len(self.rows)}, {len(self.kinds)} and {len(self.labels)}"
            )
        rows = np.asarray(self.rows).tolist()
        entries = zip(repeat(""), rows, self.kinds, self.labels)
        _checked(entries, range(n_rows), np.asarray(classes).tolist(), unknown_label)


def read_decisions(
    path: str | os.PathLike, n_rows: int, classes: Sequence, unknown_label: Hashable
) -> Decisions:
    r"""Read and check a file of decisions.

    Parameters
    ----------
    path : path-like
        CSV with the columns row (counted from 1), decision ("new", "class" or "junk") and label.
    n_rows : int
        Rows of the data that the decisions are about.
    classes : sequence of labels
        Classes of the model.
    unknown_label : label
        Not allowed as the name of a class.

    Returns
    -------
    Decisions

    Raises
    ------
    DecisionError
        For the first line that names a row outside the data, a class that the model does not have,
        a new class that it has already, or a row for the second time, and for a line that is
        not CSV.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from openset.discovery import read_decisions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "decisions.csv")
    ...     _ = path.write_text("row,decision,label\n3,new,bus\n1,junk,\n")
    ...     decisions = read_decisions(path, 3, ["car"], "unknown")
    >>> decisions.rows, decisions.labels
    (array([2, 0]), ['bus', None])
    """
    known = np.asarray(classes).tolist()
    found = _checked(_read_lines(path, known), range(1, n_rows + 1), known, unknown_label)
    rows = np.array([row - 1 for _, row, _, _ in found], dtype=np.intp)
    return Decisions(rows, [kind for *_, kind, _ in found], [label for *_, label in found])


def _read_lines(path, known):
    """Yield the place, row, kind and label, of the type of the classes, of each decision."""
    number = 0
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or [])]
            if missing:
                raise DecisionError(
                    f"{path} has no column {missing[0]!r}; it must have {', '.join(_COLUMNS)}"
                )
            for line in reader:
                number = reader.line_num
                row, kind, text = ((line[name] or "").strip() for name in _COLUMNS)
                label = None if kind == "junk" or not text else text
                with suppress(ValueError):  # of another type: `_problem` says so
                    label = label and type(known[0])(label)
                yield f"{path} line {number}", int(row) if row.isdecimal() else row, kind, label
    except UnicodeDecodeError as error:
        raise DecisionError(f"{path} is not a file in UTF-8 ({error})") from error
    except csv.Error as error:
        raise DecisionError(f"{path} is not CSV after line {number} ({error})") from error


def _checked(entries, rows: range, known: list, unknown_label) -> list[tuple]:
    """The entries (place in a file or "", row, kind, label), if all can be followed."""
    seen: dict = {}
    for entry in entries:
        place, row, kind, label = entry
        where = f"{place}: " if place else ""
        if row not in rows:
            shown = repr(str(row)) if place else row
            raise DecisionError(
                f"{where}there is no row {shown}; the data have the rows {rows.start} to "
                f"{rows.stop - 1}"
            )
        if row in seen:
            line = seen[row][0].rpartition(" line ")[2]
            first = f"in line {line} already; keep one line" if line else "twice; keep one decision"
            raise DecisionError(f"{where}row {row} was decided {first}")
        if problem := _problem(label, kind, known, unknown_label):
            raise DecisionError(f"{place}, row {row}: {problem}".removeprefix(", "))
        seen[row] = entry
    return [*seen.values()]


def _problem(label, kind, known, unknown_label) -> str | None:
    """What is wrong with a decision, if anything is."""
    if kind not in KINDS:
        return f"the decision {kind!r} is none of {', '.join(KINDS)}"
    if kind == "junk":
        return None
    if label is None:
        return "the label is missing"
    if isinstance(label, str) != isinstance(known[0], str):
        type_of_classes = "text" if isinstance(known[0], str) else "number"
        return (
            f"the label {label!r} is not a {type_of_classes}, but the classes of the model are; "
            f"give the new class a {type_of_classes}"
        )
    if label == unknown_label:
        return f"the label {label!r} means unknown; use the decision junk"
    if kind == "class" and label not in known:
        return f"the model has no class {label!r}; use the decision new, or one of its classes"
    if kind == "new" and label in known:
        return f"the model has a class {label!r} already; use the decision class"
    return None
