"""What a search tries: presets with the paper's table, simulations, and settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_array

from ..base import canonical, resolve_unknown_label, takes_known_unknowns
from ..base.parameters import FRACTIONS
from ..utils import split_pipeline, unwrap
from ._evaluate import spec_of
from ._scorers import OpenSetScorer, machine_measure
from ._split import ClosedSetSplit, OpenSetSplit, Simulation

Grid = Mapping[str, Sequence[Any]]

# Share of the samples of a known class that the paper's search is judged on. The paper does not say
# it; the published results show it (benchmarks/replication_gaps.md).
PAPER_TEST_SIZE = 0.2
# The paper's widths, for data in [0, 1]. Ties go to the first setting of a grid. The paper took the
# narrowest kernel, the largest lambda or tail and the lowest threshold, so its grids begin with
# these.
_GAMMAS = [2.0**k for k in range(15, -16, -2)]
_PRESSURES = [2.0**k for k in range(-3, 3)]
# The paper's grids by the name of the class; a class without an entry has that of its base class,
# and a method that is not in the paper its default grid.
PAPER_GRIDS: dict[str, Grid] = {
    "KernelMachineClassifier": {"gamma": _GAMMAS},
    "OpenSetSVC": {"gamma": _GAMMAS, "lam": FRACTIONS[::-1]},
    # Not in the paper's experiments: as many thresholds as OpenSetSVC has values of lambda.
    "ThresholdSVC": {"gamma": _GAMMAS, "threshold": FRACTIONS[::-1]},
    "FixedBiasSVC": {"gamma": _GAMMAS, "bias": [-0.01, -0.05, -0.1, -0.25, -0.5, -1.0]},
    # 21 values from 0 to 1 without the ends, where no such machine exists.
    "MulticlassOneClassSVM": {"gamma": _GAMMAS, "nu": [k / 20 for k in range(19, 0, -1)]},
    "OneVsSetMachine": {"p_near": _PRESSURES, "p_far": _PRESSURES},
    "WSVM": {"gamma": _GAMMAS, "delta_R": [2.0**k for k in range(-7, 1)]},
    "PISVM": {"gamma": _GAMMAS, "threshold": FRACTIONS},
    # The paper has no grid for this one. Among equally good tails the longest fit its results.
    "ExtremeValueMachine": {"tail_size": [1000, 200, 100, 50, 25, 10, 5], "threshold": FRACTIONS},
}


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
        if self.level == "model":
            return plan
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
        return plan

    def simulate(self, classes, codes, final, random_state, groups=None) -> list[Simulation]:
        """Draw the simulations; at level "class" those of one class after the other."""
        # `known` are the classes whose scores are wanted: at level "class" that one alone. Known
        # unknowns are all judged if the method refuses them.
        options: dict[str, Any] = {"random_state": random_state}
        if self.preset == "paper":
            options["test_size"] = PAPER_TEST_SIZE
        splitter: Any
        if self.scenario == "closed":
            splitter = ClosedSetSplit(self.n_repeats, **options)
        else:  # of the paper, one class is known, and half of the others, rounded up
            n_known = len(classes) // 2 + 1 if self.preset == "paper" else None
            splitter = OpenSetSplit(self.n_repeats, n_known=n_known, **options)
        if self.level == "model":
            (drawn,) = splitter._draw_each(classes, codes, [None], groups)
        else:
            labels = classes.tolist()
            each = zip(labels, splitter._draw_each(classes, codes, labels, groups), strict=True)
            drawn = [s._replace(known=np.array([c])) for c, repeats in each for s in repeats]
        if codes.max() < len(classes) or takes_known_unknowns(final, final.unknown_label):
            return drawn
        return [_with_refused(s, codes == len(classes), groups) for s in drawn]

    def measure(self) -> Callable | None:
        """The measure of scores and true codes; None if estimators are scored by a callable."""
        if callable(self.scoring):
            return None
        if self.level == "class":
            return machine_measure(self.scoring)
        return OpenSetScorer(self.scoring).of_scores

    def is_default(self) -> bool:
        """Whether the estimator's own setting is a candidate."""
        return not self.has_grid and self.preset == "default" and self.level == "model"

    def is_race(self) -> bool:
        """Whether settings that are far behind drop out."""
        return self.is_default() and not callable(self.scoring) and self.n_repeats > 2

    def is_bounded_race(self, estimator: BaseEstimator, settings: list[dict]) -> bool:
        """Whether settings drop out that cannot become the best."""
        # It pays where the grid engine keeps its matrices from one simulation to the next. A
        # transformer would be fitted again, as would what the engine does not vary.
        several = self.n_repeats > 1 and not self.is_default() and not callable(self.scoring)
        return several and set(spec_of(estimator).engine) >= set().union(*settings)


def _with_refused(split: Simulation, refused: np.ndarray, groups: Any) -> Simulation:
    """The split with rows `refused`, (m,) bool, judged instead of fitted."""
    fit = split.fit[~refused[split.fit]]
    judged = np.append(split.validation, split.fit[refused[split.fit]])
    if groups is not None:
        judged = judged[~np.isin(groups[judged], groups[fit])]
    return split._replace(fit=fit, validation=np.sort(judged))


def make_plan(search: Any, final: BaseEstimator) -> Plan:
    """The plan of an :class:`OpenSetSearchCV`, whose estimator ends in `final`."""
    spec, paper = spec_of(final), search.preset == "paper"
    # The paper chooses for each binary machine, where there is one per class.
    usual = "class" if paper and spec.engine else "model"
    level = search.level or spec.levels.get(search.preset, usual)
    scoring = "accuracy" if paper and level == "class" else "normalized_accuracy"
    return Plan(
        search.preset,
        search.scenario,
        level,
        search.scoring or scoring,
        search.n_repeats or (1 if paper else 6),
        search.param_grid is not None,
    )


