"""The rounds of a search: candidates are scored, and those that are far behind drop out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import FitFailedWarning

from ..utils import Progress
from ._evaluate import Candidate, SearchData, evaluate, evaluate_with_callable
from ._race import after_first_look, first_look, in_the_race
from ._results import ScoreTable
from ._scorers import get_scorer

# Numbers of simulations after which settings may drop out.
_ENDS_OF_ROUNDS = (1, 2, 4)


class Rounds:
    """Scores of candidates on the simulations of a search.

    Parameters
    ----------
    estimator : estimator
    data : SearchData
    table : ScoreTable
        Receives the scores.
    scoring : str or callable
    race : bool
        Whether candidates may drop out.
    title : str or None
        Text before a progress bar; None for no bar.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        data: SearchData,
        table: ScoreTable,
        scoring: str | Callable,
        race: bool,
        title: str | None,
    ):
        self._estimator, self._data, self._table = estimator, data, table
        self._scoring, self._race, self._title = scoring, race, title

    def first_look(self, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates that take part in the race."""
        look = first_look(self._data) if self._race else None
        if look is None:
            return candidates
        found = ScoreTable(1)
        found.add([candidate.params for candidate in candidates])
        self._score(candidates, look, range(1), found)
        return after_first_look(candidates, found.scores)

    def run(
        self, left: list[Candidate], leader: Candidate | None = None, as_fitted: bool = False
    ) -> None:
        """Score candidates on all simulations; between rounds those far behind drop out."""
        n_splits = len(self._data.splits)
        ends = [end for end in _ENDS_OF_ROUNDS if self._race and end < n_splits]
        for bound in pairwise([0, *ends, n_splits]):
            if left:
                self._score(left, self._data, range(*bound), self._table, as_fitted)
                scores = self._table.of_feasible()[:, : bound[1]]
                left = in_the_race(left, scores, self._data, leader)

    def _score(self, candidates, data, which, table, as_fitted=False):
        """Score the candidates on the simulations `which`."""
        part = data.only(which)
        if callable(self._scoring) or as_fitted:
            scorer = get_scorer(self._scoring)
            found = evaluate_with_callable(self._estimator, candidates, part, scorer, as_fitted)
        else:
            found = evaluate(self._estimator, candidates, part)
        show = self._title is not None
        progress = Progress(len(candidates) * len(which), self._title or "", show)
        failures = {}
        for numbers, s, scores, far, withheld, error in found:
            table.scores[numbers, which[s]], table.far[numbers, which[s]] = scores, far
            if withheld is not None:
                table.withheld |= {
                    (i, which[s]): of for i, of in zip(numbers, withheld, strict=True)
                }
            if error is not None:
                failures[id(error)] = error
            progress.step(len(numbers))
        if not failures:
            return
        first = next(iter(failures.values()))
        if not np.isfinite(table.scores).any():
            raise first
        warnings.warn(
            f"{len(failures)} fits failed and score -inf. The first error: {first!r}",
            FitFailedWarning,
            stacklevel=4,
        )
