"""``openset warm``: no later command waits for the compiler."""

import json

import typer

import openset
from openset.cli import _options as options
from openset.cli._options import reported, say


@reported
def warm(as_json: options.AsJson = False) -> None:
    """Compile what other commands need, or load it; for a Dockerfile or the cache of a CI job."""
    report = openset.warm()
    if as_json:
        typer.echo(json.dumps(report._asdict()))
        return
    stored = report.folder or "nowhere; set NUMBA_CACHE_DIR to a folder that can be written"
    say(
        f"compiled {report.compiled} and loaded {report.loaded} functions in {report.seconds} s",
        f"stored in: {stored}",
    )
