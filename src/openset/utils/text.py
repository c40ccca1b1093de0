"""Tables and lists as plain text."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def text_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    gap: int = 2,
    text_columns: Sequence[int] = (0,),
) -> str:
    """A table with aligned columns, numbers to the right; a title may have several lines."""
    titles = [title.split("\n") for title in header]
    depth = max(map(len, titles))
    heads = zip(*([""] * (depth - len(title)) + title for title in titles), strict=True)
    lines = [*heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    align = [str.ljust if k in text_columns else str.rjust for k in range(len(header))]
    texts = []
    for line in lines:
        cells = [put(cell, n) for put, cell, n in zip(align, line, widths, strict=True)]
        texts.append((" " * gap).join(cells).rstrip())
    return "\n".join(texts)


def join_names(names: Sequence[str]) -> str:
    """Names as in a sentence: a, b and c."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def shortened(names: Sequence[str], most: int = 8) -> str:
    """Comma-separated names; the middle is omitted if there are many."""
    if len(names) > most:
        names = [*names[: most - 1], "...", names[-1]]
    return ", ".join(names)


def similar(name: str, known: Iterable[str], most: int = 3) -> str:
    """The question "did you mean ...?" with known names like this one; empty if there is none."""
    by_case = {other.lower(): other for other in known}
    close = get_close_matches(name.lower(), by_case, most)
    return f"did you mean {' or '.join(repr(by_case[key]) for key in close)}?" if close else ""
