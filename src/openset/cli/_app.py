"""The commands: each one parses its options and hands over."""

from typing import Annotated

import typer

import openset
from openset.cli import _compare, _datasets, _evaluate, _export, _fit, _info, _predict, _study
from openset.cli._failures import reported

app = typer.Typer(
    help="Open-set recognition: one of your classes, or unknown.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# Each command is a module whose imports are light; what is heavy loads when it runs.
app.command()(_fit.fit)
app.command()(_predict.predict)
app.command()(_evaluate.evaluate)
app.command()(_info.info)
app.add_typer(_study.app, name="study")
app.command()(_compare.compare)
app.command()(_export.export)
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
@reported
def demo() -> None:
    """Learn six of the ten digits, leave four unknown, and compare two classifiers."""
    # Imported here, so that --version and --help do not load the estimators.
    from openset.cli._demo import run

    run()
