"""The race of the default search: which settings are not worth another simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sklearn.utils import _safe_indexing

from ._evaluate import Candidate, SearchData, make_splits

# Lead of the best setting that takes others out of the race after one simulation: this number over
# the root of the number of classes. A simulation withholds some of them, and settings that are good
# for one draw need not be for another. Smaller values lose settings (benchmarks/search_rules.md).
_LEAST_MARGIN = 0.2
# The same for the lead of one setting over those with the widths next to it.
_MARGIN_NEXT = 0.01
# Classes of the first look that act as known, and as many as unknown; it is taken where there are
# at least three times as many of each. Settings that are behind by the margin drop out.
_LOOK = 10
_LOOK_MARGIN = 0.1


def first_look(data: SearchData) -> SearchData | None:
    """The first simulation with few of its classes; None where there are not many more.

    Most settings are hopeless, such as widths at which every sample is a class of its own. With
    many classes a small part of them shows it, in a small part of the time.
    """
    fit, validation = data.splits[0][:2]
    known = np.unique(data.y[fit])
    withheld = np.setdiff1d(data.y[validation], known)
    if min(len(known), len(withheld)) < 3 * _LOOK:
        return None
    chosen = [some[:: len(some) // _LOOK][:_LOOK] for some in (known, withheld)]
    rows = np.flatnonzero(np.isin(data.y, np.concatenate(chosen)))
    part = np.flatnonzero(np.isin(rows, fit)), np.flatnonzero(np.isin(rows, validation))
    y = data.y[rows]
    return replace(
        data,
        X=_safe_indexing(data.X, rows),
        y=y,
        weight=data.weight[rows],
        splits=make_splits([part], y, data.unknown_label),
    )


def after_first_look(candidates: Sequence[Candidate], scores: np.ndarray) -> list[Candidate]:
    """Candidates that are not far behind in the first look, by scores (all candidates, 1)."""
    found = {candidate.number: scores[candidate.number, 0] for candidate in candidates}
    finite = [score for score in found.values() if np.isfinite(score)]
    if not finite:
        return list(candidates)
    return [c for c in candidates if found[c.number] >= max(finite) - _LOOK_MARGIN]


def in_the_race(
    candidates: Sequence[Candidate],
    scores: np.ndarray,
    data: SearchData,
    leader: Candidate | None = None,
) -> list[Candidate]:
    """Candidates that are not behind the best of all settings by more than chance explains.

    `scores`, of shape (all settings, r), holds the simulations so far. Chance is three standard
    errors of a score, the mean of two shares, one of the known and one of the unknown validation
    samples. Differences between draws of classes come on top, hence a floor that falls with the
    number of classes. Settings are compared on the same simulations, so what is left of chance
    falls faster than with the root of r; the margin is divided by r.

    With a leader, whose widths the candidates are next to, they are compared with it alone: what is
    so much alike has the same luck.
    """
    with np.errstate(invalid="ignore"):
        means = scores.mean(axis=1)
    if not np.isfinite(means).any():
        return list(candidates)
    best = np.max(means[np.isfinite(means)])
    if leader is not None:
        best, margin = means[leader.number], _MARGIN_NEXT
    else:
        counts = [np.bincount(split.true) for split in data.splits[: scores.shape[1]]]
        parts = [(n[-1], n[:-1].sum()) for n in counts]  # the last code is that of unknowns
        share = np.mean([1 / max(a, 1) + 1 / max(b, 1) for a, b in parts])
        error = 0.5 * np.sqrt(abs(best) * (1 - abs(best)) * share)
        margin = max(3 * error, _LEAST_MARGIN / np.sqrt(data.n_classes))
    limit = best - margin / scores.shape[1]
    return [c for c in candidates if means[c.number] >= limit]
