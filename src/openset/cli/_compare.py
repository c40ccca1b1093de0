"""``openset compare``: find the method that suits the data. ``openset demo``: three on digits."""

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._options import reported, say, say_wrapped, stage
from openset.registry import METHODS, method_names

# All but 1-vs-Set, which is linear, and the SVM without bias, which takes longest to tune.
_SLOW = ("1-vs-set", "svm-without-bias")
_DEFAULT = ",".join(m.command for m in METHODS if m.command and m.command not in _SLOW)


@reported
def compare(
    shared: options.Working,
    data: options.Data,
    target: options.Target,
    output: options.NewPage = Path("compare.html"),
    methods: str = _DEFAULT,
    repeats: Annotated[int, typer.Option(min=2)] = 10,
    minutes: Annotated[float, typer.Option(min=0.1)] = 5.0,
    max_rows: Annotated[int | None, typer.Option(min=20)] = None,
    unknown: options.Unknown = None,
    features: str | None = None,
    drop: str | None = None,
    missing: options.Missing = "error",
    seed: options.Seed = 0,
) -> None:
    """Compare methods on a table, with classes withheld, and write a page.

    methods: Methods to compare, comma-separated, or all.
    repeats: Draws of known classes.
    minutes: Time to spend: it decides how many rows are used.
    max_rows: Rows to draw, instead of --minutes.
    """
    options.prepare_output(output)
    # Loaded first: without matplotlib a long run could not write its page.
    import openset.plots  # noqa: F401
    from openset.cli._text import dropped_columns
    from openset.evaluation import make_method
    from openset.study.comparison import Comparison
    from openset.tables import read_training
    from openset.utils.text import join_names

    wanted = options.split(methods, "--methods") or []
    names = list(method_names()) if methods == "all" else wanted
    impute = missing == "median"
    with options.usage():
        models = {name: make_method(name, n_jobs=shared.jobs, impute=impute) for name in names}
    columns = options.columns(features, drop)
    table = read_training(shared.open(data), target, **columns, missing=missing)
    label = table.unknown_label(unknown)
    draws: dict[str, Any] = {"n_repeats": repeats, "seed": seed, "n_jobs": shared.jobs}
    draws |= {"path": data, "target": target, "n_read": table.n_rows, "unknown_label": label}
    notes = dropped_columns(table.encoder.dropped_)
    comparison = Comparison(models, table.X, table.y, **draws, notes=notes)
    if max_rows is None:
        stage("measuring how many rows fit into the time")
    kept = comparison.choose_rows(max_rows, minutes)
    # As --known, because `fit` refuses classes of too few rows.
    known = options.joined(name for name in kept if name != label) or None
    usual = {"utf-8", ".", "error"}
    others = {"encoding": shared.encoding, "decimal": shared.decimal, "missing": missing}
    others = {name: value for name, value in others.items() if value not in usual}
    given = options.given(known=known, unknown=unknown, features=features, drop=drop, **others)
    comparison.fit_options += chain(*given.items())
    compared = f"{len(comparison.y):,} of {table.n_rows:,} rows"
    say(*notes, f"comparing {join_names([*comparison.names])} on {compared}", err=True)
    comparison.run(verbose=int(sys.stderr.isatty()))
    comparison.page().write(output)
    lines = [*str(comparison).split("\n"), f"wrote {output}"]
    shared.tell({**comparison.as_dict(), "page": str(output)}, lines)


_AFTER = """
Every method has its parameters and its threshold chosen by OpenSetSearchCV from the training \
samples alone, with digits withheld in turn. Noise: inputs far from all images. Bounded: digits \
whose accepted region is provably bounded. One split of one small dataset; `openset compare` does \
this with yours."""
_PICTURE = Path("demo-digits.png")


@reported
def demo() -> None:
    """Compare three methods on digits: six are learned, four are unknown."""
    # Imported here, so that --version and --help do not load the estimators.
    from openset.study.demonstration import Demonstration

    demonstration = Demonstration()
    say_wrapped(demonstration.introduction, "")
    stage("Tuning ...")
    answers = demonstration.pictures()
    say_wrapped("The first test image of each digit, and what OpenSetSVC answers:", "", answers)
    say_wrapped(*(f"- {sentence}" for sentence in demonstration.verdict()), "")
    typer.echo(demonstration.table())
    say_wrapped(*_AFTER.split("\n"))
    if demonstration.save_picture(_PICTURE):
        say_wrapped("", f"Picture of 30 test images and their answers: {_PICTURE}")
