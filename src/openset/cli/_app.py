"""The commands. Their modules load quickly; what is heavy loads when a command runs."""

from typing import Annotated

import typer

import openset
from openset.cli import (
    _compare,
    _datasets,
    _demo,
    _evaluate,
    _fit,
    _info,
    _learn,
    _monitor,
    _predict,
    _review,
    _study,
)

app = typer.Typer(
    help="Open-set recognition: one of your classes, or unknown.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(_fit.fit)
app.command()(_predict.predict)
app.command()(_evaluate.evaluate)
app.command()(_monitor.monitor)
app.command()(_review.review)
app.command()(_learn.learn)
app.command()(_info.info)
app.add_typer(_study.app, name="study")
app.command()(_compare.compare)
app.command()(_info.export)
app.command()(_datasets.datasets)
app.command()(_demo.demo)


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
