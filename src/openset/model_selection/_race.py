"""Races of settings: rounds, settings that drop out, and the results of a search.

There are two rules. In the default search settings drop out that are behind the best by more than
chance explains. With a grid of the user's settings drop out that cannot become the best any more:
the choice is the same as without.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator
from sklearn.exceptions import FitFailedWarning

from ..utils import Progress
from ._evaluate import Candidate, SearchData, evaluate
from ._split import Simulation

# Numbers of simulations after which settings may drop out.
_ENDS_OF_ROUNDS = (1, 2, 4)
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


class ScoreTable:
    """Scores of a search, (n_settings, n_splits); NaN where a setting was not tried."""

    # `far` holds the largest scores far away from all samples, NaN where no region has to be
    # bounded, and `withheld` the scores of withheld rows by (setting, split).

    def __init__(self, n_splits: int):
        self.settings: list[dict[str, Any]] = []
        self.scores = np.empty((0, n_splits))
        self.far = np.empty((0, n_splits))
        self.withheld: dict[tuple[int, int], np.ndarray] = {}

    def add(self, settings: list[dict[str, Any]]) -> list[Candidate]:
        """Add rows, and return them as candidates under their numbers."""
        begin = len(self.settings)
        self.settings += settings
        rows = np.full((len(settings), self.scores.shape[1]), np.nan)
        self.scores, self.far = np.vstack([self.scores, rows]), np.vstack([self.far, rows])
        return [Candidate(begin + i, params) for i, params in enumerate(settings)]

    def of_feasible(self) -> np.ndarray:
        """The scores; -inf throughout where a setting failed in any of the simulations."""
        failed = np.isneginf(self.scores).any(axis=1, keepdims=True)
        return np.where(failed, -np.inf, self.scores)

    def dropped(self, candidates: list[Candidate]) -> list[Candidate]:
        """Those that were not tried to the end, although they had not failed."""
        ends = self.of_feasible()[:, [0, -1]]
        gone = np.isfinite(ends[:, 0]) & np.isnan(ends[:, 1])
        return [candidate for candidate in candidates if gone[candidate.number]]

    def best(self) -> Candidate | None:
        """The setting with the highest mean score, the first of equals, if there is any."""
        means = _comparable(self.scores)
        top = int(np.argmax(means))
        return Candidate(top, self.settings[top]) if np.isfinite(means[top]) else None


@dataclass
class Race:
    """Scores candidates on the simulations of a search."""

    estimator: BaseEstimator
    data: SearchData
    table: ScoreTable  # receives the scores
    scoring: str | Callable
    drops_out: bool  # whether candidates may drop out
    progress: Progress  # counts a candidate on a simulation as a step

    def first_look(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates that take part: those not far behind on few of the classes."""
        # Most settings are hopeless, such as widths at which every sample is a class of its own.
        # With many classes a small part of them shows it, in a small part of the time.
        look = _few_classes(self.data) if self.drops_out else None
        if look is None:
            return candidates
        table = ScoreTable(1)
        table.add([candidate.params for candidate in candidates])
        self.progress.expect(len(candidates))
        self._score(candidates, look, range(1), table)
        scores = table.scores[[candidate.number for candidate in candidates], 0]
        finite = scores[np.isfinite(scores)]
        if not finite.size:
            return candidates
        near = scores >= finite.max() - _LOOK_MARGIN
        return [candidate for candidate, stays in zip(candidates, near, strict=True) if stays]

    def run(
        self, left: list[Candidate], leader: Candidate | None = None, as_fitted: bool = False
    ) -> None:
        """Score candidates on all simulations; between rounds those far behind drop out."""
        n_splits = len(self.data.splits)
        ends = [end for end in _ENDS_OF_ROUNDS if self.drops_out and end < n_splits]
        self.progress.expect(len(left) * n_splits)
        for bound in pairwise([0, *ends, n_splits]):
            if left:
                self._score(left, self.data, range(*bound), self.table, as_fitted)
                scores = self.table.of_feasible()[:, : bound[1]]
                before, left = len(left), in_the_race(left, scores, self.data, leader)
                self.progress.expect((len(left) - before) * (n_splits - bound[1]))

    def run_within_bounds(
        self, candidates: list[Candidate], n_repeats: int, highest: float
    ) -> None:
        """Score all candidates, repeat by repeat; those drop out that cannot be the best any more.

        At level "class" there are `n_repeats` simulations for each machine, a race of its own.
        """
        # A candidate drops out if `highest` in all simulations to come does not bring its mean
        # above that of another. This needs one that has all its scores: the leader, as soon as half
        # of the others would drop out if it went on as it did. The engine solves those of its
        # width along with it.
        width = np.array([str(candidate.params.get("gamma")) for candidate in candidates])
        scores = self.table.scores.reshape(len(candidates), -1, n_repeats)
        tried, left = np.zeros(scores.shape, dtype=bool), np.ones(scores.shape[:2], dtype=bool)
        led = np.zeros(scores.shape[1], dtype=bool)
        due = 0
        for r in range(n_repeats):
            self.progress.expect(-due)
            due = int(np.count_nonzero(tried | left[:, :, None]))
            self.progress.expect(due)
            self._score_wanted(candidates, left[:, :, None] & (np.arange(n_repeats) == r), tried)
            ahead = np.zeros_like(left)
            for b in np.flatnonzero(~led).tolist():
                leader = leader_of(scores[:, b, : r + 1], n_repeats, highest)
                if leader is not None:
                    ahead[:, b], led[b] = width == width[leader], True
            self._score_wanted(candidates, np.repeat(ahead[:, :, None], n_repeats, 2), tried)
            for b in range(len(led)):
                left[:, b] &= can_win(scores[:, b], tried[:, b], highest)
        self.data.scorers.clear()

    def _score_wanted(self, candidates, wanted, tried):
        """Score what is `wanted`, (n_candidates, machines, n_repeats), and not `tried` yet."""
        wanted &= ~tried
        if wanted.any():
            tried |= wanted
            wanted, which = wanted.reshape(self.table.scores.shape), range(len(self.data.splits))
            self._score(candidates, self.data, which, self.table, wanted=wanted)

    def _score(self, candidates, data, which, table, as_fitted=False, wanted=None):
        """Score the candidates on the simulations `which`, or what is `wanted` of them."""
        scoring = self.scoring if callable(self.scoring) else None
        results = evaluate(self.estimator, candidates, data, which, scoring, as_fitted, wanted)
        failures = {}
        for numbers, s, scores, far, withheld, error in results:
            table.scores[numbers, s], table.far[numbers, s] = scores, far
            if withheld is not None:
                table.withheld |= {(i, s): best for i, best in zip(numbers, withheld, strict=True)}
            if error is not None:
                failures[id(error)] = error
            self.progress.step(len(numbers))
        if not failures:
            return
        first = next(iter(failures.values()))
        if not np.isfinite(table.scores).any():
            raise first
        warnings.warn(
            f"{len(failures)} fits failed and score -inf. The first error: {first!r}",
            FitFailedWarning,
            stacklevel=6,
        )


