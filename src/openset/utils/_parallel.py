"""Threads: as many as requested, BLAS limited to one each, and an orderly stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _controller() -> ThreadpoolController:
    # Searching for the loaded BLAS libraries takes milliseconds, so it is done once.
    return ThreadpoolController()


class _OneBlasThread:
    """BLAS on one thread while anybody is inside, whichever thread enters or leaves last.

    threadpoolctl's own limit restores the number of threads it found, which is one if another
    limit was active then. So the first to enter sets the limit and the last to leave restores it.
    """

    def __init__(self):
        self._lock, self._inside, self._limit = threading.Lock(), 0, None

    def __enter__(self):
        with self._lock:
            if self._inside == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_):
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_one_blas_thread = _OneBlasThread()


@contextmanager
def interrupts() -> Iterator[None]:
    """Make sure that Ctrl-C arrives as a KeyboardInterrupt.

    If it comes while Numba wraps an array that a compiled function returns, it arrives as the
    cause of a SystemError, or as the cause of its cause. Inside this context, the
    KeyboardInterrupt itself is raised.

    Yields
    ------
    None

    Examples
    --------
    >>> from openset.utils import interrupts
    >>> try:
    ...     with interrupts():
    ...         raise SystemError("a result with an exception set") from KeyboardInterrupt()
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    """
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
    """Apply a function to items on several threads.

    BLAS runs on one thread inside, whatever `n_jobs` is: threads never exceed the cores, and sums
    are formed in one order, so results are the same to the bit for every `n_jobs`.

    Parameters
    ----------
    function : callable
        Called as ``function(item)``.
    items : iterable
        The items.
    n_jobs : int or None, default=None
        Number of threads, as for joblib: None is one, -1 all cores.
    stop : threading.Event, default=None
        Set if anything is raised, Ctrl-C included, so that running functions can leave. No new
        item is begun then.

    Yields
    ------
    object
        ``function(item)`` of each item, in the order of the items.

    Examples
    --------
    >>> from openset.utils import thread_map
    >>> list(thread_map(abs, [-1, 2, -3], n_jobs=2))
    [1, 2, 3]
    """
    n_threads = effective_n_jobs(n_jobs)
    with _one_blas_thread:
        if n_threads == 1:
            with interrupts():
                yield from map(function, items)
            return
        pool = ThreadPoolExecutor(n_threads)
        try:
            yield from pool.map(function, items)
        except BaseException:
            if stop is not None:
                stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
