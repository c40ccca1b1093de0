"""A progress bar on standard error, with an estimate of the remaining time."""

from __future__ import annotations

import sys
import time


class Progress:
    """Count finished steps and, if asked to, show a progress bar on standard error.

    Parameters
    ----------
    total : int
        Number of steps.
    title : str
        Text before the bar.
    show : bool
        Whether to print anything.

    Examples
    --------
    >>> from openset.utils import Progress
    >>> progress = Progress(3, "fitting", show=False)
    >>> for _ in range(3):
    ...     progress.step()
    """

    def __init__(self, total: int, title: str, show: bool):
        self._total, self._title, self._show = total, title, show
        self._done = 0
        self._begin = self._last = time.monotonic()

    def step(self, n: int = 1) -> None:
        """Record finished steps; print at most five times per second.

        Parameters
        ----------
        n : int, default=1
            Number of steps that were finished since the last call.
        """
        self._done += n
        now = time.monotonic()
        finished = self._done >= self._total
        if not self._show or (now - self._last < 0.2 and not finished):
            return
        self._last = now
        left = (now - self._begin) * (self._total - self._done) / max(1, self._done)
        filled = 24 * self._done // self._total
        bar = "#" * filled + "." * (24 - filled)
        end = "\n" if finished else "\r"
        text = f"{self._title} [{bar}] {self._done}/{self._total}, {left:.0f} s left "
        print(text, end=end, file=sys.stderr, flush=True)
