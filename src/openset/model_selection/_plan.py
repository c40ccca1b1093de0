"""What a search does where nothing is said, resolved from the preset and the estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..base import resolve_unknown_label, usable_rows
from ._evaluate import Candidate, Split, make_splits, spec_of, usable_part
from ._scorers import binary_measure, get_scorer
from ._split import ClosedSetSplit, OpenSetSplit

# Share of the samples of a known class that the paper's search is judged on. The paper does not say
# it; the published results show it (benchmarks/replication_gaps.md).
PAPER_TEST_SIZE = 0.2


class Plan(NamedTuple):
    """The settings of a search, none of them None."""

    preset: str
    scenario: str
    level: str
    scoring: Any  # str or callable
    n_repeats: int
    has_grid: bool  # whether the user passed one

    def checked(self, final: BaseEstimator, classes: np.ndarray, known_unknowns: bool) -> Plan:
        """The plan for these classes: closed-set if there are too few; errors where none fits."""
        plan = self
        if self.scenario == "open" and len(classes) < 3:
            plan = self._replace(scenario="closed")
            if not known_unknowns:  # these are judged as unknown although no class is withheld
                warnings.warn(
                    f"y has {len(classes)} classes; at least 3 are required to withhold some. The "
                    "search is closed-set: it cannot learn to reject.",
                    UserWarning,
                    stacklevel=4,
                )
        resolve_unknown_label(final.unknown_label, classes)  # raises early on a collision
        if self.level == "class":
            self._check_level(final, classes)
        return plan

    def _check_level(self, final, classes):
        if not spec_of(final).engine:
            raise ValueError(
                f"level='class' chooses parameters for each binary machine, which "
                f"{type(final).__name__} does not have. Use level='model'."
            )
        if callable(self.scoring):
            raise ValueError(
                f"level='class' scores binary machines, not estimators: scoring={self.scoring!r} "
                "must be a name. Use level='model'."
            )
        if len(classes) < 2:
            raise ValueError("level='class' needs at least 2 classes. Use level='model'.")

    def simulate(
        self, y: np.ndarray, classes: np.ndarray, final: BaseEstimator, random_state: Any
    ) -> list[Split]:
        """Draw the simulations; at level "class" those of one class after the other."""
        how: dict[str, Any] = {}
        if self.preset == "paper":
            # One class is known, and half of the others, rounded up.
            how = {"test_size": PAPER_TEST_SIZE, "n_known": len(classes) // 2 + 1}
        if self.scenario == "closed":
            how.pop("n_known", None)
        label = final.unknown_label
        splitter = (OpenSetSplit if self.scenario == "open" else ClosedSetSplit)(
            self.n_repeats, random_state=random_state, unknown_label=label, **how
        )
        each = [None] if self.level == "model" else classes.tolist()
        drawn = [s for own in splitter.simulate_each(y, each) for s in own]
        usable = usable_rows(final, y)
        parts = [usable_part(simulation, usable) for simulation in drawn]
        positives = [c for c in each for _ in range(self.n_repeats)]
        return make_splits(parts, y, label, None if self.level == "model" else positives)

    def measure(self) -> Callable | None:
        """The measure of scores and true codes; None if estimators are scored by a callable."""
        if callable(self.scoring):
            return None
        if self.level == "class":
            return binary_measure(self.scoring)
        scorer: Any = get_scorer(self.scoring)
        return lambda scores, true: scorer.of_scores(true, scores)

    def own_setting(
        self, estimator: BaseEstimator, candidates: list[Candidate]
    ) -> list[dict[str, Any]]:
        """The setting of the estimator as it was passed, if it is a candidate."""
        if self.has_grid or self.preset == "paper" or self.level == "class":
            return []
        params = estimator.get_params()
        return [{name: params[name] for name in candidates[0].params}]

    def is_race(self) -> bool:
        """Whether settings that are far behind drop out."""
        race = not self.has_grid and self.preset == "default" and self.level == "model"
        return race and not callable(self.scoring) and self.n_repeats > 2


def make_plan(search: Any, final: BaseEstimator) -> Plan:
    """The plan of an :class:`OpenSetSearchCV`, whose estimator ends in `final`."""
    paper = search.preset == "paper"
    level = search.level or spec_of(final).levels.get(search.preset, "model")
    scoring = "accuracy" if paper and level == "class" else "normalized_accuracy"
    return Plan(
        search.preset,
        search.scenario,
        level,
        search.scoring or scoring,
        search.n_repeats or (1 if paper else 6),
        search.param_grid is not None,
    )
