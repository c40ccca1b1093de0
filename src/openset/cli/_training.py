"""Tuning, fitting, and an honest measure of both: classes withheld in turn."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from openset.cli._failures import stage
from openset.cli._measures import answers_of, measures
from openset.model_selection import OpenSetSearchCV
from openset.utils import unwrap

# Share of the rows of each class that is held out for the report, one at least.
_TEST_SHARE = 0.2

# One row of a class to hold out, one to fit and one to judge by in the search.
FEWEST_ROWS = 3


class Tuned(NamedTuple):
    """A fitted model, the search that chose its parameters, and how many rows that looked at."""

    model: BaseEstimator
    search: OpenSetSearchCV
    n_rows: int


@dataclass(frozen=True)
class Tuning:
    """How a model is tuned.

    Attributes
    ----------
    rows : int
        Rows the search looks at, at most; the model is fitted on all.
    seed : int
    jobs : int
    """

    rows: int
    seed: int
    jobs: int

    def fit(self, model: BaseEstimator, X, y) -> Tuned:
        """Search for the best setting of the model, and fit it on all rows."""
        some = sample(y, self.rows, np.random.default_rng(self.seed))
        search = OpenSetSearchCV(
            model,
            refit=False,
            n_jobs=self.jobs,
            random_state=self.seed,
            verbose=int(sys.stderr.isatty()),
        ).fit(X[some], y[some])
        stage(f"fitting to {len(y):,} rows")
        fitted = clone(model).set_params(**search.best_params_).fit(X, y)
        return Tuned(fitted, search, len(some))


def sample(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """At most about n rows, as many of each class in proportion, two of each at least."""
    if len(y) <= n:
        return np.arange(len(y))
    chosen = []
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        chosen.append(rng.permutation(rows)[: max(2, round(n * len(rows) / len(y)))])
    return np.sort(np.concatenate(chosen))


@dataclass
class HeldOut:
    """Measures on rows that were not trained on, over turns in which classes were withheld.

    Attributes
    ----------
    turns : list of dict
        For each turn the withheld classes, the numbers of rows and the measures.
    classes : dict {label: dict}
        For each class ``named``, the share of its rows that are given their own name when it is
        known, and ``rejected``, the share answered unknown when it is withheld.
    """

    turns: list[dict[str, Any]] = field(default_factory=list)
    classes: dict[Any, dict[str, float]] = field(default_factory=dict)

    def means(self) -> dict[str, float]:
        """Mean of each measure over the turns."""
        if not self.turns:
            return {}
        names = self.turns[0]["measures"]
        return {name: float(np.mean([t["measures"][name] for t in self.turns])) for name in names}


def held_out(model: BaseEstimator, X, y, tuning: Tuning, n_turns: int, others=None) -> HeldOut:
    """Tune and fit in turns, each with a group of classes withheld, and measure on held-out rows.

    Every class is withheld in exactly one turn. With fewer than three classes none can be.

    Parameters
    ----------
    model : estimator
        Not fitted.
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    tuning : Tuning
        Used anew in each turn, so that the withheld classes have no part in it.
    n_turns : int
    others : ndarray of shape (k, d), default=None
        Rows of classes that are not to be learned: unknown in every turn.

    Returns
    -------
    HeldOut
    """
    rng = np.random.default_rng(tuning.seed)
    classes = np.unique(y)
    test = np.zeros(len(y), dtype=bool)
    for label in classes:
        rows = rng.permutation(np.flatnonzero(y == label))
        test[rows[: max(1, int(_TEST_SHARE * len(rows)))]] = True
    if len(classes) < 3:
        groups = [classes[:0]]
    else:
        # Three classes stay known where there are four or more: the tuning withholds some, too.
        n_turns = max(n_turns, -(-len(classes) // max(1, len(classes) - 3)))
        groups = np.array_split(rng.permutation(classes), min(n_turns, len(classes)))

    result = HeldOut()
    shares: dict[Any, dict[str, list]] = {
        c: {"named": [], "rejected": []} for c in classes.tolist()
    }
    for turn, group in enumerate(groups, start=1):
        names = ", ".join(map(str, group)) or "nothing"
        stage(f"turn {turn} of {len(groups)}: {names} withheld")
        withheld = np.isin(y, group)
        fitted = tuning.fit(model, X[~test & ~withheld], y[~test & ~withheld]).model
        final = unwrap(fitted)
        scores = fitted.decision_function(X[test] if others is None else np.r_[X[test], others])
        answers = answers_of(final, scores)
        truth = np.full(len(answers), final.unknown_label_, dtype=answers.dtype)
        truth[: test.sum()] = np.where(withheld[test], final.unknown_label_, y[test])
        result.turns.append(
            {
                "withheld": group.tolist(),
                "n_known": int((truth != final.unknown_label_).sum()),
                "n_unknown": int((truth == final.unknown_label_).sum()),
                "measures": measures(truth, scores, final),
            }
        )
        for label in classes.tolist():
            own = answers[: test.sum()][y[test] == label]
            if label in group.tolist():
                shares[label]["rejected"].append(np.mean(own == final.unknown_label_))
            else:
                shares[label]["named"].append(np.mean(own == label))
    result.classes = {
        label: {name: float(np.mean(values)) for name, values in parts.items() if values}
        for label, parts in shares.items()
    }
    return result
