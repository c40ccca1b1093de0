"""``openset evaluate``: a model, and a table whose classes are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from openset.cli._failures import reported


@reported
def evaluate(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file, written by `openset fit`.")
    ],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Table with the features and the true class.")
    ],
    target: Annotated[
        str,
        typer.Option("--target", "-t", help="Column of the class; what is not learned is unknown."),
    ],
    figures: Annotated[
        Path | None, typer.Option(help="Folder for figures: confusion matrix, curves, scores.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all.")] = -1,
    encoding: Annotated[str, typer.Option(help="Of a text table.")] = "utf-8",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print measures, matrix and curves as JSON.")
    ] = False,
) -> None:
    """Measure a model on a table: known rows named, unknown rows rejected, and the curves."""
    from openset.cli._evaluation import Evaluation
    from openset.cli._fit import check_folder
    from openset.cli._scoring import Scorer
    from openset.cli._tables import open_table, require

    if figures is not None:  # what cannot be drawn is told before any work is done
        import openset.plots  # noqa: F401

        check_folder(figures / "figure.png")
    scorer = Scorer(model, jobs)
    table = open_table(data, encoding)
    require(table, [target], "the target")
    evaluation = Evaluation.of(scorer, table, target)
    drawn = evaluation.draw(figures) if figures is not None else []
    if as_json:
        typer.echo(json.dumps(evaluation.as_json(), indent=1))
        return
    typer.echo("\n".join(evaluation.lines(str(data))))
    for path in drawn:
        typer.echo(f"wrote {path}")
