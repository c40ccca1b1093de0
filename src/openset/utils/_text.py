"""Tables and lists as plain text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    gap: int = 2,
    text_columns: Sequence[int] = (0,),
) -> str:
    """Return a table with aligned columns.

    Parameters
    ----------
    header : sequence of str
        A title may have several lines.
    rows : sequence of sequences of str
    gap : int, default=2
        Spaces between columns.
    text_columns : sequence of int, default=(0,)
        Columns aligned as text, the others as numbers.

    Returns
    -------
    str

    Examples
    --------
    >>> from openset.utils import text_table
    >>> print(text_table(["method", "NA"], [["SVM", "0.7"], ["OSSVM", "0.81"]]))
    method    NA
    SVM      0.7
    OSSVM   0.81
    """
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
    """Return names as in a sentence.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    str

    Examples
    --------
    >>> from openset.utils import join_names
    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def shortened(names: Sequence[str], most: int = 8) -> str:
    """Return comma-separated names; the middle is omitted if there are many.

    Parameters
    ----------
    names : sequence of str
    most : int, default=8
        More names than that are shortened.

    Returns
    -------
    str

    Examples
    --------
    >>> from openset.utils import shortened
    >>> shortened(["a", "b", "c", "d", "e"], most=4)
    'a, b, c, ..., e'
    """
    if len(names) > most:
        names = [*names[: most - 1], "...", names[-1]]
    return ", ".join(names)
