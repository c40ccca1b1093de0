"""The commands. Their modules load quickly; what is heavy loads when a command runs."""

from typing import Annotated

import typer

import openset
from openset.cli import (
    _calibrate,
    _compare,
    _datasets,
    _evaluate,
    _fit,
    _info,
    _learn,
    _monitor,
    _predict,
    _review,
    _study,
    _warm,
)

app = typer.Typer(
    help="Open-set recognition: one of your classes, or unknown.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (_fit.fit, _calibrate.calibrate, _predict.predict, _evaluate.evaluate, _info.info):
    app.command()(command)
for command in (_monitor.monitor, _review.review, _learn.learn):
    app.command()(command)
for command in (_compare.compare, _info.export, _datasets.datasets, _compare.demo, _warm.warm):
    app.command()(command)
app.add_typer(_study.app, name="study")


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
