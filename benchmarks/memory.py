"""Memory of a process."""

import re
from pathlib import Path

_STATUS = Path("/proc/self/status")

# The system tells the peak of a process on Linux only.
KNOWN = _STATUS.exists()


def peak():
    """Most memory that this process has held, in MB.

    Not from resource.getrusage, which also remembers the peak of the parent.
    """
    return int(re.search(r"VmHWM:\s+(\d+) kB", _STATUS.read_text())[1]) / 1024
