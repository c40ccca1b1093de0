"""Errors and progress on standard error: one line each, and an exit code."""

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps

import typer

from openset.cli._paths import guard

# Exit codes: 0 success; FAILED for bad data, models or system errors; 2 (click's) for bad usage.
FAILED = 1
INTERRUPTED = 130


def reported(command: Callable) -> Callable:
    """Decorate a command so that an error is one line and an exit code, not a traceback.

    If OPENSET_DEBUG is set in the environment, errors are raised, for bug reports.
    """

    @wraps(command)
    def guarded(**arguments):
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            written: list = []
            try:
                from openset.utils import last_written  # late: --help must not load what computes

                written = last_written
                written.clear()
                with guard(command, arguments):
                    return command(**arguments)
            except KeyboardInterrupt:
                complete = ", ".join(map(str, written)) or "nothing"
                complain(f"interrupted; {complete} was written")
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:
                raise  # the reader of our output has gone; click exits quietly
            except Exception as error:
                if isinstance(error, typer.Exit | typer.BadParameter):
                    raise  # typer exits, or reports wrong usage
                if os.environ.get("OPENSET_DEBUG"):
                    raise
                complain(_line(error))
                raise typer.Exit(FAILED) from None

    return guarded


def printable(text: str) -> str:
    """The text with every character that a terminal would act on written as an escape."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def say(*lines: str, err: bool = False) -> None:
    """Print lines of text, which may hold names from untrusted files."""
    typer.echo("\n".join(printable(line) for line in lines), err=err)


def complain(message: str) -> None:
    """Print one line on standard error, replacing a line of progress."""
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
    print(f"{clear}openset: {printable(message)}", file=sys.stderr)


def stage(message: str) -> None:
    """Print what is going on, on a terminal only."""
    if sys.stderr.isatty():
        print(printable(message), file=sys.stderr)


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
    # Deprecations are for developers; those of some libraries are also UserWarnings.
    if issubclass(category, UserWarning) and not issubclass(category, DeprecationWarning):
        complain(f"warning: {' '.join(str(message).split())}")
