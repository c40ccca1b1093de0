"""The commands. Their modules load quickly; what is heavy loads when a command runs."""

import typer

from openset.cli import (
    _adapt,
    _calibrate,
    _compare,
    _datasets,
    _evaluate,
    _fit,
    _info,
    _learn,
    _monitor,
    _options,
    _predict,
    _review,
    _study,
    _traffic,
    _warm,
)

app = typer.Typer(
    cls=_options.PlainGroup,
    help="Open-set recognition: one of your classes, or unknown.",
    callback=_options.with_version,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for command in (
    *(_fit.fit, _calibrate.calibrate, _predict.predict, _evaluate.evaluate, _info.info),
    *(_monitor.monitor, _review.review, _learn.learn, _adapt.adapt, _traffic.traffic),
    *(_compare.compare, _info.export, _datasets.datasets, _compare.demo, _warm.warm),
):
    app.command()(command)
app.add_typer(_study.app, name="study", cls=_options.PlainGroup)
for registered in (*app.registered_commands, *_study.app.registered_commands):
    registered.cls = _options.PlainCommand
