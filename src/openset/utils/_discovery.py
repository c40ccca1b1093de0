"""Every estimator of the library, and what distinguishes them."""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import NamedTuple

_ROOMS = ("svm", "evt", "neighbors", "wrappers")


def all_estimators() -> list[tuple[str, type]]:
    """All estimators, as scikit-learn's function of this name lists its own.

    Returns
    -------
    list of (name, class)
        Sorted by name.

    Examples
    --------
    >>> import openset
    >>> [name for name, _ in openset.all_estimators()][:3]
    ['CascadeRejector', 'DecisionBoundaryCarving', 'ExtremeValueMachine']
    """
    found = {}
    for room in _ROOMS:
        module = import_module(f"openset.{room}")
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and hasattr(value, "_traits"):
                found[name] = value
    return sorted(found.items())


class MethodRow(NamedTuple):
    """One row of the table of methods.

    Parameters
    ----------
    method, estimator : str
        Short name in the literature, and name of the class.
    kernel : str
        Kernel by default; empty where the method has none.
    extreme_value, one_class, bounded : bool
        Whether it models tails by extreme value theory, trains machines on one class alone, and
        accepts bounded regions as a rule.
    footnote : str
        Exactly when the regions are bounded, where that depends on the fit or on a parameter.
    """

    method: str
    estimator: str
    kernel: str
    extreme_value: bool
    one_class: bool
    bounded: bool
    footnote: str

    @property
    def command(self) -> str:
        """Name of the method on the command line; empty for a wrapper of other estimators."""
        wrapper = self.estimator.endswith("Rejector")
        return "" if wrapper else self.method.lower().replace(" ", "-")


def method_table() -> list[MethodRow]:
    """The paper's table of methods, from what the estimators say of themselves.

    Returns
    -------
    list of MethodRow
        Sorted by the name of the estimator.

    Examples
    --------
    >>> from openset.utils import method_table
    >>> row = method_table()[2]
    >>> row.method, row.kernel, row.extreme_value, row.bounded, row.footnote
    ('EVM', '', True, True, 'threshold > 0 and the Euclidean metric')
    """
    rows = []
    for name, estimator in all_estimators():
        traits = estimator._traits
        parameter = signature(estimator).parameters.get("kernel")
        kernel = getattr(estimator, "kernel", "") if parameter is None else parameter.default
        rows.append(
            MethodRow(
                traits.name,
                name,
                kernel,
                traits.extreme_value,
                traits.one_class,
                traits.bounded,
                traits.condition,
            )
        )
    return rows
