"""The commands: each one parses its options and hands over."""

from typing import Annotated

import typer

import openset
from openset.cli import _datasets, _study

app = typer.Typer(
    help="Open-set recognition: one of your classes, or unknown.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(_study.app, name="study")
app.command()(_datasets.datasets)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"openset {openset.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


@app.command()
def demo() -> None:
    """Learn six of the ten digits, leave four unknown, and compare two classifiers."""
    # Imported here, so that --version and --help do not load the estimators.
    from openset.cli._demo import run

    run()
