"""The outcome of a search: the table of results, and the best of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.stats import rankdata

from ._evaluate import Candidate


class ScoreTable:
    """Scores of a search, (n_settings, n_splits); NaN where a setting was not tried.

    ``far`` holds the largest scores far away from all samples, NaN where no region has to be
    bounded, and ``withheld`` the scores of withheld rows by (setting, split).
    """

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


def cv_results(
    candidates: list[dict[str, Any]], scores: np.ndarray, classes: np.ndarray | None = None
) -> dict[str, Any]:
    """The table of scikit-learn's ``GridSearchCV`` for scores (n_candidates, n_splits).

    A score is NaN where a setting had dropped out or the search was interrupted. The splits of a
    search per class come class by class: then there is one row per class and candidate, ranked
    within the class.
    """
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
    """Index of the best candidate, the first of equals, by scores (n_candidates, n_splits).

    Where every score is -inf because no candidate is bounded, the largest path parameter (strength,
    of shape (n_candidates,)) wins, and among those the lowest of the scores far away from all
    samples (far, as scores, with NaN where none are required).
    """
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
    """Index, mean score and parameters of the best candidate, see `best_index`.

    With `classes`, whose splits come one class after the other: an index per class, the mean over
    the classes, and parameters as dicts {class: value}.
    """
    settings = table.settings
    n_blocks = 1 if classes is None else len(classes)
    scores, far = (np.split(part, n_blocks, axis=1) for part in (table.scores, table.far))
    found = [best_index(a, b, strength) for a, b in zip(scores, far, strict=True)]
    means = np.array([own[i].mean() for own, i in zip(scores, found, strict=True)])
    if np.isneginf(means).any() and np.isfinite(table.far).any():
        whose = "" if classes is None else f" of the classes {classes[np.isneginf(means)].tolist()}"
        warnings.warn(
            f"No setting of the grid has bounded regions{whose} in every simulation, as "
            "ensure_bounded demands: all score -inf, and the choice is not by the score. Search "
            "larger values of lam, too, such as [0.0, 0.1, 0.3, 0.6], or set ensure_bounded=False.",
            UserWarning,
            stacklevel=4,
        )
    if classes is None:
        return found[0], float(means[0]), settings[found[0]]
    chosen = dict(zip(classes.tolist(), found, strict=True))
    params = {name: {c: settings[i][name] for c, i in chosen.items()} for name in settings[0]}
    return np.array(found), float(means.mean()), params


def _comparable(scores):
    """Mean scores, rounded so that rounding errors do not break ties; NaN counts as the lowest."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(scores.mean(axis=1).round(12), nan=-np.inf, neginf=-np.inf)
