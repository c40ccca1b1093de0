"""The settings a search tries: from a preset or from the user, checked, in the order of ties."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_array

from ..base import SearchSpec
from ..utils import split_pipeline, unwrap


def preset_grid(estimator, preset: str, X, y: np.ndarray, weight: np.ndarray) -> dict[str, list]:
    """Grid of the estimator's method, under the names it has behind a Pipeline.

    Widths of the default grid are in units of 1 / (features x variance), which are measured here,
    on the transformed rows of X, and become numbers.
    """
    transformer, final, prefix = split_pipeline(estimator)
    grid = _spec(final).grids.get(preset)
    if not grid:
        raise ValueError(
            f"{type(final).__name__} has no grid of its own for preset={preset!r}. Pass param_grid."
        )
    grid = {name: list(values) for name, values in grid.items()}
    scaled = _spec(final).scaled if preset == "default" else {}
    if scaled:
        rows = X if transformer is None else clone(transformer).fit_transform(X, y)
        rows = check_array(
            rows, accept_sparse="csr", dtype=np.float64, estimator=final, input_name="X"
        )
        for name, measure in scaled.items():
            unit = measure(rows, weight)
            grid[name] = [float(value * unit) for value in grid[name]]
    return {prefix + name: values for name, values in grid.items()}


def _spec(final):
    return getattr(final, "search_spec", SearchSpec())


def settings(estimator, grid: dict | list[dict], level: str) -> list[dict[str, Any]]:
    """All settings of a grid. Ties go to the first, so the width varies slowest.

    Raise ValueError, before anything is fitted, if the estimator cannot take one of the values.
    """
    if not list(ParameterGrid(grid)):  # which checks the form
        raise ValueError(f"param_grid={grid!r} is empty. Give at least one setting.")
    candidates = []
    for part in [grid] if isinstance(grid, dict) else grid:
        _check(estimator, part, level)
        names = sorted(part, key=lambda name: (not name.endswith("gamma"), name))
        for values in product(*(part[name] for name in names)):
            candidates.append(dict(zip(names, values, strict=True)))
    return candidates


def _check(estimator, part, level):
    _, final, prefix = split_pipeline(estimator)
    by_machine = [prefix + name for name in _spec(final).engine]
    if level == "class" and not set(part) <= set(by_machine):
        raise ValueError(
            f"level='class' gives each binary machine parameters of its own, which can be "
            f"{by_machine}; param_grid has {sorted(part)}. Use level='model'."
        )
    first = {name: values[0] for name, values in part.items()}
    _check_setting(estimator, first, by_machine)
    for name, values in part.items():
        for value in values[1:]:
            _check_setting(estimator, first | {name: value}, by_machine)


def _check_setting(estimator, setting, by_machine):
    model = clone(estimator).set_params(**setting)
    final = unwrap(model)
    if hasattr(final, "_parameter_constraints"):
        final._validate_params()
    params = model.get_params()
    for name in by_machine:
        if isinstance(params[name], dict):
            raise ValueError(
                f"{name}={params[name]!r} has a value for each class, but a search withholds "
                "classes. Set a number, or find one for each class with level='class'."
            )
