"""What a user sees when something goes wrong: one line on standard error, and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps

import typer

# Exit codes: 0 done; FAILED for the data, the model or the system; 2 (click's) for the usage.
FAILED = 1
INTERRUPTED = 130


def reported(command: Callable) -> Callable:
    """Make a function a command that ends in one line and an exit code, never in a traceback.

    With OPENSET_DEBUG set in the environment errors are raised, for reports of bugs.
    """

    @wraps(command)
    def guarded(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                return command(*args, **kwargs)
            except KeyboardInterrupt:
                complain("interrupted; nothing was written")
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:
                raise  # the reader of our output has gone: click ends quietly
            except Exception as error:
                if isinstance(error, typer.Exit | typer.BadParameter):
                    raise  # typer ends, or reports the wrong usage
                if os.environ.get("OPENSET_DEBUG"):
                    raise
                complain(_line(error))
                raise typer.Exit(FAILED) from None

    return guarded


def complain(message: str) -> None:
    """One line on standard error, in place of a line of progress that may stand there."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}openset: {message}", file=sys.stderr)


def stage(message: str) -> None:
    """Say on a terminal what is going on; nothing elsewhere."""
    if sys.stderr.isatty():
        print(message, file=sys.stderr)


def _line(error):
    message = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError):
        return "out of memory"
    ours = type(error).__module__.partition(".")[0] == "openset"
    if ours or isinstance(error, ValueError | OSError | ImportError):
        return message
    return f"{type(error).__name__}: {message} (set OPENSET_DEBUG=1 to see where)"


def _show_warning(message, category, filename, lineno, file=None, line=None):
    if issubclass(category, UserWarning):  # deprecations are for developers
        complain(f"warning: {' '.join(str(message).split())}")
