"""The runner: run the remaining tasks, and store each row as soon as it is finished."""

import os
import sys
import time
from collections import Counter
from functools import partial
from typing import Any

from ..utils import Progress
from ._pools import DaskPool, LocalPool, available_cores
from ._spec import Study, Task
from ._store import Store
from ._tasks import class_count, failed, run_task

# A process may be killed because others filled the memory; a second time it is the task itself.
_TRIES = 2


def run_study(
    study: Study,
    store: Store,
    *,
    data_home: str | os.PathLike | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    time_limit: float | None = None,
    retry: bool = False,
    verbose: bool = False,
) -> Counter:
    """Run the tasks of a study that are not in the store.

    It is safe to interrupt or kill: call it again to resume. A task that fails is recorded with
    its error and does not stop the others.

    Parameters
    ----------
    study : Study
    store : Store
        No other process may write to it meanwhile.
    data_home : path-like, default=None
        Folder of the datasets, also on the workers of a cluster; None takes it from the
        environment variable ``OPENSET_DATA``.
    jobs : int, default=None
        Processes; None is one per core. All their threads together never exceed the cores.
    scheduler : str, default=None
        Address of a Dask scheduler whose workers run the tasks instead.
    time_limit : float, default=None
        Seconds after which no further task is started.
    retry : bool, default=False
        Run only the tasks that failed before.
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    Counter
        Numbers of tasks "done", "failed" and "left".

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from openset.study import Store, Study, run_study
    >>> study = Study("tiny", ("make_four_gauss",), ("OneVsSetMachine",), (3,), runs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store(Path(folder) / "results.sqlite", create=True) as store:
    ...         counts = run_study(study, store, jobs=1)
    >>> counts["done"], counts["failed"], counts["left"]
    (1, 0, 0)
    """
    begin = time.monotonic()
    store.check(study)
    tasks = list(study.tasks(count_classes(study, data_home)))
    failures = store.tasks("failed")
    wanted = failures if retry else set(tasks) - store.tasks("done") - failures
    waiting = [task for task in reversed(tasks) if task in wanted]
    counts: Counter = Counter(left=len(waiting))
    if not waiting:
        return counts
    progress: Progress | _LogProgress = Progress(len(waiting), study.name, verbose)
    if verbose and not sys.stderr.isatty():
        progress = _LogProgress(len(waiting), study.name)
    pool = _make_pool(study, data_home, jobs, scheduler)
    running, tries = 0, Counter[Task]()
    try:
        while True:
            late = time_limit is not None and time.monotonic() - begin >= time_limit
            while waiting and not late and running < pool.capacity():
                task = waiting.pop()
                tries[task] += 1
                pool.submit(task)
                running += 1
            if not running:
                return counts
            for task, row in pool.wait(1.0):
                running -= 1
                if row is None and tries[task] < _TRIES:
                    waiting.append(task)
                    continue
                if row is None:
                    row = failed(task, f"its process died {_TRIES} times; out of memory?")
                store.put(row)
                counts[row["status"]] += 1
                counts["left"] -= 1
                progress.step()
    finally:
        pool.close()


def count_classes(study: Study, data_home: Any = None) -> dict[str, int]:
    """Number of classes of each dataset of the study; an error if one cannot be loaded."""
    return {name: class_count(study, name, data_home) for name in study.datasets}


def _make_pool(study, data_home, jobs, scheduler):
    work = partial(run_task, study=study, data_home=data_home)
    if scheduler is not None:
        return DaskPool(work, scheduler)
    cores = available_cores()
    jobs = cores if jobs is None else jobs
    if not 1 <= jobs <= cores:
        raise ValueError(f"jobs={jobs} must be from 1 to {cores}, the number of cores.")
    return LocalPool(partial(work, threads=cores // jobs), jobs)


class _LogProgress:
    """Progress in a log: one line every half minute."""

    def __init__(self, total: int, title: str):
        self._total, self._title, self._done = total, title, 0
        self._begin = self._last = time.monotonic()

    def step(self) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._last >= 30 or self._done == self._total:
            self._last = now
            left = (now - self._begin) * (self._total - self._done) / self._done
            text = f"{self._title}: {self._done}/{self._total}, {left / 60:.0f} min left"
            print(text, file=sys.stderr, flush=True)
