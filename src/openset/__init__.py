"""Open-set recognition for scikit-learn: one of your classes, or unknown.

Importing this package is cheap: estimators and submodules load on first use, so nothing is
compiled and no optional dependency is touched until it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # type checkers see what is loaded lazily
    from openset.svm import OneVsRestSVC, OpenSetSVC

__version__ = "0.1.0.dev0"

# public name -> submodule that defines it
_NAMES = {
    "OneVsRestSVC": "svm",
    "OpenSetSVC": "svm",
}

_SUBMODULES = frozenset(
    {"base", "datasets", "kernels", "metrics", "model_selection", "solver", "svm", "utils"}
)

__all__ = ["OneVsRestSVC", "OpenSetSVC", "__version__"]


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
