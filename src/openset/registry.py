"""The registry of methods: the one list of estimators, their modules and their names.

To add a method, write its file, export it from its package, and add one entry here. Everything
else that lists methods (the names of ``openset``, :func:`all_estimators`, the table of methods, the
command line, model files, the tests of all estimators, the documentation) reads this list. Loading
it loads no estimator.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple


class Method(NamedTuple):
    """One entry of the registry."""

    estimator: str  # name of the class
    module: str  # module that exports it
    command: str | None  # name on the command line; None for a wrapper of another estimator


# In the order in which the command line names them.
METHODS: list[Method] = [
    Method("OpenSetSVC", "openset.svm", "ossvm"),
    Method("OneVsRestSVC", "openset.svm", "svm"),
    Method("ThresholdSVC", "openset.svm", "svm-threshold"),
    Method("FixedBiasSVC", "openset.svm", "svm-without-bias"),
    Method("DecisionBoundaryCarving", "openset.svm", "dbc"),
    Method("MulticlassOneClassSVM", "openset.svm", "ocsvm"),
    Method("MulticlassSVDD", "openset.svm", "svdd"),
    Method("OneVsSetMachine", "openset.svm", "1-vs-set"),
    Method("WSVM", "openset.evt", "w-svm"),
    Method("PISVM", "openset.evt", "pi-svm"),
    Method("ExtremeValueMachine", "openset.evt", "evm"),
    Method("OSNN", "openset.neighbors", "osnn"),
    Method("OpenSetKNN", "openset.neighbors", "knn"),
    Method("OpenSetLDA", "openset.gaussian", "lda"),
    Method("OpenSetCentroids", "openset.gaussian", "centroids"),
    Method("SIMCA", "openset.gaussian", "simca"),
    Method("ViM", "openset.gaussian", "vim"),
    Method("CascadeRejector", "openset.wrappers", None),
    Method("ThresholdRejector", "openset.wrappers", None),
]

# Former name of a class -> its name today, for model files and results from that time.
RENAMED_METHODS = {
    "OpenSetNearestNeighbors": "OSNN",
    "UnbiasedSVC": "FixedBiasSVC",
    "WeibullSVM": "WSVM",
}

# Former parameter of CalibratedRejector, or text for its `criterion` -> how it is said today.
FORMER_PARAMETERS = {
    "per_class": "criterion=KnownRejected(alpha, within='class')",
    "by": "criterion=KnownRejected(alpha, own_class=True) for 'own'; 'highest' is the default",
    "precision": "criterion=Precision(target, confidence, unknown_share)",
    "confidence": "criterion=Precision(target, confidence, unknown_share)",
    "unknown_share": "criterion=Precision(..., unknown_share=...) or Cost(..., unknown_share=...)",
    "costs": "criterion=Cost(reject, wrong, accept_unknown, unknown_share)",
}
FORMER_CRITERIA = {
    "fu": "KnownRejected(alpha), the default",
    "precision": "Precision(target, confidence, unknown_share)",
    "cost": "Cost(reject, wrong, accept_unknown, unknown_share)",
    "aus": "UnknownRejected(share), share being 1 - alpha",
    "hna": "Accuracy()",
}


def refuse_former(name: str, parameters: Iterable[str]) -> None:
    """Raise TypeError if a parameter has a former name; `name` is that of the class."""
    for old in set(parameters) & FORMER_PARAMETERS.keys():
        raise TypeError(f"{name} has no parameter {old!r}; use {FORMER_PARAMETERS[old]}.")


def _load(method: Method) -> Any:
    return getattr(import_module(method.module), method.estimator)


def all_estimators() -> list[tuple[str, Any]]:
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
    return [(method.estimator, _load(method)) for method in sorted(METHODS)]


def method_names() -> dict[str, Any]:
    """The methods that need no other estimator, by their names on the command line."""
    return {method.command: _load(method) for method in sorted(METHODS) if method.command}


class MethodRow(NamedTuple):
    """One row of the table of methods."""

    method: str  # short name in the literature
    estimator: str  # name of the class
    kernel: str  # by default; empty where the method has none
    extreme_value: bool  # whether it models tails by extreme value theory
    one_class: bool  # whether it trains machines on one class alone
    bounded: bool  # whether the accepted regions are bounded as a rule
    footnote: str  # exactly when they are, where that depends on the fit or on a parameter
    command: str | None  # name on the command line; None for a wrapper


def method_table() -> list[MethodRow]:
    """The paper's table of methods, from the registry and the ``traits`` of the estimators."""
    rows = []
    for method in sorted(METHODS):
        estimator = _load(method)
        traits = estimator.traits
        parameter = signature(estimator).parameters.get("kernel")
        kernel = getattr(estimator, "kernel", "") if parameter is None else parameter.default
        flags = traits.extreme_value, traits.one_class, traits.bounded
        names = traits.name, method.estimator, kernel
        rows.append(MethodRow(*names, *flags, traits.condition, method.command))
    return rows
