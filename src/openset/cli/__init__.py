"""The ``openset`` command."""

import sys


def main() -> None:
    """Run the command line; without the extra ``cli``, say how to install it."""
    try:
        from openset.cli._app import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit('openset: the command needs typer and rich; run: pip install "openset[cli]"')
    app()
