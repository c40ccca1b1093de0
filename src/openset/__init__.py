"""Open-set recognition for scikit-learn: one of your classes, or unknown.

Importing this package is cheap: estimators and submodules load on first use, so nothing is
compiled and no optional dependency is touched until it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # type checkers see what is loaded lazily
    from openset.base import make_pipeline
    from openset.calibration import CalibratedRejector
    from openset.discovery import group_unknowns
    from openset.evt import PISVM, WSVM, ExtremeValueMachine
    from openset.gaussian import OpenSetCentroids, OpenSetLDA
    from openset.model_selection import OpenSetSearchCV
    from openset.neighbors import OSNN, OpenSetKNN
    from openset.svm import (
        DecisionBoundaryCarving,
        FixedBiasSVC,
        MulticlassOneClassSVM,
        MulticlassSVDD,
        OneVsRestSVC,
        OneVsSetMachine,
        OpenSetSVC,
    )
    from openset.utils import all_estimators, show_versions
    from openset.wrappers import CascadeRejector, ThresholdRejector

__version__ = "0.1.0"

# public name -> submodule that defines it
_NAMES = {
    "CalibratedRejector": "calibration",
    "CascadeRejector": "wrappers",
    "DecisionBoundaryCarving": "svm",
    "ExtremeValueMachine": "evt",
    "MulticlassOneClassSVM": "svm",
    "MulticlassSVDD": "svm",
    "OneVsRestSVC": "svm",
    "OneVsSetMachine": "svm",
    "OSNN": "neighbors",
    "OpenSetCentroids": "gaussian",
    "OpenSetKNN": "neighbors",
    "OpenSetLDA": "gaussian",
    "OpenSetSVC": "svm",
    "OpenSetSearchCV": "model_selection",
    "PISVM": "evt",
    "ThresholdRejector": "wrappers",
    "FixedBiasSVC": "svm",
    "WSVM": "evt",
    "all_estimators": "utils",
    "group_unknowns": "discovery",
    "make_pipeline": "base",
    "show_versions": "utils",
}

_SUBMODULES = frozenset(
    {
        "base",
        "calibration",
        "datasets",
        "discovery",
        "evaluation",
        "evt",
        "export",
        "gaussian",
        "kernels",
        "metrics",
        "model_selection",
        "monitoring",
        "neighbors",
        "persistence",
        "plots",
        "solver",
        "study",
        "svm",
        "utils",
        "wrappers",
    }
)

__all__ = [
    "OSNN",
    "PISVM",
    "WSVM",
    "CalibratedRejector",
    "CascadeRejector",
    "DecisionBoundaryCarving",
    "ExtremeValueMachine",
    "FixedBiasSVC",
    "MulticlassOneClassSVM",
    "MulticlassSVDD",
    "OneVsRestSVC",
    "OneVsSetMachine",
    "OpenSetCentroids",
    "OpenSetKNN",
    "OpenSetLDA",
    "OpenSetSVC",
    "OpenSetSearchCV",
    "ThresholdRejector",
    "__version__",
    "all_estimators",
    "group_unknowns",
    "make_pipeline",
    "show_versions",
]


def __getattr__(name: str):
    if name in _NAMES:
        value = getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES})
