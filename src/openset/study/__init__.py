"""The experiment: a study as a file, its tasks, the store of results, statistics, the report."""

from importlib import import_module

from ._measures import MEASURES
from ._protocol import Split, make_split
from ._runner import run_study
from ._spec import Study, Task, load_study
from ._store import Store, StoreError
from ._tasks import run_task

__all__ = [
    "MEASURES",
    "Split",
    "Store",
    "StoreError",
    "Study",
    "Task",
    "load_study",
    "make_split",
    "run_study",
    "run_task",
    "stats",
    "write_report",
]


def __getattr__(name: str):
    if name == "stats":
        return import_module(f"{__name__}.stats")
    if name == "write_report":  # which loads the plots
        return import_module(f"{__name__}._report").write_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
