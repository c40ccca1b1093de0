"""A self-contained HTML page: text, tables and figures in one file, without scripts."""

from __future__ import annotations

import base64
import io
import os
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..utils import atomic_write

if TYPE_CHECKING:
    import pandas


_STYLE = files(__package__).joinpath("page.css").read_text("utf-8")


class Cell(NamedTuple):
    """A highlighted cell of a table: the best of its row, flagged, or in a muted colour."""

    text: object
    mark: Literal["best", "flag", "soft"]


class Page:
    """A page to which text, tables and figures are added in order. All text is escaped.

    The title is that of the window and the first heading.

    Examples
    --------
    >>> from openset.study.page import Cell, Page
    >>> page = Page("Results")
    >>> page.section("Ranks of methods")
    >>> page.paragraph("Smaller is better: a rank < 2 is good.")
    >>> page.table(["method", "rank"], [["SVM", "2.10"], ["OSSVM", Cell("1.40", "best")]])
    >>> '<a href="#ranks-of-methods">' in page.html()
    True
    """

    def __init__(self, title: str):
        self.title = title
        self._body: list[str] = []
        self._links: dict[str, str] = {}  # by anchor, the link in the navigation, if any

    def section(self, heading: str, level: Literal[2, 3] = 2) -> None:
        """Begin a section. Sections of level 2 are listed at the top of the page."""
        base = re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-") or "section"
        names = chain([base], (f"{base}-{k}" for k in count(2)))
        anchor = next(name for name in names if name not in self._links)
        link = f'<a href="#{anchor}">{escape(heading)}</a>'
        self._links[anchor] = link if level == 2 else ""
        self._body.append(f'<h{level} id="{anchor}">{escape(heading)}</h{level}>')

    def paragraph(self, text: str) -> None:
        """Add a paragraph."""
        self._body.append(f"<p>{escape(text)}</p>")

    def bullets(self, items: Iterable[str]) -> None:
        """Add a list of short points."""
        points = "".join(f"<li>{escape(item)}</li>" for item in items)
        self._body.append(f"<ul>{points}</ul>")

    def code(self, text: str) -> None:
        """Add a block of code or of literal output."""
        self._body.append(f"<pre><code>{escape(text)}</code></pre>")

    def table(
        self,
        header: Sequence[object],
        rows: Iterable[Sequence[object]],
        *,
        caption: str | None = None,
        text_columns: int = 1,
        folded: bool = False,
    ) -> None:
        """Add a table, which scrolls sideways on a narrow screen; its first column stays visible.

        ``str()`` of each cell is shown, and a `Cell` is highlighted. The first `text_columns`, at
        least one, are aligned as text, the others as numbers. The caption is above the table; if
        `folded`, only the caption is shown and a click opens the table.
        """
        lines = ["<tbody>"]
        for row in rows:
            if len(row) != len(header):
                raise ValueError(
                    f"a row of the table has {len(row)} cells, its header {len(header)}: {row!r}"
                )
            lines.append(_row(row, text_columns))
        head = "".join(_cell(name, 0 < i < text_columns, "th") for i, name in enumerate(header))
        label = f"<caption>{escape(caption)}</caption>" if caption and not folded else ""
        begin = f'<div class="scroll" tabindex="0"><table>{label}<thead><tr>{head}</tr></thead>'
        box = "\n".join([begin, *lines, "</tbody></table></div>"])
        if folded:
            box = f"<details><summary>{escape(caption or 'table')}</summary>{box}</details>"
        self._body.append(box)

    def figure(
        self,
        figure,
        *,
        alt: str,
        caption: str | None = None,
        format: Literal["svg", "png"] = "svg",
        half: bool = False,
    ) -> None:
        """Embed a matplotlib figure and close it in pyplot."""
        # `alt` is for readers who cannot see it; the caption is below the figure. Use "png" for a
        # figure with very many points, and `half` for half the width of a wide screen.
        import matplotlib.pyplot as plt

        content = _drawn(figure, format)
        plt.close(figure)
        media = {"svg": "image/svg+xml", "png": "image/png"}[format]
        uri = f"data:{media};base64,{base64.b64encode(content).decode()}"
        label = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        kind = ' class="half"' if half else ""
        self._body.append(f'<figure{kind}><img src="{uri}" alt="{escape(alt)}">{label}</figure>')

    def html(self) -> str:
        """Return the page as HTML."""
        title, links = escape(self.title), "".join(self._links.values())
        return "\n".join(
            [
                '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<title>{title}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>",
                f"<h1>{title}</h1>",
                *([f"<nav>{links}</nav>"] if links else []),
                *self._body,
                "</body>\n</html>\n",
            ]
        )

    def write(self, path: str | os.PathLike) -> None:
        """Write the page to a file, atomically."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.html(), encoding="utf-8")


def _drawn(figure, format: str, dpi: int = 160) -> bytes:
    """The file of a figure: the same for the same figure, and text that can be edited in a PDF."""
    import matplotlib

    buffer = io.BytesIO()
    date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
    with matplotlib.rc_context({"svg.hashsalt": "openset", "pdf.fonttype": 42}):
        figure.savefig(buffer, format=format, bbox_inches="tight", dpi=dpi, metadata=date)
    return buffer.getvalue()


def _row(row: Sequence[object], text_columns: int) -> str:
    """A row of a table; a mark that all cells share is written once."""
    marks = {value.mark if isinstance(value, Cell) else None for value in row}
    shared = marks.pop() if len(marks) == 1 else None
    values = [value.text for value in row if isinstance(value, Cell)] if shared else row
    cells = (_cell(value, 0 < i < text_columns) for i, value in enumerate(values))
    attribute = f' class="{shared}"' if shared else ""
    return f"<tr{attribute}>{''.join(cells)}</tr>"


def _cell(value: object, is_text: bool, tag: str = "td") -> str:
    mark = ""
    if isinstance(value, Cell):
        value, mark = value
    classes = " ".join(filter(None, ["text" if is_text else "", mark]))
    attribute = f' class="{classes}"' if classes else ""
    return f"<{tag}{attribute}>{escape(str(value))}</{tag}>"


class ReportTable(NamedTuple):
    """One table of a report: on the page, as CSV with all digits, and in LaTeX."""

    name: str  # of the files, without suffix
    caption: str
    header: Sequence[str]  # it and the rows: as they are read, on the page and in LaTeX
    rows: Sequence[Sequence[str | Cell]]
    values: pandas.DataFrame  # the numbers, for the CSV file
    text_columns: int = 1  # how many columns, from the left, are text

    def write(self, folder: str | os.PathLike, page: Page, *, folded: bool = False) -> None:
        """Add the table to the page, and write ``NAME.csv`` and ``NAME.tex`` to the folder."""
        shape: dict[str, Any] = {"text_columns": self.text_columns, "folded": folded}
        page.table(self.header, self.rows, caption=self.caption, **shape)
        numbers = self.values.to_csv(index=False, lineterminator="\n")
        for suffix, text in (("csv", numbers), ("tex", self.latex())):
            with atomic_write(Path(folder, f"{self.name}.{suffix}")) as temporary:
                temporary.write_text(text, encoding="utf-8", newline="")

    def latex(self) -> str:
        r"""The table with caption and label ``tab:NAME``; it needs ``\usepackage{booktabs}``."""
        head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in (self.header, *self.rows))
        columns = ("l" * self.text_columns).ljust(len(self.header), "r")
        begin = rf"\begin{{tabular}}{{{columns}}}"
        caption = [rf"\caption{{{_latex(self.caption)}}}", rf"\label{{tab:{self.name}}}"]
        lines = [r"\begin{table}", r"\centering", *caption, begin, r"\toprule", head, r"\midrule"]
        return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}", "\\end{table}\n"])


class Report(Page):
    """A page whose tables and figures are also files, in ``tables/`` and ``figures/``."""

    def __init__(self, title: str, folder: Path):
        super().__init__(title)
        self.tables, self.figures = folder / "tables", folder / "figures"
        for made in (self.tables, self.figures):
            made.mkdir(parents=True, exist_ok=True)

    def add_table(self, *fields: Any, folded: bool = False) -> None:
        """Add a `ReportTable` of these fields."""
        ReportTable(*fields).write(self.tables, self, folded=folded)

    def add_figure(self, name: str, figure, **shown: Any) -> None:
        """Add a figure to the page, and write ``NAME.png``, ``NAME.pdf`` and ``NAME.svg``."""
        for format in ("png", "pdf", "svg"):
            with atomic_write(self.figures / f"{name}.{format}") as temporary:
                temporary.write_bytes(_drawn(figure, format, dpi=300))
        self.figure(figure, **shown)


def mark_best(texts: Iterable[str], values: ArrayLike, best: ArrayLike) -> list[str | Cell]:
    """The texts as cells, highlighted where the value is the best one."""
    is_best = np.asarray(values) == np.asarray(best)
    return [Cell(text, "best") if top else text for text, top in zip(texts, is_best, strict=True)]


_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "−": "$-$", "<": "$<$", ">": "$>$"}
    | {"χ": r"$\chi$", "²": "$^2$", "λ": r"$\lambda$"}
)


def _latex(cell: str | Cell) -> str:
    if not isinstance(cell, Cell):
        return str(cell).translate(_LATEX)
    text = str(cell.text).translate(_LATEX)
    return {"best": rf"\textbf{{{text}}}", "flag": rf"{text}$^\ast$", "soft": text}[cell.mark]


def number(value: float, digits: int = 3) -> str:
    """Format a number; a dash if it is missing."""
    return "–" if np.isnan(value) else f"{value:.{digits}f}"


def with_error(value: float, error: float) -> str:
    """Format a mean and its error, as in 0.731±.012."""
    return number(value) + ("" if np.isnan(error) else f"±{error:.3f}".replace("±0.", "±."))


def p_value(p: float) -> str:
    """Format a p-value."""
    return "<1e-16" if p < 1e-16 else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def duration(seconds: float) -> str:
    """Format a time."""
    if np.isnan(seconds):
        return "–"
    if seconds >= 100:
        return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"
