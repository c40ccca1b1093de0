"""What a method declares: its traits, its search, constraints on parameters and shared grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..kernels import Kernel, Linear
from .machines import unit_gamma

T = TypeVar("T")

# Thresholds and fractions: 20 values, linear in [0, 1).
FRACTIONS = [k / 20 for k in range(20)]
# Quantiles of distances: dense where few known samples are rejected.
QUANTILES = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99, 1.0]
# Kernel widths as multiples of `unit_gamma`, for any data.
SCALED_GAMMAS = [2.0**k for k in range(-7, 10, 2)]
# Values of C.
BOXES = [1.0, 8.0]

POSITIVE = Interval(Real, 0.0, None, closed="neither")
SHARE = Interval(Real, 0.0, 1.0, closed="both")
NUMBER = Interval(Real, None, None, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")

# Permitted values of the parameters that methods share, as scikit-learn writes them.
RULES: dict[str, Any] = {
    "C": [POSITIVE, dict],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "gamma": [StrOptions({"scale", "auto"}), POSITIVE, dict],
    "kernel": [str, Kernel, Linear],
    "tol": [POSITIVE],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "cache_size": [POSITIVE],
    "n_jobs": [Integral, None],
    "landmarks": [COUNT, "array-like", "sparse matrix", None],
    "device": [StrOptions({"cpu", "cuda", "auto"})],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
    "quantile": [SHARE],
    "metric": [StrOptions({"euclidean", "cosine"})],
    "unknown_label": "no_validation",
}


def param(default: Any, *rules: Any) -> Any:
    """A parameter of an estimator: its default, and what it may be."""
    return field(default=default, metadata={"rules": list(rules)})


@dataclass_transform(eq_default=False)
def with_parameters(cls: type[T]) -> type[T]:
    """A dataclass whose fields are the parameters of an estimator; scikit-learn checks them."""
    made: Any = dataclass(eq=False, repr=False)(cls)
    rules: dict[str, Any] = {}
    for own in fields(made):
        usual = ["boolean"] if own.type == "bool" else RULES.get(own.name)
        if rule := own.metadata.get("rules", usual):
            rules[own.name] = rule
    made._parameter_constraints = rules | vars(made).get("_parameter_constraints", {})
    return made


@dataclass(frozen=True)
class Traits:
    """What is known about a method before it is fitted, for tables of methods.

    Attributes
    ----------
    name : str
        Short name in the literature.
    extreme_value, one_class : bool
        Whether it models tails by extreme value theory; whether it trains machines on the samples
        of one class alone.
    bounded, condition : bool, str
        Whether the regions it accepts are bounded as a rule, and exactly when, where that depends
        on the fit or on a parameter.
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
        For each preset ("default", "paper") the values to try, by parameter name. Without an entry
        for it, the paper's preset has that of the base class, or else the default grid.
    levels : mapping of str to {"model", "class"}
        For each preset, whether it chooses one setting for the whole model or one per class. A
        preset that is missing means "model", and "class" for the paper's where there is an engine.
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


# Machines against the rest have negatives, and known unknowns are such.
machine_traits = partial(Traits, known_unknowns="negatives of every machine")


def kernel_search(grid: dict, engine: tuple[str, ...] = (), **options) -> SearchSpec:
    """Declare the search of a kernel machine: a grid over gamma and what else the search tries."""
    grids = {"default": {"gamma": SCALED_GAMMAS, **grid}}
    return SearchSpec(grids=grids, scaled={"gamma": unit_gamma}, engine=engine, **options)
