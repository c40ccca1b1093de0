"""``openset review``: the unknown rows of a table on one page, to be named."""

from __future__ import annotations

import base64
import json
import mimetypes
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openset.cli import _options as options
from openset.cli._failures import complain, reported, say

if TYPE_CHECKING:
    import numpy as np


@reported
def review(
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="Table that `openset predict` wrote.")
    ],
    data: Annotated[Path, typer.Option("--data", help="Table that was answered.")],
    model: Annotated[Path, typer.Option("--model", help="Model that answered it.")],
    output: options.NewPage,
    text: Annotated[str | None, typer.Option(help="Column of a text to show for each row.")] = None,
    image: Annotated[
        str | None,
        typer.Option(help="Column of paths of images, relative to the folder of the table."),
    ] = None,
    jobs: options.Jobs = -1,
    encoding: options.Encoding = "utf-8",
    as_json: options.AsJson = False,
) -> None:
    """Show the unknown rows on one page, in groups; names given there go to decisions.csv."""
    from openset.cli._scoring import TableScorer
    from openset.datasets.tables import open_table
    from openset.discovery import review_data, write_review

    options.prepare_output(output, answers, data, model)
    scorer = TableScorer(model, jobs)
    table = open_table(data, encoding)
    shown: dict[str, list] = {name: [] for name in (text, image) if name is not None}
    Z = scorer.read(table, shown)
    images = None
    if image is not None:
        images = [_embedded(data.parent, path) for path in shown[image]]
        if not any(images):
            raise FileNotFoundError(
                f"--image {image}: there is no file {data.parent / str(shown[image][0])}, nor any "
                "other that the column names"
            )
    _check_answers(open_table(answers, encoding), scorer.final.predict(Z))
    page = review_data(
        scorer.final,
        Z,
        texts=None if text is None else shown[text],
        images=images,
    )
    write_review(page, output, f"Unknown rows of {data.name}")
    n_unknown = len(page["samples"]["row"])
    if as_json:
        sizes = [len(group["members"]) for group in page["groups"]]
        typer.echo(json.dumps({"rows": page["n"], "unknown": n_unknown, "groups": sizes}))
        return
    say(
        f"{data}: {n_unknown:,} of {page['n']:,} rows are unknown, {len(page['groups'])} groups; "
        f"wrote {output}"
    )


def _check_answers(table, expected: np.ndarray) -> None:
    """Raise TableError unless the table holds the answers of this model for these rows."""
    from openset.cli._labels import label_text
    from openset.datasets.tables import TableError, read_batches, require

    require(table, ["prediction"], "which `openset predict` writes")
    given = [
        label_text(value)
        for batch in read_batches(table, "read")
        for value in batch.column("prediction").to_pylist()
    ]
    if len(given) != len(expected):
        raise TableError(
            f"{table.path} has {len(given):,} rows, but the data have {len(expected):,}; answer "
            "the data again with `openset predict`"
        )
    texts = [label_text(value) for value in expected.tolist()]
    different = [k for k, (a, b) in enumerate(zip(given, texts, strict=True)) if a != b]
    if different:
        complain(
            f"warning: {len(different):,} answers of {table.path} are not those of the model (data "
            f"row {different[0] + 1}: {given[different[0]]!r}, now {texts[different[0]]!r})"
        )


def _embedded(folder: Path, name) -> str:
    """The image as an address that holds it; empty where there is none."""
    path = folder / str(name or "")
    if not path.is_file():
        return ""
    kind = mimetypes.guess_type(path.name)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
