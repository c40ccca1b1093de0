"""``openset warm``: no later command waits for the compiler."""

import openset
from openset.cli import _options as options
from openset.cli._options import reported


@reported
def warm(shared: options.Output) -> None:
    """Compile what other commands need, or load it; for a Dockerfile or the cache of a CI job."""
    report = openset.warm()
    stored = report.folder or "nowhere; set NUMBA_CACHE_DIR to a folder that can be written"
    lines = [
        f"compiled {report.compiled} and loaded {report.loaded} functions in {report.seconds} s",
        f"stored in: {stored}",
    ]
    shared.tell(report._asdict(), lines, indent=None)
