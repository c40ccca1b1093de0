"""Helpers that every subpackage shares.

The decision rule, unwrapping, threads, progress, atomic writes, the registry of estimators and the
report of versions are here. Import the submodules ``compiled``, ``distances``,
``estimator_checks``, ``page`` and ``stats`` by name.
"""

from ._archive import read_member, stored_array_size
from ._critical_difference import critical_difference, critical_value
from ._decision import answer_labels, decide
from ._files import atomic_write, last_written, update_lock
from ._host import host_info, show_versions
from ._masked import refuse_masked
from ._parallel import interrupts, thread_map
from ._progress import Progress
from ._registry import (
    METHODS,
    RENAMED_METHODS,
    Method,
    MethodRow,
    all_estimators,
    method_names,
    method_table,
)
from ._unwrap import layers, split_fitted, split_pipeline, unwrap

__all__ = [
    "METHODS",
    "RENAMED_METHODS",
    "Method",
    "MethodRow",
    "Progress",
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
    "stored_array_size",
    "thread_map",
    "unwrap",
    "update_lock",
]
