"""``openset study``: run a study, show its state, exchange its results, report it."""

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from openset.cli._options import (
    FAILED,
    INTERRUPTED,
    READS,
    WRITES,
    ReadFile,
    Role,
    UsageError,
    complain,
    reported,
    say,
    split,
)

app = typer.Typer(help="Experiments: a TOML file in, a table of results out.", no_args_is_help=True)


def _code(arguments: dict[str, Any]) -> list[Path]:
    """The Python files that a study names."""
    from openset.study import load_study

    plan = load_study(arguments["study"])
    return [Path(f.rpartition(":")[0]) for f in (plan.record, *plan.method_files.values()) if f]


def _stored(arguments: dict[str, Any]) -> list[Path]:
    """The store that is used, and what SQLite keeps beside it."""
    from openset.study import load_study

    given = arguments["store"]
    store = given or _default_store(load_study(arguments["study"]))
    beside = [Path(f"{store}-{part}") for part in ("wal", "shm", "journal")]
    return beside if given else [store, *beside]


def _default_store(plan) -> Path:
    return Path("results") / f"{plan.name}.sqlite"


_PAGES = Role("writes", ("report.html", "tables/*", "figures/*"))
_Study = Annotated[
    Path, typer.Argument(help="TOML file of the study.", metavar="STUDY"), Role("reads", more=_code)
]
_Store = Annotated[
    Path | None,
    typer.Option("--store", help="File of results; default: results/NAME.sqlite."),
    Role("writes", more=_stored),
]


def _running(retry: bool, help: str):
    def command(
        study: _Study,
        store: _Store = None,
        data_home: Annotated[
            Path | None, typer.Option(envvar="OPENSET_DATA", show_envvar=True)
        ] = None,
        datasets: str = "",
        methods: str = "",
        n_known: str = "",
        jobs: int | None = None,
        scheduler: str | None = None,
        time_limit: Annotated[float | None, typer.Option(min=0)] = None,
    ) -> None:
        """{}.

        data_home: Folder of the datasets.
        datasets: Only these datasets, comma-separated, in order.
        methods: Only these methods, comma-separated.
        n_known: Only these n_known, comma-separated.
        jobs: Number of processes; default: one per core.
        scheduler: Address of a Dask scheduler (tcp://...) whose workers run the tasks.
        time_limit: Start no further task after these minutes.
        """
        # Imported here, so that --help does not load the estimators.
        from openset.study import run_study

        only = (_items(datasets, "--datasets"), _items(methods, "--methods"), _counts(n_known))
        options: dict[str, Any] = {"data_home": data_home, "jobs": jobs, "scheduler": scheduler}
        options["time_limit"] = None if time_limit is None else 60 * time_limit
        with _open(study, store, not retry, only) as (plan, results):
            try:
                counts = run_study(plan, results, **options, retry=retry, verbose=True)
            except KeyboardInterrupt:
                complain("stopped. Finished tasks are kept; run again to resume.")
                raise typer.Exit(INTERRUPTED) from None
        typer.echo(f"{counts['done']} done, {counts['failed']} failed, {counts['left']} left")
        if counts["failed"]:
            typer.echo(f"see: openset study status {study}; then: openset study retry {study}")
            raise typer.Exit(FAILED)

    command.__doc__ = (command.__doc__ or "").format(help)
    return reported(command)


app.command("run")(
    _running(False, "Run all remaining tasks. Safe to interrupt; run again to resume.")
)
app.command("retry")(_running(True, "Run the failed tasks again"))


@app.command()
@reported
def status(study: _Study, store: _Store = None) -> None:
    """Show what is done and what failed."""
    with _open(study, store) as (plan, results):
        done = results.tasks("done")
        failures = [row for row in results.rows() if row["status"] == "failed"]
    by_cell = Counter((task.dataset, task.n_known) for task in done)
    typer.echo(f"{plan.name}: {len(done)} done, {len(failures)} failed")
    for (dataset, n_known), count in sorted(by_cell.items()):
        typer.echo(f"  {dataset}, {n_known} known: {count} of {plan.runs * len(plan.methods)}")
    for row in failures:
        say(
            f"  failed: {row['dataset']}, {row['n_known']} known, run {row['run']}, "
            f"{row['method']}: {row['error']}"
        )


@app.command()
@reported
def export(
    study: _Study,
    csv: Annotated[Path, typer.Argument(metavar="CSV"), WRITES],
    store: _Store = None,
) -> None:
    """Write the results to a CSV file.

    csv: File to write; .gz compresses it.
    """
    with _open(study, store) as (_, results):
        typer.echo(f"{results.export_csv(csv)} rows to {csv}")


@app.command("import")
@reported
def import_(
    study: _Study,
    csv: Annotated[Path, typer.Argument(metavar="CSV"), READS],
    store: _Store = None,
) -> None:
    """Add the rows of a CSV file to the results.

    csv: File that export wrote.
    """
    with _open(study, store, create=True) as (plan, results):
        typer.echo(f"{results.import_csv(csv, plan)} rows from {csv}")


@app.command()
@reported
def report(
    study: _Study,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER"), _PAGES],
    store: _Store = None,
    reference: ReadFile = None,
) -> None:
    """Write tables, tests and figures as one HTML page, CSV and LaTeX.

    folder: Folder to write to.
    reference: CSV file of other results to print next to these: dataset, n_known, method, measure,
        mean, standard_error.
    """
    from openset.study import write_report

    with _open(study, store) as (plan, results):
        typer.echo(write_report(results, folder, study=plan, reference=reference))


def _items(text: str, option: str) -> list[str]:
    return split(text or None, option) or []


def _counts(text: str) -> list[int | float]:
    try:
        return [float(n) if "." in n else int(n) for n in _items(text, "--n-known")]
    except ValueError:
        raise UsageError(
            f"--n-known {text!r}: give numbers or ratios, comma-separated, as 3,6 or 0.25,0.5"
        ) from None


@contextmanager
def _open(study, store, create=False, only=()):
    """The study, restricted to some datasets, methods and numbers, and its store."""
    from openset.study import Store, load_study

    plan = load_study(study).restrict(*only)
    if store is None:
        store = _default_store(plan)
        if create:
            store.parent.mkdir(exist_ok=True)
    with Store(store, create=create) as results:
        yield plan, results
