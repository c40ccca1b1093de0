"""Open-set recognition for scikit-learn: one of your classes, or unknown.

Importing this package is cheap: estimators and submodules load on first use, so nothing is
compiled and no optional dependency is touched until it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .registry import METHODS as _METHODS

if TYPE_CHECKING:  # type checkers see what is loaded lazily; a test compares it with the registry
    from .base import make_pipeline as make_pipeline
    from .calibration import CalibratedRejector as CalibratedRejector
    from .discovery import group_unknowns as group_unknowns
    from .evt import PISVM as PISVM
    from .evt import WSVM as WSVM
    from .evt import ExtremeValueMachine as ExtremeValueMachine
    from .gaussian import SIMCA as SIMCA
    from .gaussian import OpenSetCentroids as OpenSetCentroids
    from .gaussian import OpenSetLDA as OpenSetLDA
    from .gaussian import ViM as ViM
    from .host import show_versions as show_versions
    from .host import warm as warm
    from .model_selection import OpenSetSearchCV as OpenSetSearchCV
    from .neighbors import OSNN as OSNN
    from .neighbors import OpenSetKNN as OpenSetKNN
    from .registry import all_estimators as all_estimators
    from .svm import DecisionBoundaryCarving as DecisionBoundaryCarving
    from .svm import FixedBiasSVC as FixedBiasSVC
    from .svm import MulticlassOneClassSVM as MulticlassOneClassSVM
    from .svm import MulticlassSVDD as MulticlassSVDD
    from .svm import OneVsRestSVC as OneVsRestSVC
    from .svm import OneVsSetMachine as OneVsSetMachine
    from .svm import OpenSetSVC as OpenSetSVC
    from .svm import ThresholdSVC as ThresholdSVC
    from .wrappers import CascadeRejector as CascadeRejector
    from .wrappers import ThresholdRejector as ThresholdRejector

__version__ = "0.2.0"

# public name -> submodule that defines it
_NAMES = {method.estimator: method.module.split(".")[1] for method in _METHODS} | {
    "CalibratedRejector": "calibration",
    "OpenSetSearchCV": "model_selection",
    "all_estimators": "utils",
    "group_unknowns": "discovery",
    "make_pipeline": "base",
    "show_versions": "utils",
    "warm": "utils",
}

_SUBMODULES = frozenset(
    (
        *("base", "calibration", "datasets", "discovery", "evaluation", "evt", "export"),
        *("gaussian", "kernels", "metrics", "model_selection", "monitoring", "neighbors"),
        *("persistence", "plots", "solver", "study", "svm", "tables", "traffic"),
        *("utils", "wrappers"),
    )
)

__all__ = sorted([*_NAMES, "__version__"])


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
