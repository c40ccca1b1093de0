"""What a method declares about itself: for tables of methods, and for the search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Traits:
    """What is known about a method before it is fitted, for tables of methods.

    Attributes
    ----------
    name : str
        Short name in the literature.
    extreme_value : bool
        Whether it models tails by extreme value theory.
    one_class : bool
        Whether it trains machines on the samples of one class alone.
    bounded : bool
        Whether the regions it accepts are bounded as a rule.
    condition : str
        Exactly when they are, where that depends on the fit or on a parameter.
    known_unknowns : str
        How it uses training rows that carry an explicit unknown label; empty if it refuses them.
    """

    name: str
    extreme_value: bool = False
    one_class: bool = False
    bounded: bool = False
    condition: str = ""
    known_unknowns: str = ""


@dataclass(frozen=True)
class SearchSpec:
    """How a search may vary the parameters of an estimator.

    An estimator declares one as its class attribute ``search_spec``. Everything is optional: with
    an empty declaration a search fits every setting of the user's own grid separately.

    Attributes
    ----------
    grids : mapping of str to mapping of str to sequence
        For each preset ("default", "paper") the values to try, by parameter name.
    levels : mapping of str to {"model", "class"}
        For each preset, whether it chooses one setting for the whole model or one per class. A
        preset that is missing means "model".
    scaled : mapping of str to callable
        For parameters whose values in the default grid are multiples of a unit that depends on the
        data: a function ``unit(X, weight) -> float`` that measures it.
    engine : tuple of str
        Numeric parameters that the grid engine varies without separate fits; see
        :class:`openset.base.KernelMachineClassifier`.
    path : str or None
        The engine parameter whose values differ only in the sum of the multipliers, so that they
        are solved as one path.
    after_fit : tuple of str
        Parameters that act on raw scores only, such as a threshold: a search tries all their
        values on one fit. See :meth:`openset.base.OpenSetClassifier.decide`.
    bounded_switch : str or None
        A boolean parameter that forces accepted regions to be bounded. A search turns it off and,
        where it was set, treats a setting with unbounded regions as infeasible.
    """

    grids: Mapping[str, Mapping[str, Sequence]] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    scaled: Mapping[str, Callable[[Any, np.ndarray], float]] = field(default_factory=dict)
    engine: tuple[str, ...] = ()
    path: str | None = None
    after_fit: tuple[str, ...] = ()
    bounded_switch: str | None = None