def _few_classes(data: SearchData) -> SearchData | None:
    """The first simulation with few of its classes; None where there are not many more."""
    _, fit, validation = data.splits[0]
    known = np.unique(data.y[fit])
    withheld = np.setdiff1d(data.y[validation], known)
    if min(len(known), len(withheld)) < 3 * _LOOK:
        return None
    chosen, other = (some[:: len(some) // _LOOK][:_LOOK] for some in (known, withheld))
    rows = np.flatnonzero(np.isin(data.y, np.concatenate([chosen, other])))
    place = np.searchsorted(rows, np.arange(len(data.y) + 1))
    fit, validation = (place[some[np.isin(some, rows)]] for some in (fit, validation))
    return data.rows(rows, Simulation(np.intersect1d(chosen, data.classes), fit, validation))


def in_the_race(
    candidates: list[Candidate], scores: np.ndarray, data: SearchData, leader=None
) -> list[Candidate]:
    """Candidates that are not behind the best of all settings by more than chance explains."""
    # `scores`, of shape (all settings, r), holds the simulations so far. Chance is three standard
    # errors of a score, the mean of two shares, one of the known and one of the unknown validation
    # samples. Differences between draws of classes come on top, hence a floor that falls with the
    # number of classes. Settings are compared on the same simulations, so what is left of chance
    # falls faster than with the root of r; the margin is divided by r. With a leader, whose widths
    # the candidates are next to, they are compared with it alone: what is so much alike has the
    # same luck.
    with np.errstate(invalid="ignore"):
        means = scores.mean(axis=1)
    if not np.isfinite(means).any():
        return list(candidates)
    best = np.max(means[np.isfinite(means)])
    if leader is not None:
        best, margin = means[leader.number], _MARGIN_NEXT
    else:
        counts = [np.bincount(data.true(s)) for s in range(scores.shape[1])]
        # The last code is that of unknowns.
        share = np.mean([1 / max(n[-1], 1) + 1 / max(n[:-1].sum(), 1) for n in counts])
        error = 0.5 * np.sqrt(abs(best) * (1 - abs(best)) * share)
        margin = max(3 * error, _LEAST_MARGIN / np.sqrt(len(data.classes)))
    limit = best - margin / scores.shape[1]
    return [c for c in candidates if means[c.number] >= limit]


def leader_of(scores: np.ndarray, n_repeats: int, highest: float) -> int | None:
    """The best after r of so many repeats, (n_candidates, r), if half would drop out behind it."""
    means = _comparable(scores)
    best, share = int(np.argmax(means)), scores.shape[1] / n_repeats
    behind = share * means + (1 - share) * highest < means[best]
    return best if 2 * np.count_nonzero(behind) >= len(means) and share < 1 else None


def can_win(scores: np.ndarray, tried: np.ndarray, highest: float) -> np.ndarray:
    """Which candidates, scored where `tried`, (n_candidates, n_repeats), may become the best."""
    means = _comparable(np.where(tried, scores, highest))
    reached = np.where(tried.all(axis=1), means, -np.inf)
    best = int(np.argmax(reached))  # the first of equals, which is chosen
    if not np.isfinite(reached[best]):
        return np.ones(len(means), dtype=bool)
    return (means > reached[best]) | ((means == reached[best]) & (np.arange(len(means)) <= best))


def cv_results(
    candidates: list[dict[str, Any]], scores: np.ndarray, classes: np.ndarray | None = None
) -> dict[str, Any]:
    """The table of scikit-learn's ``GridSearchCV`` for scores (n_candidates, n_splits)."""
    # A score is NaN where a setting had dropped out or the search was interrupted. The splits of a
    # search per class come class by class: then there is one row per class and candidate, ranked
    # within the class.
    blocks = [scores] if classes is None else np.split(scores, len(classes), axis=1)
    table = np.concatenate(blocks)
    results: dict[str, Any] = {}
    if classes is not None:
        results["class"] = np.repeat(classes, len(candidates))
    results["params"] = candidates * len(blocks)
    for name in sorted({name for candidate in candidates for name in candidate}):
        values = np.empty(len(candidates), dtype=object)
        for row, candidate in enumerate(candidates):
            values[row] = candidate.get(name)
        absent = [name not in candidate for candidate in candidates]
        n = len(blocks)
        results[f"param_{name}"] = np.ma.MaskedArray(np.tile(values, n), np.tile(absent, n))
    for s in range(table.shape[1]):
        results[f"split{s}_test_score"] = table[:, s]
    with np.errstate(invalid="ignore"):  # -inf has no deviation
        results["mean_test_score"] = table.mean(axis=1)
        results["std_test_score"] = table.std(axis=1)
    ranks = [rankdata(-_comparable(block), method="min") for block in blocks]
    results["rank_test_score"] = np.concatenate(ranks).astype(np.int32)
    return results


def best_index(scores: np.ndarray, far: np.ndarray, strength: np.ndarray) -> int:
    """Index of the best candidate, the first of equals, by scores (n_candidates, n_splits)."""
    # Where every score is -inf because no candidate is bounded, the largest path parameter
    # (strength, of shape (n_candidates,)) wins, and among those the lowest of the scores far away
    # from all samples (far, as scores, with NaN where none are required).
    means = _comparable(scores)
    if np.isfinite(means).any():
        return int(np.argmax(means))
    if not np.isneginf(scores).any(axis=1).all():
        raise ValueError(
            "The score is not a number for any setting. Without unknowns in validation "
            "(scenario='closed', or fewer than three classes) measures of unknowns are not "
            "defined; choose another scoring."
        )
    worst = np.nan_to_num(far.max(axis=1), nan=np.inf)
    return int(np.argmin(np.where(strength == strength.max(), worst, np.inf)))


def best_of(
    table: ScoreTable, strength: np.ndarray, classes: np.ndarray | None = None
) -> tuple[Any, float, dict[str, Any]]:
    """Index, mean score and parameters of the best candidate, see `best_index`."""
    # With `classes`, whose splits come one class after the other: an index per class, the mean over
    # the classes, and parameters as dicts {class: value}.
    settings = table.settings
    n_blocks = 1 if classes is None else len(classes)
    scores, far = (np.split(a, n_blocks, axis=1) for a in (table.scores, table.far))
    best = [best_index(a, b, strength) for a, b in zip(scores, far, strict=True)]
    means = np.array([block[i].mean() for block, i in zip(scores, best, strict=True)])
    if np.isneginf(means).any() and np.isfinite(table.far).any():
        whose = "" if classes is None else f" of the classes {classes[np.isneginf(means)].tolist()}"
        warnings.warn(
            f"No setting of the grid has bounded regions{whose} in every simulation, as "
            "ensure_bounded demands: all score -inf, and the choice is not by the score. Search "
            "larger values of lam, too, such as [0.0, 0.1, 0.3, 0.6], or set ensure_bounded=False.",
            UserWarning,
            stacklevel=5,
        )
    if classes is None:
        return best[0], float(means[0]), settings[best[0]]
    chosen = dict(zip(classes.tolist(), best, strict=True))
    params = {name: {c: settings[i][name] for c, i in chosen.items()} for name in settings[0]}
    return np.array(best), float(means.mean()), params


def _comparable(scores):
    """Mean scores, rounded so that rounding errors do not break ties; NaN counts as the lowest."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(scores.mean(axis=1).round(12), nan=-np.inf, neginf=-np.inf)
