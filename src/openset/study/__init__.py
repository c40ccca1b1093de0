"""The experiment: a study as a file, its tasks, the store of results, statistics, the report."""

from importlib import import_module

from ._runner import run_study
from ._store import Store, StoreError
from ._study import MEASURES, Study, Task, load_study
from ._tasks import ColumnDraw, accuracy_by_rejection, draw_from_column, make_split, run_task

__all__ = [
    "MEASURES",
    "ColumnDraw",
    "Ranking",
    "Store",
    "StoreError",
    "Study",
    "Task",
    "accuracy_by_rejection",
    "draw_from_column",
    "load_study",
    "make_split",
    "rank_methods",
    "run_study",
    "run_task",
    "stats",
    "write_report",
]

# These load pandas and the plots.
_LAZY = {"Ranking": "_ranks", "rank_methods": "_ranks", "write_report": "_report"}


def __getattr__(name: str):
    if name == "stats":
        return import_module(f"{__name__}.stats")
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
