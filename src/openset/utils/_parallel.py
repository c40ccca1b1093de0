"""Threads: as many as asked for, BLAS kept to one each, and an orderly stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded BLAS libraries takes milliseconds: once is enough.
    return ThreadpoolController()


@contextmanager
def interrupts() -> Iterator[None]:
    """Inside, Ctrl-C is a KeyboardInterrupt.

    Where it comes while Numba wraps an array that a compiled function returns, it would arrive as
    the cause of a SystemError, or as the cause of its cause.
    """
    try:
        yield
    except SystemError as error:
        cause = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise


def thread_map(
    function: Callable, items: Iterable, n_jobs: int | None, stop: threading.Event | None = None
) -> Iterator:
    """Yield ``function(item)`` for each item, in their order, `n_jobs` at a time.

    BLAS runs on one thread inside, whatever `n_jobs` is: threads never exceed the cores, and sums
    are formed in one order, so results are the same to the bit for every `n_jobs`. If anything is
    raised, Ctrl-C included, `stop` is set, so that running functions can leave, and nothing new
    is begun.
    """
    n_threads = effective_n_jobs(n_jobs)
    with _controller().limit(limits=1, user_api="blas"):
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
