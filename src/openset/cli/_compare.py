"""``openset compare``: find the method that suits the data."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from openset.cli import _options as options
from openset.cli._failures import reported, say, stage

# Without 1-vs-Set, which is linear, and the SVM without bias, which takes longest to tune.
_DEFAULT = "ossvm,svm,dbc,ocsvm,svdd,w-svm,pi-svm,evm,osnn,knn,lda,centroids"
# A class must leave two samples for tuning after half are held out.
_FEWEST_ROWS = 4
# Simulations in the search of each repeat.
_N_TUNING = 3


@reported
def compare(
    data: options.Data,
    target: options.Target,
    output: options.NewPage = Path("compare.html"),
    methods: Annotated[
        str, typer.Option(help="Methods to compare, comma-separated, or all.")
    ] = _DEFAULT,
    repeats: Annotated[int, typer.Option(min=2, help="Draws of known classes.")] = 10,
    minutes: Annotated[
        float, typer.Option(min=0.1, help="Time to spend: it decides how many rows are used.")
    ] = 5.0,
    max_rows: Annotated[
        int | None, typer.Option(min=20, help="Rows to draw, instead of --minutes.")
    ] = None,
    unknown: options.Unknown = None,
    features: options.Features = None,
    drop: options.Drop = None,
    missing: options.Missing = "error",
    seed: options.Seed = 0,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Compare methods on a table, with classes withheld, and write a page."""
    import numpy as np

    options.prepare_output(output)
    # Loaded first: without matplotlib a long run could not write its page.
    import openset.plots  # noqa: F401
    from openset.cli import _compare_page as pages
    from openset.cli._text import join
    from openset.cli._training import read_training
    from openset.datasets.tables import open_table
    from openset.evaluation import compare_methods, comparison_splits, make_method, rows_within
    from openset.registry import method_names, method_table
    from openset.utils import unwrap

    every = method_names()
    wanted = list(every) if methods == "all" else options.split(methods, "--methods") or []
    titles = {row.estimator: row.method for row in method_table()}
    how: dict[str, Any] = {"n_jobs": jobs, "impute": missing == "median"}
    models, short = {}, {}
    for name in wanted:
        model = make_method(name, **how)
        title = titles[type(unwrap(model)).__name__]
        models[title], short[title] = model, name
    table = read_training(
        open_table(data, encoding), target, **options.columns(features, drop), missing=missing
    )
    label = table.unknown_label(unknown, data)
    for model in models.values():
        unwrap(model).set_params(unknown_label=label)
    effort: dict[str, Any] = {"n_repeats": _N_TUNING, "random_state": seed, "n_jobs": jobs}

    def splits_of(y):
        return comparison_splits(y, repeats, random_state=seed, unknown_label=label)

    if max_rows is None:
        X, y, _ = _choose_rows(table, len(table.y), seed)
        stage("measuring how many rows fit into the time")
        max_rows = rows_within(models, X, y, splits_of, 60 * minutes, **effort)
    X, y, notes = _choose_rows(table, max_rows, seed)
    splits = splits_of(y)
    report = [*notes, f"comparing {join([*models])} on {len(y):,} of {table.n_rows:,} rows"]
    say(*report, err=True)
    compared = compare_methods(models, X, y, splits, **effort, verbose=int(sys.stderr.isatty()))
    best = compared[0]
    if best.error:
        raise ValueError(f"no method could be fitted; {best.name}, {best.error}")
    learned, known = np.unique(y), None
    if len(learned) < len(np.unique(table.y)):  # `fit` refuses classes of too few rows
        known = options.joined(name for name in learned.tolist() if name != label)
    given = {
        "known": known,
        "unknown": unknown,
        "features": features,
        "drop": drop,
        "encoding": encoding,
        "missing": missing,
    }
    subject = pages.Subject(
        source=data.name,
        target=target,
        X=X,
        y=y,
        n_known=len(splits[0].known),
        n_read=table.n_rows,
        n_repeats=repeats,
        n_tuning=_N_TUNING,
        seed=seed,
        notes=notes,
        fit_command=_fit_command(data, target, short[best.name], given),
    )
    pages.make_page(compared, subject).write(output)
    if as_json:
        typer.echo(json.dumps(_as_dict(compared, short, subject, output), indent=1))
        return
    pages.print_ranking(compared)
    lines = ["", pages.verdict(compared), "To fit it on all the data:", f"  {subject.fit_command}"]
    say(*lines, f"wrote {output}")


def _choose_rows(table, max_rows, seed):
    """Rows to compare on, and notes on what was left out."""
    import numpy as np

    from openset.cli._text import dropped_columns, shortened
    from openset.evaluation import stratified_rows

    classes, counts = np.unique(table.y, return_counts=True)
    small = classes[counts < _FEWEST_ROWS]
    rows = np.flatnonzero(~np.isin(table.y, small))
    options = {"min_per_class": _FEWEST_ROWS, "random_state": seed}
    rows = rows[stratified_rows(table.y[rows], max_rows, **options)]
    notes = dropped_columns(table.dropped)
    if len(table.y) < table.n_rows:
        notes.append(f"{table.n_rows - len(table.y):,} rows are left out: a value is missing")
    if len(small):
        named = shortened([str(label) for label in small], 11)
        notes.append(f"{len(small)} classes with too few rows are left out: {named}")
    return table.X[rows], table.y[rows], notes


def _fit_command(data, target, method, given):
    words = ["openset", "fit", str(data), "--target", target, "--method", method]
    defaults = {"encoding": "utf-8", "missing": "error"}
    for name, value in given.items():
        if value not in (None, defaults.get(name)):
            words += [f"--{name}", value]
    return shlex.join([*words, "-o", f"{data.stem}.skops"])


def _as_dict(compared, short, subject, output):
    from openset.evaluation import coinciding_methods, confidence_interval, paired_differences

    behind = paired_differences(compared)
    ranking = []
    for method in (m for m in compared if not m.error):
        gap, gap_half = behind.get(method.name, (0.0, 0.0))
        interval = confidence_interval(method.values("normalized_accuracy"))
        names = method.results[0].measures
        ranking.append(
            {
                "method": short[method.name],
                "normalized_accuracy_interval": interval[1],
                "behind": gap,
                "behind_interval": gap_half,
                "measures": {name: float(method.values(name).mean()) for name in names},
                "bounded": method.bounded,
                "seconds_tune": method.seconds_tune,
                "seconds_predict": method.seconds_predict,
            }
        )
    return {
        "data": subject.source,
        "target": subject.target,
        "n_rows": subject.n_read,
        "n_compared": len(subject.y),
        "n_repeats": subject.n_repeats,
        "seed": subject.seed,
        "notes": subject.notes,
        "ranking": ranking,
        "coincide": [[short[name] for name in names] for names in coinciding_methods(compared)],
        "failed": {short[m.name]: m.error for m in compared if m.error},
        "fit_command": subject.fit_command,
        "page": str(output),
    }
