"""Helpers that every subpackage shares.

The decision rule, unwrapping, threads, progress and atomic writes are here. Import the submodules
``compiled``, ``estimator_checks`` and ``text`` by name. The registry of methods and the report
of versions, which know the whole package, are found here as well, as are critical differences.
"""

from importlib import import_module
from typing import Any

from ._contract import (
    answer_labels,
    decide,
    layers,
    refuse_masked,
    split_fitted,
    split_pipeline,
    unwrap,
)
from ._contract import chosen_width as chosen_width
from ._contract import needs as needs
from ._contract import replace_final as replace_final
from ._files import atomic_write, last_written, read_member, stored_array_size, update_lock
from ._parallel import Progress, interrupts, steps_of_fit, thread_map

# Modules on the top floor, and the names that are loaded from them when somebody asks.
_ABOVE = {
    "registry": (
        *("METHODS", "RENAMED_METHODS", "Method", "MethodRow"),
        *("all_estimators", "method_names", "method_table"),
    ),
    "host": ("WarmReport", "host_info", "show_versions", "warm"),
    "evaluation.stats": ("critical_difference", "critical_value"),
}

__all__ = ["Progress", "answer_labels", "atomic_write", "decide", "interrupts", "last_written"]
__all__ += ["layers", "read_member", "refuse_masked", "split_fitted", "split_pipeline"]
__all__ += ["steps_of_fit", "stored_array_size", "thread_map", "unwrap", "update_lock"]
__all__ += [name for names in _ABOVE.values() for name in names]


def __getattr__(name: str) -> Any:
    for module, names in _ABOVE.items():
        if name in names:
            return getattr(import_module(f"openset.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
