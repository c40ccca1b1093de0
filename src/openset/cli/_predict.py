"""``openset predict``: a table of any length in, the same with answers out."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from openset.cli._failures import complain, reported


@reported
def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file, written by `openset fit`.")
    ],
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Table with the columns the model was fitted on.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Table to write: .csv, .tsv, .parquet, .arrow.")
    ],
    jobs: Annotated[int, typer.Option(help="Threads; -1 for all.")] = -1,
    encoding: Annotated[str, typer.Option(help="Of a text table.")] = "utf-8",
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Answer every row of a table: a class or unknown, with score, runner-up and reason."""
    import pyarrow as pa

    from openset.cli._reasons import Explainer
    from openset.cli._scoring import Scorer
    from openset.cli._tables import check_writable, open_table, open_writer

    check_writable(output)
    scorer = Scorer(model, jobs)
    table = open_table(data, encoding)
    explainer = Explainer(scorer.final, jobs)
    names = _free_names(table.names, explainer.NAMES)
    counts: Counter = Counter()
    blocks = scorer.blocks(table, "predict")

    def answered(block):
        answers = explainer.columns(block.Z, block.scores)
        counts.update({n["values"]: n["counts"] for n in answers[0].value_counts().to_pylist()})
        columns = [*block.batch.columns, *answers]
        return pa.RecordBatch.from_arrays(columns, names=[*table.names, *names])

    first = answered(next(blocks))  # a table without rows complains here
    with open_writer(output, first.schema) as writer:
        writer.write(first)
        for block in blocks:
            writer.write(answered(block))
    n_rows = sum(counts.values())
    unknown = counts[scorer.final.unknown_label_]
    if as_json:
        by_answer = {str(answer): n for answer, n in counts.most_common()}
        typer.echo(json.dumps({"rows": n_rows, "unknown": unknown, "answers": by_answer}))
        return
    typer.echo(
        f"{data}: {n_rows:,} rows answered, {unknown:,} ({unknown / n_rows:.1%}) unknown; "
        f"wrote {output}"
    )


def _free_names(taken: list[str], ours: tuple[str, ...]) -> list[str]:
    """Our column names, with underscores where the table has such columns already."""
    names = []
    for name in ours:
        free = name
        while free in taken:
            free += "_"
        if free != name:
            complain(f"note: the table has a column {name!r} already; the new one is {free!r}")
        names.append(free)
    return names
