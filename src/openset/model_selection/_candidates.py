"""The settings a search tries: from a preset or from the user, checked, in the order of ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_array

from ..base import canonical
from ..utils import split_pipeline, unwrap
from ._evaluate import spec_of

Grid = Mapping[str, Sequence[Any]]


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
        rows = check_array(canonical(rows), estimator=final, **checks)
        for name, unit in spec.scaled.items():
            size = unit(rows, weight)
            grid[name] = [float(value * size) for value in grid[name]]
    return {prefix + name: values for name, values in grid.items()}


def make_settings(
    estimator: BaseEstimator, grid: Grid | Sequence[Grid], level: str
) -> list[dict[str, Any]]:
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
    return settings


def finer_settings(
    estimator: BaseEstimator, settings: Sequence[dict[str, Any]], best: dict[str, Any]
) -> list[dict[str, Any]]:
    """Settings with the widths next to the best one, a factor of sqrt(2) away.

    The grid has a factor of four between widths, and the score falls steeply beyond the best
    (benchmarks/search_rules.md). Parameters that cost no fit of their own take the best value and
    two on either side; the others stay.
    """
    _, final, prefix = split_pipeline(estimator)
    spec = spec_of(final)
    cheap = {prefix + name for name in (spec.path, *spec.after_fit) if name}
    found: list[dict[str, Any]] = []
    for width in (prefix + name for name in spec.scaled):
        around = [s for s in settings if all(s[k] == best[k] for k in {*best} - cheap)]
        at = around.index(best)
        for new in (best[width] / np.sqrt(2.0), best[width] * np.sqrt(2.0)):
            found += [s | {width: float(new)} for s in around[max(at - 2, 0) : at + 3]]
    return found


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
    first = {name: values[0] for name, values in part.items()}
    _check_setting(estimator, first, engine)
    rules = getattr(final, "_parameter_constraints", {})
    for name, values in part.items():
        own = name.removeprefix(prefix)
        for value in values[1:]:
            if name.startswith(prefix) and own in rules:  # without a clone, which takes longer
                validate_parameter_constraints(
                    {own: rules[own]}, {own: value}, caller_name=type(final).__name__
                )
                _check_one_value(name, value, engine)
            else:
                _check_setting(estimator, first | {name: value}, engine)


def _check_setting(estimator, setting, engine):
    model = clone(estimator).set_params(**setting)
    final = unwrap(model)
    if hasattr(final, "_parameter_constraints"):
        final._validate_params()
    params = model.get_params()
    for name in engine:
        _check_one_value(name, params[name], engine)


def _check_one_value(name, value, engine):
    if name in engine and isinstance(value, dict):
        raise ValueError(
            f"{name}={value!r} has one value per class, but a search withholds classes. "
            "Set a number, or search for one value per class with level='class'."
        )
