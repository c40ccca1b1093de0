"""A large grid in two stages: coarse over all of it, then fine around the best.

An axis of the grid is thinned to about five values, every second or every fourth, and so on. Where
the best of those lies, the values that were left out up to its neighbours are tried as well. What
costs nothing, a parameter that acts after fitting, is never thinned.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Above this number of classes the search over a default grid goes in stages.
MANY_CLASSES = 50

# Values of a thinned axis, at least.
_FEWEST = 5


def stride(n: int) -> int:
    """Largest power of two of which n values leave at least five."""
    step = 1
    while -(-n // (2 * step)) >= _FEWEST:
        step *= 2
    return step


def coarse(candidates: list[dict[str, Any]], grid: dict[str, list], free=()) -> np.ndarray:
    """Candidates of the first stage, as indices.

    Parameters
    ----------
    candidates : list of dict
        All settings of the grid.
    grid : dict {name: list}
    free : collection of str
        Names of the parameters that are not thinned.
    """
    kept = {name: values[:: _stride_of(name, values, free)] for name, values in grid.items()}
    return _members(candidates, kept)


def fine(
    candidates: list[dict[str, Any]], grid: dict[str, list], best: dict[str, Any], free=()
) -> np.ndarray:
    """Candidates of the second stage, those around `best`, as indices; arguments of `coarse`."""
    kept = {}
    for name, values in grid.items():
        step = _stride_of(name, values, free)
        if step == 1:
            kept[name] = values
        else:
            at = values.index(best[name])
            kept[name] = values[max(0, at - step + 1) : at + step]
    return _members(candidates, kept)


def _stride_of(name, values, free):
    return 1 if name in free else stride(len(values))


def _members(candidates, kept):
    inside = [all(value in kept[name] for name, value in c.items()) for c in candidates]
    return np.flatnonzero(inside)
