"""The runner: run the remaining tasks in processes or on a cluster, and store each row at once."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import connection, resource_tracker
from typing import Any

from ..utils import Progress, needs
from ._store import Store
from ._study import Study, Task
from ._tasks import Row, class_count, failed, run_task

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

    Safe to interrupt or kill: call it again to resume. A task that fails is recorded with its error
    and does not stop the others.

    Parameters
    ----------
    study : Study
    store : Store
        No other process may write to it meanwhile.
    data_home
        As for :func:`run_task`; also on the workers of a cluster.
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
    n_classes = count_classes(study, data_home)
    study.check_numbers(n_classes)
    tasks = list(study.tasks(n_classes))
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
    end = math.inf if time_limit is None else begin + time_limit
    try:
        for row in _rows(pool, waiting, end):
            store.put(row)
            counts[row["status"]] += 1
            counts["left"] -= 1
            progress.step()
    finally:
        pool.close()
    return counts


def _rows(pool: LocalPool | DaskPool, waiting: list[Task], end: float) -> Iterator[Row]:
    """Yield rows as tasks finish; none starts after the time `end`."""
    running, tries = 0, Counter[Task]()
    while True:
        while waiting and time.monotonic() < end and running < pool.capacity():
            task = waiting.pop()
            tries[task] += 1
            pool.submit(task)
            running += 1
        if not running:
            return
        for task, row in pool.wait(1.0):
            running -= 1
            if row is None and tries[task] < _TRIES:
                waiting.append(task)
            else:
                yield row or failed(task, f"its process died {_TRIES} times; out of memory?")


def count_classes(study: Study, data_home: Any = None) -> dict[str, int]:
    """Number of classes of each dataset of the study; an error if one cannot be loaded."""
    return {name: class_count(study, name, data_home) for name in study.datasets}


def _make_pool(study, data_home, jobs, scheduler):
    work, cores = partial(run_task, study=study, data_home=data_home), available_cores()
    if scheduler is not None:
        return DaskPool(work, scheduler)
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


Work = Callable[[Task], Row]

_NOT_STARTED = (
    "A worker process ended before it began; see its error above. Every worker imports the script "
    "that started it: call run_study under `if __name__ == '__main__':`, in a file that Python can "
    "import. Nothing was recorded as failed."
)


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalPool:
    """Processes with one task each, so that it is known which task killed its process."""

    # `work` turns a task into a row and can be pickled; `jobs` is the number of processes.

    def __init__(self, work: Work, jobs: int):
        self._work, self._jobs = work, jobs
        # Not forked: a fork copies locks that threads of this process hold.
        self._context = multiprocessing.get_context("spawn")
        self._idle: list[_Slot] = []
        self._busy: dict[connection.Connection, tuple[_Slot, Task]] = {}

    def capacity(self) -> int:
        return self._jobs

    def submit(self, task: Task) -> None:
        slot = self._idle.pop() if self._idle else _Slot(self._context, self._work)
        # A process that died while idle is reported by `wait`.
        with suppress(OSError):
            slot.connection.send(task)
        self._busy[slot.connection] = slot, task

    def wait(self, seconds: float) -> list[tuple[Task, Row | None]]:
        finished: list[tuple[Task, Row | None]] = []
        for ready in connection.wait(list(self._busy), seconds):
            slot, task = self._busy.pop(ready)  # type: ignore[call-overload]
            try:
                row = slot.connection.recv()
            except (EOFError, OSError):
                slot.kill()
                if not slot.started:
                    raise RuntimeError(_NOT_STARTED) from None
                finished.append((task, None))
                continue
            if slot.started:
                finished.append((task, row))
                self._idle.append(slot)
            else:  # the first message says that the process has started
                slot.started = True
                self._busy[slot.connection] = slot, task
        return finished

    def close(self) -> None:
        for slot in [*self._idle, *(slot for slot, _ in self._busy.values())]:
            slot.kill()


class _Slot:
    """A process that waits for tasks, and the pipe to it."""

    def __init__(self, context, work: Work):
        self.started = False
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, work), daemon=True)
        # Ctrl-C would end the process with a traceback while it imports. One that is started while
        # it is blocked never gets it, and this process gets it afterwards.
        can_block = hasattr(signal, "pthread_sigmask")  # not on Windows
        if can_block:
            resource_tracker.ensure_running()  # its start would let Ctrl-C through
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            if can_block:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # else the end of the pipe would not be noticed when the process dies

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(pipe: connection.Connection, work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner
    threading.Thread(target=_follow_parent, daemon=True).start()
    with suppress(EOFError):
        pipe.send(None)  # started
        while True:
            pipe.send(work(pipe.recv()))


def _follow_parent() -> None:
    """Exit with the runner, even if it was killed."""
    if (parent := multiprocessing.parent_process()) is not None:
        connection.wait([parent.sentinel])
    os._exit(1)


class DaskPool:
    """The workers of a Dask cluster, which may come and go; `scheduler` is ``tcp://host:port``."""

    def __init__(self, work: Work, scheduler: str):
        with needs("scheduler= needs Dask distributed", "cluster"):
            import distributed
        self._work, self._scheduler, self._distributed = work, scheduler, distributed
        try:
            self._client = distributed.Client(scheduler, timeout=20, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ConnectionError(f"no Dask scheduler answers at {scheduler!r}: {error}") from error
        self._busy: dict = {}

    def capacity(self) -> int:
        # Twice the threads, so that a worker never waits for its next task.
        return max(1, 2 * sum(self._client.nthreads().values()))

    def submit(self, task: Task) -> None:
        self._busy[self._client.submit(self._work, task, pure=False)] = task

    def wait(self, seconds: float) -> list[tuple[Task, Row | None]]:
        done = set()
        with suppress(TimeoutError), self._client.as_current():
            done = self._distributed.wait(
                list(self._busy), timeout=seconds, return_when="FIRST_COMPLETED"
            ).done
        finished = [(self._busy.pop(future), future) for future in done]
        return [(task, self._row(task, future)) for task, future in finished]

    def _row(self, task, future) -> Row | None:
        if future.status in ("cancelled", "lost"):
            raise ConnectionError(
                f"the Dask scheduler at {self._scheduler!r} is gone. Finished tasks are kept; "
                "run again."
            )
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, self._distributed.KilledWorker):
            return None
        # A task never raises: the worker cannot run it at all.
        return failed(task, f"{type(error).__name__}: {error}")

    def close(self) -> None:
        self._client.cancel(list(self._busy))
        self._client.close()
