"""Helpers that every subpackage shares.

The decision rule, unwrapping, threads, progress, atomic writes and the registry of estimators are
here. Import the submodules ``compiled``, ``distances``, ``estimator_checks``, ``page`` and
``stats`` by name.
"""

from ._archive import read_member, stored_array_size
from ._critical_difference import critical_difference, critical_value
from ._decision import answer_labels, decide
from ._files import atomic_write
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
    "interrupts",
    "layers",
    "method_names",
    "method_table",
    "read_member",
    "split_fitted",
    "split_pipeline",
    "stored_array_size",
    "thread_map",
    "unwrap",
]
