"""``openset review``: the unknown rows of a table on one page, to be named."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openset.cli import _options as options
from openset.cli._options import READS, complain, keep_apart, reported, say

if TYPE_CHECKING:
    import numpy as np


@reported
def review(
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="Table that `openset predict` wrote."), READS
    ],
    data: Annotated[Path, typer.Option("--data", help="Table that was answered."), READS],
    model: Annotated[Path, typer.Option("--model", help="Model that answered it."), READS],
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
    from openset.discovery import review_data, write_review
    from openset.persistence import read_model
    from openset.tables import TableModel, open_table

    options.prepare_output(output)
    scorer = TableModel(*read_model(model), n_jobs=jobs)
    table = open_table(data, encoding)
    X, shown = scorer.read(table, [name for name in (text, image) if name is not None])
    Z = scorer.transform(X)
    images = None
    if image is not None:
        folder = Path() if str(data) == "-" else data.parent
        images = [
            _embedded(folder, path, f"--image {image}: data row {row}", output)
            for row, path in enumerate(shown[image], start=1)
        ]
        if not any(images):
            raise FileNotFoundError(
                f"--image {image}: there is no file {folder / str(shown[image][0])}, nor any "
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
    from openset.tables import TableError, label_text

    table.require(["prediction"], "which `openset predict` writes")
    given = [
        label_text(value)
        for batch in table.batches("read")
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


# The first bytes of the images that browsers show; SVG, which can hold scripts, is none of them.
_IMAGES = {
    b"\x89PNG": "png",
    b"\xff\xd8\xff": "jpeg",
    b"GIF87a": "gif",
    b"GIF89a": "gif",
}


def _embedded(folder: Path, name, where: str, output: Path) -> str:
    """The image as an address that holds it; empty where there is none.

    The page may be passed on, so it gets images only, and none from outside the folder.
    """
    path = (folder / str(name or "")).resolve()
    if not path.is_file():
        return ""
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(
            f"{where} names {str(name)!r}, which is {path}, outside the folder of the table "
            f"({folder.resolve()}); copy it there"
        )
    keep_apart(output, path)
    content = path.read_bytes()
    kind = next((kind for start, kind in _IMAGES.items() if content.startswith(start)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "webp"
    elif content[:2] == b"BM" and content[6:10] == bytes(4):
        kind = "bmp"
    if kind is None:
        raise ValueError(
            f"{where} names {str(name)!r}, which is no PNG, JPEG, GIF, WebP or BMP image; convert "
            "it, or leave the cell empty"
        )
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
