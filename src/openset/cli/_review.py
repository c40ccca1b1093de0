"""``openset review``: the unknown rows of a table on one page, to be named."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openset.cli import _options as options
from openset.cli._options import READS, WRITES, UsageError, complain, keep_apart, reported
from openset.cli._text import unknown_share
from openset.cli._traffic import estimated_share

if TYPE_CHECKING:
    import numpy as np


@reported
def review(
    shared: options.Working,
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS"), READS],
    data: Annotated[Path, READS],
    model: Annotated[Path, READS],
    output: options.NewPage,
    text: str | None = None,
    image: str | None = None,
    train: options.ReadFile = None,
) -> None:
    """Show the unknown rows on one page, in groups; names given there go to decisions.csv.

    answers: Table that `openset predict` wrote.
    data: Table that was answered.
    model: Model that answered it.
    text: Column of a text to show for each row.
    image: Column of paths of images, relative to the folder of the table.
    train: Training table: show the text or image of the most similar training row.
    """
    from openset.discovery import review_data, write_review

    options.prepare_output(output)
    columns = [*filter(None, (text, image))]
    if train is not None and not columns:
        raise UsageError("--train is to show a text or an image: give --text or --image")
    scorer = shared.model(model)
    shown: dict
    X, shown = scorer.read(shared.open(data), columns)
    Z = scorer.transform(X)
    images = None
    if image is not None:
        names = dict(enumerate(shown[image], start=1))
        images = [*_pictures(data, image, names, output).values()]
    _check_answers(shared.open(answers), scorer.final.predict(Z))
    known: dict = {}
    if train is not None:
        known = _training_rows(scorer, shared.open(train), columns)
    columns_of_train = {"train_texts": known.get(text), "train_images": known.get(image)}
    page = review_data(scorer.final, Z, texts=shown.get(text), images=images, **columns_of_train)
    if train is not None and image is not None:  # only those that are shown are read
        page["train"]["image"] = _pictures(train, image, page["train"]["image"], output)
    write_review(page, output, f"Unknown rows of {data.name}")
    share = estimated_share(scorer.final, Z)
    n_unknown = len(page["samples"]["row"])
    n_small = sum(group["small"] for group in page["groups"])  # which come last
    sizes = [len(group["members"]) for group in page["groups"]][: len(page["groups"]) - n_small]
    told = {"rows": page["n"], "unknown": n_unknown, "groups": sizes, "small_groups": n_small}
    lines = [
        f"{data}: {n_unknown:,} of {page['n']:,} rows are unknown, {len(sizes)} groups, "
        f"{n_small} small ones; wrote {output}",
        *([] if share is None else [f"estimate from all scores: {unknown_share(share)}"]),
        "next: open it in a browser, name rows, save decisions.csv, give that to `openset learn`",
    ]
    shared.tell(told | {"traffic": share}, lines, indent=None)


def _training_rows(scorer, table, columns: list[str]) -> dict[str, list]:
    """Values in the columns of the rows that the model was trained on, in their order."""
    from openset.tables import TableError

    _, y, _, rows = scorer.read_training(table, None, columns=columns)
    expected = None if "learned" in scorer.card else scorer.data.get("rows_used")
    if expected is not None and len(y) != expected:
        raise TableError(
            f"--train: {table.path} has {len(y):,} rows of the classes of the model, but it was "
            f"trained on {expected:,}; give the table that it was trained on"
        )
    return rows


def _check_answers(table, expected: np.ndarray) -> None:
    """Raise TableError unless the table holds the answers of this model for these rows."""
    from openset.tables import TableError, label_text

    table.require(["prediction"], "which `openset predict` writes")
    batches = table.batches("read")
    given = [label_text(v) for b in batches for v in b.column("prediction").to_pylist()]
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


def _pictures(table: Path, column: str, names: dict, output: Path) -> dict:
    """The images that rows of a table name, as addresses that hold them; in the same order."""
    folder = Path() if str(table) == "-" else table.parent
    found = {
        row: _embedded(folder, name, f"--image {column}: {table.name}, data row {row}", output)
        for row, name in names.items()
    }
    if names and not any(found.values()):
        first = next(iter(names.values()))
        raise FileNotFoundError(
            f"--image {column}: there is no file {folder / str(first)}, nor any other that the "
            "column names"
        )
    return found


# How images that browsers show begin; SVG, which can hold scripts, is none of them.
_IMAGES = {
    **{"png": rb"\x89PNG", "jpeg": rb"\xff\xd8\xff", "gif": rb"GIF8[79]a"},
    **{"webp": rb"RIFF.{4}WEBP", "bmp": rb"BM.{4}\0{4}"},
}


def _embedded(folder: Path, name, where: str, output: Path) -> str:
    """The image as an address that holds it; empty where there is none."""
    # The page may be passed on, so it gets images only, and none from outside the folder.
    path = (folder / str(name or "")).resolve()
    if not path.is_file():
        return ""
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(
            f"{where} names {str(name)!r}, which is {path}, outside the folder of the table "
            f"({folder.resolve()}); copy it there"
        )
    keep_apart(output, WRITES, path, READS)
    content = path.read_bytes()
    kinds = (kind for kind, begin in _IMAGES.items() if re.match(begin, content, re.DOTALL))
    if (kind := next(kinds, None)) is None:
        raise ValueError(
            f"{where} names {str(name)!r}, which is no PNG, JPEG, GIF, WebP or BMP image; convert "
            "it, or leave the cell empty"
        )
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
