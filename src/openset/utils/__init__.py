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
from ._contract import replace_final as replace_final
from ._files import atomic_write, last_written, read_member, stored_array_size, update_lock
from ._parallel import Progress, interrupts, steps_of_fit, thread_map

# Name -> module on the top floor that defines it; loaded when somebody asks.
_ABOVE = {
    **{"METHODS": "registry", "RENAMED_METHODS": "registry", "Method": "registry"},
    **{"MethodRow": "registry", "all_estimators": "registry", "method_names": "registry"},
    **{"method_table": "registry", "host_info": "host", "show_versions": "host"},
    **{"WarmReport": "host", "warm": "host"},
    **{"critical_difference": "evaluation.stats", "critical_value": "evaluation.stats"},
}

__all__ = [
    "METHODS",
    "RENAMED_METHODS",
    "Method",
    "MethodRow",
    "Progress",
    "WarmReport",
    "all_estimators",
    "answer_labels",
    "atomic_write",
    "critical_difference",
    "critical_value",
    "decide",
    "host_info",
    "interrupts",
    "last_written",
    "layers",
    "method_names",
    "method_table",
    "read_member",
    "refuse_masked",
    "show_versions",
    "split_fitted",
    "split_pipeline",
    "steps_of_fit",
    "stored_array_size",
    "thread_map",
    "unwrap",
    "update_lock",
    "warm",
]


def __getattr__(name: str) -> Any:
    if name in _ABOVE:
        return getattr(import_module(f"openset.{_ABOVE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
