"""Work on the workers of a Dask cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

# How often work is tried again if its worker is lost, and seconds to wait for a scheduler.
_RETRIES, _PATIENCE = 3, 10


@contextmanager
def connect(scheduler: str | None) -> Iterator[Any]:
    """A client of the scheduler at this address, which Dask uses inside; None without one."""
    if scheduler is None:
        yield None
        return
    from openset.utils import needs

    with needs("--scheduler needs Dask", "cluster"):
        from distributed import Client
    try:
        client = Client(scheduler, timeout=_PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise OSError(
            f"--scheduler: no Dask scheduler answers at {scheduler} ({type(error).__name__}); "
            "check the address, for example tcp://127.0.0.1:8786"
        ) from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise OSError(f"--scheduler: {scheduler} has no workers; start some first")
        yield client


def apply(
    client: Any, function: Callable, pairs: Iterable[tuple[Any, Any]]
) -> Iterator[tuple[Any, Any]]:
    """Yield the first of each pair with the function of the second, in order."""
    if client is None:
        yield from ((key, function(value)) for key, value in pairs)
        return
    shared = client.scatter(function, broadcast=True)
    most = 2 * sum(client.nthreads().values())  # that wait at a time
    waiting: deque = deque()
    for key, value in pairs:
        task = client.submit(_call, shared, value, pure=False, retries=_RETRIES)
        waiting.append((key, task))
        if len(waiting) > most:
            key, task = waiting.popleft()
            yield key, task.result()
    yield from ((key, task.result()) for key, task in waiting)


def _call(function, value):
    return function(value)
