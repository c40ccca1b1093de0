"""Threads: as many as requested, BLAS limited to one each, an orderly stop; a progress bar."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _blas() -> list:
    # Searching for the loaded BLAS libraries takes milliseconds, so it is done once.
    return ThreadpoolController().select(user_api="blas").lib_controllers


class _OneBlasThread:
    """Limit BLAS to one thread while any thread is inside, in whatever order they come and go."""

    # threadpoolctl's own limit restores the number of threads it found, which is one if another
    # limit was active then. So the first to enter sets the limit and the last to leave restores it.

    def __init__(self):
        self._lock, self._inside, self._before = threading.Lock(), [], []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._lock.acquire,
                after_in_parent=self._lock.release,
                after_in_child=self._after_fork,
            )

    def __enter__(self):
        with self._lock:
            if not self._inside:
                self._before = [(library, library.num_threads) for library in _blas()]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._inside.append(threading.get_ident())

    def __exit__(self, *_):
        with self._lock:
            me = threading.get_ident()  # or another thread, which finishes a generator
            self._inside.remove(me if me in self._inside else self._inside[-1])
            if not self._inside:
                self._restore()

    def _restore(self):
        for library, n_threads in self._before:
            library.set_num_threads(n_threads)

    def _after_fork(self):
        """In a child only the thread that forked is left."""
        limited = bool(self._inside)
        self._inside = [thread for thread in self._inside if thread == threading.get_ident()]
        if limited and not self._inside:
            self._restore()
        self._lock.release()


_one_blas_thread = _OneBlasThread()


@contextmanager
def interrupts() -> Iterator[None]:
    """Make sure that Ctrl-C arrives as a KeyboardInterrupt."""
    # While Numba wraps an array that a compiled function returns, it arrives as the cause of a
    # SystemError, or as the cause of its cause.
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise


def thread_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    n_jobs: int | None = None,
    stop: threading.Event | None = None,
) -> Iterator[Result]:
    """Yield function(item) of each item, in their order, from as many threads as for joblib."""
    # BLAS runs on one thread inside, whatever `n_jobs` is: threads never exceed the cores, and sums
    # are formed in one order, so results are the same to the bit for every `n_jobs`. `stop` is set
    # if anything is raised, Ctrl-C included, so that running functions can leave.
    items = list(items)
    n_threads = effective_n_jobs(n_jobs)
    with _one_blas_thread:
        if min(n_threads, len(items)) <= 1:
            with interrupts():
                yield from map(function, items)
            return
        queue = enumerate(items)  # taking the next item is one step under the interpreter's lock
        done: SimpleQueue = SimpleQueue()
        with _pool(n_threads) as pool:
            work = [pool.submit(_work, function, queue, done) for _ in items[:n_threads]]
            try:
                early: dict = {}
                for n in range(len(items)):
                    while n not in early:
                        k, *outcome = done.get()
                        early[k] = outcome
                    result, error = early.pop(n)
                    if error is not None:
                        raise error
                    yield result
            except BaseException:
                if stop is not None:
                    stop.set()
                raise
            finally:
                for _ in queue:  # no new item is begun
                    pass
                wait(work)


def _work(function, queue, done):
    """Do what is left in the queue."""
    for n, item in queue:
        try:
            done.put((n, function(item), None))
        except BaseException as error:
            done.put((n, None, error))


# Starting a thread takes longer than many jobs, so the pool that was used last is kept.
_kept: dict[int, ThreadPoolExecutor] = {}
_kept_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(before=_kept_lock.acquire, after_in_parent=_kept_lock.release)
    os.register_at_fork(after_in_child=_kept_lock.release)
    os.register_at_fork(after_in_child=_kept.clear)


@contextmanager
def _pool(n: int) -> Iterator[ThreadPoolExecutor]:
    """A pool of n threads that no other caller uses."""
    with _kept_lock:
        pool = _kept.pop(n, None) or ThreadPoolExecutor(n)
    try:
        yield pool
    finally:
        with _kept_lock:
            others = [*_kept.values()]
            _kept.clear()
            _kept[n] = pool
        for other in others:
            other.shutdown(wait=False)


def steps_of_fit(n_times_rows: float) -> int:
    """How many steps of `n` rows a fit of n * n_times_rows rows counts for in a progress bar."""
    # Between the linear time of a method with landmarks and the quadratic one of a kernel matrix.
    return max(1, round(n_times_rows**1.5))


class Progress:
    """Count finished steps, in a larger bar, too, and print a progress bar if `show`."""

    def __init__(self, total: int, title: str, show: bool, whole: Progress | None = None):
        self._total, self._title, self._show, self._whole = 0, title, show, whole
        self._done = self._width = 0
        self._begin = self._last = time.monotonic()
        self.expect(total)

    def __sklearn_clone__(self):
        # The clone of an estimator that counts in this bar counts in it, too.
        return self

    def expect(self, n: int) -> None:
        """Add steps that are still to come; negative for those that turned out not to be needed."""
        self._total += n
        if self._whole is not None:
            self._whole.expect(n)

    def stage(self, title: str) -> None:
        """Show another text before the bar from now on."""
        self._title = title
        if self._show and self._done < self._total:
            self._print(time.monotonic())

    def finish(self) -> None:
        """End the bar: steps that are left were not needed."""
        if left := self._total - self._done:
            self.expect(-left)
            self.step(0)

    def step(self, n: int = 1) -> None:
        """Record finished steps; print at most five times per second."""
        self._done += n
        if self._whole is not None:
            self._whole.step(n)
        now = time.monotonic()
        if self._show and (now - self._last >= 0.2 or self._done >= self._total):
            self._print(now)

    def _print(self, now):
        self._last = now
        total = max(1, self._total)
        left = (now - self._begin) * (self._total - self._done) / max(1, self._done)
        filled = 24 * self._done // total
        bar = "#" * filled + "." * (24 - filled)
        text = f"{self._title} [{bar}] {self._done}/{self._total}, {left:.0f} s left "
        end = "\n" if self._done >= self._total else "\r"
        clear = " " * self._width + "\r" if len(text) < self._width else ""
        print(clear + text, end=end, file=sys.stderr, flush=True)
        self._width = len(text)