def grid_of(final: BaseEstimator, preset: str) -> Grid:
    """The grid of a method for a preset: its own, or that of the paper's table."""
    grids = spec_of(final).grids
    grid = grids.get(preset, {})
    if preset not in grids and preset != "default":
        entries = (PAPER_GRIDS.get(cls.__name__) for cls in type(final).__mro__)
        grid = next(filter(None, entries), grids.get("default", {}))
    # A subclass may have fewer parameters than the method it derives from.
    own = final.get_params()
    return {name: values for name, values in grid.items() if name.partition("__")[0] in own}


def preset_grid(
    estimator: BaseEstimator, preset: str, X: Any, y: np.ndarray, weight: np.ndarray
) -> dict[str, list]:
    """Grid of the estimator's method, under the parameter names it has behind a Pipeline."""
    # Values of the default grid may be in units of the data (`search_spec.scaled`). The units are
    # measured here, on the transformed rows of X, and the values become plain numbers.
    transformer, final, prefix = split_pipeline(estimator)
    spec = spec_of(final)
    grid = {name: list(values) for name, values in grid_of(final, preset).items()}
    if not grid:
        raise ValueError(
            f"{type(final).__name__} has no grid of its own for preset={preset!r}. Pass param_grid."
        )
    if preset == "default" and spec.scaled:
        rows = X if transformer is None else clone(transformer).fit_transform(X, y)
        checks = {"accept_sparse": "csr", "dtype": np.float64, "input_name": "X"}
        rows = check_array(canonical(rows), estimator=final, **checks)
        for name, unit in ((name, unit) for name, unit in spec.scaled.items() if name in grid):
            size = unit(rows, weight)
            grid[name] = [float(value * size) for value in grid[name]]
    return {prefix + name: values for name, values in grid.items()}


def make_settings(estimator: BaseEstimator, grid: Grid | Sequence[Grid], level: str) -> list[dict]:
    """All settings of a grid. Ties go to the first, so the width varies slowest."""
    # Raise ValueError, before anything is fitted, if the estimator cannot take one of the values.
    if not list(ParameterGrid(grid)):  # which checks the form
        raise ValueError(f"param_grid={grid!r} is empty. Give at least one setting.")
    settings = []
    for part in [grid] if isinstance(grid, Mapping) else grid:
        _check_grid(estimator, part, level)
        scaled = spec_of(split_pipeline(estimator)[1]).scaled
        names = sorted(part, key=lambda name: (name.split("__")[-1] not in scaled, name))
        settings += [
            dict(zip(names, values, strict=True))
            for values in product(*(part[name] for name in names))
        ]
    return settings


def finer_settings(estimator: BaseEstimator, settings: list[dict], best: dict) -> list[dict]:
    """Settings with the widths next to the best one, a factor of sqrt(2) away."""
    # The grid has a factor of four between widths, and the score falls steeply beyond the best
    # (benchmarks/search_rules.md). Parameters that cost no fit of their own take the best value and
    # two on either side; the others stay.
    _, final, prefix = split_pipeline(estimator)
    spec = spec_of(final)
    cheap = {prefix + name for name in (spec.path, *spec.after_fit) if name}
    finer: list[dict[str, Any]] = []
    for width in (prefix + name for name in spec.scaled if prefix + name in best):
        around = [s for s in settings if all(s[k] == best[k] for k in {*best} - cheap)]
        at = around.index(best)
        for new in (best[width] / np.sqrt(2.0), best[width] * np.sqrt(2.0)):
            finer += [s | {width: float(new)} for s in around[max(at - 2, 0) : at + 3]]
    return finer


def path_values(estimator: BaseEstimator, settings: Sequence[dict[str, Any]]) -> np.ndarray:
    """Value of the path parameter in each setting: the larger, the smaller the region."""
    _, final, prefix = split_pipeline(estimator)
    return np.array([s.get(f"{prefix}{spec_of(final).path}", 0.0) for s in settings])


def _check_grid(estimator, part, level):
    _, final, prefix = split_pipeline(estimator)
    engine = [prefix + name for name in spec_of(final).engine]
    if (step := prefix.removesuffix("__")) in part:
        raise ValueError(
            f"param_grid replaces the step {step!r}, the open-set estimator whose parameters are "
            "searched. Search each estimator on its own and compare the scores, or use "
            "scikit-learn's GridSearchCV with cv=OpenSetSplit()."
        )
    if level == "class" and not set(part) <= set(engine):
        raise ValueError(
            f"level='class' gives each binary machine its own parameters, which can be "
            f"{engine}; param_grid has {sorted(part)}. Use level='model'."
        )
    params, rules = estimator.get_params(), getattr(final, "_parameter_constraints", {})
    model = clone(estimator).set_params(**{name: values[0] for name, values in part.items()})
    if hasattr(unwrap(model), "_parameter_constraints"):
        unwrap(model)._validate_params()
    for name, values in ({name: [params.get(name)] for name in engine} | dict(part)).items():
        short = name.removeprefix(prefix)
        for value in values:
            if name in engine and isinstance(value, dict):
                raise ValueError(
                    f"{name}={value!r} has one value per class, but a search withholds classes. "
                    "Set a number, or search for one value per class with level='class'."
                )
            if name in part and name.startswith(prefix) and short in rules:
                rule = {short: rules[short]}
                validate_parameter_constraints(rule, {short: value}, type(final).__name__)
            elif name in part:
                model.set_params(**{name: value})
