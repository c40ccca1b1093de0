"""Memory of a process."""

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

_STATUS = Path("/proc/self/status")

# The system tells the peak of a process on Linux only.
KNOWN = _STATUS.exists()


def peak():
    """Most memory that this process has held, in MB.

    Not from resource.getrusage, which also remembers the peak of the parent.
    """
    return int(re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())[1]) / 1024


def apart(function, *arguments):
    """What a function returns in a process of its own, and the peak of its memory in MB."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measured, function, *arguments).result()


def _measured(function, *arguments):
    return function(*arguments), peak() if KNOWN else float("nan")
