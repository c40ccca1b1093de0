"""Memory of a process."""

import re
from pathlib import Path


def peak():
    """Most memory that this process has held, in MB.

    Not from resource.getrusage, which also remembers the peak of the parent.
    """
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
