"""The ``openset`` command."""

import signal
import sys


def main() -> None:
    """Run the command line; without the extra ``cli``, say how to install it."""
    # A polite end, so that half-written files are removed: SIGTERM as Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
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
