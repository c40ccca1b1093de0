"""Where tasks run: processes of this machine, or the workers of a Dask cluster.

A pool has ``capacity()``, the number of tasks it can hold; ``submit(task)``; ``wait(seconds)``,
which returns the finished (task, row) pairs, the row None if the process died; and ``close()``,
which stops what still runs.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, resource_tracker

from ._spec import Task
from ._tasks import Row, failed

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
    """Processes with one task each, so that it is known which task killed its process.

    `work` turns a task into a row and can be pickled; `jobs` is the number of processes.
    """

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
        with _ctrl_c_later():  # which would end the process with a traceback while it imports
            self._process.start()
        theirs.close()  # else the end of the pipe would not be noticed when the process dies

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Keep Ctrl-C for the end of the block; a process that is started inside never gets it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start would let Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: connection.Connection, work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the runner
    threading.Thread(target=_follow_parent, daemon=True).start()
    with suppress(EOFError):
        pipe.send(None)  # started
        while True:
            pipe.send(work(pipe.recv()))


def _follow_parent() -> None:
    """Exit with the runner, even if it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)


class DaskPool:
    """The workers of a Dask cluster, which may come and go; `scheduler` is ``tcp://host:port``."""

    def __init__(self, work: Work, scheduler: str):
        try:
            import distributed
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "scheduler= needs Dask distributed; run: pip install 'openset[cluster]'",
                name=error.name,
            ) from error
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
