"""The settings a search tries: from a preset or from the user, checked, in the order of ties.

A large grid is searched in two stages. In the first, an axis is thinned to about five values (every
second, every fourth, and so on). The second tries all values between the neighbours of the best.
Parameters that act after fitting cost nothing, so they are never thinned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_array

from ..utils import split_pipeline, unwrap
from ._evaluate import Candidate, spec_of

Grid = Mapping[str, Sequence[Any]]

# Fewest values that thinning leaves on an axis.
_FEWEST = 5


def preset_grid(
    estimator: BaseEstimator, preset: str, X: Any, y: np.ndarray, weight: np.ndarray
) -> dict[str, list]:
    """Grid of the estimator's method, under the parameter names it has behind a Pipeline.

    Values of the default grid may be in units of the data (``search_spec.scaled``). The units are
    measured here, on the transformed rows of X, and the values become plain numbers.
    """
    transformer, final, prefix = split_pipeline(estimator)
    spec = spec_of(final)
    grid = {name: list(values) for name, values in spec.grids.get(preset, {}).items()}
    if not grid:
        raise ValueError(
            f"{type(final).__name__} has no grid of its own for preset={preset!r}. Pass param_grid."
        )
    if preset == "default" and spec.scaled:
        rows = X if transformer is None else clone(transformer).fit_transform(X, y)
        checks = {"accept_sparse": "csr", "dtype": np.float64, "input_name": "X"}
        rows = check_array(rows, estimator=final, **checks)
        for name, unit in spec.scaled.items():
            size = unit(rows, weight)
            grid[name] = [float(value * size) for value in grid[name]]
    return {prefix + name: values for name, values in grid.items()}


def make_candidates(
    estimator: BaseEstimator, grid: Grid | Sequence[Grid], level: str
) -> list[Candidate]:
    """All settings of a grid. Ties go to the first, so the width varies slowest.

    Raise ValueError, before anything is fitted, if the estimator cannot take one of the values.
    """
    if not list(ParameterGrid(grid)):  # which checks the form
        raise ValueError(f"param_grid={grid!r} is empty. Give at least one setting.")
    parts = [grid] if isinstance(grid, Mapping) else grid
    settings = []
    for part in parts:
        _check_grid(estimator, part, level)
        scaled = spec_of(split_pipeline(estimator)[1]).scaled
        names = sorted(part, key=lambda name: (name.split("__")[-1] not in scaled, name))
        settings += [
            dict(zip(names, values, strict=True))
            for values in product(*(part[name] for name in names))
        ]
    return [Candidate(i, params) for i, params in enumerate(settings)]


def _check_grid(estimator, part, level):
    _, final, prefix = split_pipeline(estimator)
    engine = [prefix + name for name in spec_of(final).engine]
    if level == "class" and not set(part) <= set(engine):
        raise ValueError(
            f"level='class' gives each binary machine its own parameters, which can be "
            f"{engine}; param_grid has {sorted(part)}. Use level='model'."
        )
    first = {name: values[0] for name, values in part.items()}
    _check_setting(estimator, first, engine)
    for name, values in part.items():
        for value in values[1:]:
            _check_setting(estimator, first | {name: value}, engine)


def _check_setting(estimator, setting, engine):
    model = clone(estimator).set_params(**setting)
    final = unwrap(model)
    if hasattr(final, "_parameter_constraints"):
        final._validate_params()
    params = model.get_params()
    for name in engine:
        if isinstance(params[name], dict):
            raise ValueError(
                f"{name}={params[name]!r} has one value per class, but a search withholds classes. "
                "Set a number, or search for one value per class with level='class'."
            )


def coarse_stage(
    candidates: Sequence[Candidate], grid: Grid, keep: Collection[str] = ()
) -> list[Candidate]:
    """Candidates of the first stage, among all; the parameters `keep` are not thinned."""
    return _inside(candidates, grid, lambda name, values: values[:: _stride(name, values, keep)])


def fine_stage(
    candidates: Sequence[Candidate], grid: Grid, best: dict[str, Any], keep: Collection[str] = ()
) -> list[Candidate]:
    """Candidates of the second stage: those around `best` that the first stage left out."""

    def near(name, values):
        step = _stride(name, values, keep)
        if step == 1:
            return values
        at = list(values).index(best[name])
        return values[max(0, at - step + 1) : at + step]

    tried = {candidate.number for candidate in coarse_stage(candidates, grid, keep)}
    return [c for c in _inside(candidates, grid, near) if c.number not in tried]


def _stride(name, values, keep):
    """Largest power of two that leaves at least five of the values."""
    step = 1
    while name not in keep and -(-len(values) // (2 * step)) >= _FEWEST:
        step *= 2
    return step


def _inside(candidates, grid, choose: Callable[[str, Sequence], Sequence]):
    kept = {name: choose(name, list(values)) for name, values in grid.items()}
    return [c for c in candidates if all(value in kept[name] for name, value in c.params.items())]
