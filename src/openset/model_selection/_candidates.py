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

from ..utils import split_pipeline, unwrap
from ._evaluate import Candidate, SearchData, spec_of

Grid = Mapping[str, Sequence[Any]]

# Smallest lead of the best setting after one simulation that takes others out of the race.
_LEAST_MARGIN = 0.02


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


def in_the_race(
    candidates: Sequence[Candidate], scores: np.ndarray, data: SearchData
) -> list[Candidate]:
    """Candidates that are not behind the best by more than chance explains.

    `scores`, of shape (all candidates, r), holds the simulations so far. Chance is three standard
    errors of a mean of r scores, each the mean of two shares, one of the known and one of the
    unknown validation samples. Differences between draws of classes come on top: in full searches
    on letter, pendigits, BANKING77 and CLINC150 the best settings differed by 0.005 to 0.012 from
    simulation to simulation, hence the floor.
    """
    means = np.array([scores[candidate.number].mean() for candidate in candidates])
    if not np.isfinite(means).any():
        return list(candidates)
    best = np.max(means[np.isfinite(means)])
    unknown = [data.validation_codes(s) for s in range(scores.shape[1])]
    counts = [(np.sum(codes == codes.max()), np.sum(codes < codes.max())) for codes in unknown]
    share = np.mean([1 / max(a, 1) + 1 / max(b, 1) for a, b in counts])
    error = 0.5 * np.sqrt(abs(best) * (1 - abs(best)) * share)
    margin = max(3 * error, _LEAST_MARGIN) / np.sqrt(scores.shape[1])
    return [c for c, mean in zip(candidates, means, strict=True) if mean >= best - margin]
