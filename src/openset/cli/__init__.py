"""The ``openset`` command."""

import signal
import sys
from importlib import import_module
from io import TextIOWrapper

__all__ = ["app", "main"]


def __getattr__(name: str):
    if name == "app":  # which needs typer and rich
        return import_module(f"{__name__}._app").app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Run the command line; without the extra ``cli``, say how to install it."""
    # SIGTERM exits like Ctrl-C does, so that half-written files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Where output is redirected on Windows, its encoding may lack letters that a class name has.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        from openset.cli._app import app

        app()
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit('openset: the command needs typer and rich; run: pip install "openset[cli]"')
    except KeyboardInterrupt:  # while modules are loaded
        print("openset: interrupted; nothing was written", file=sys.stderr)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, and said
