"""A table of the report: on the page, as CSV with all digits, and in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ..utils import atomic_write
from ..utils.page import Cell, Page


@dataclass(frozen=True)
class ReportTable:
    """One table, as it is read and as data.

    `name` is the file name without suffix. `header` and `rows` are shown on the page and in LaTeX,
    with `text_columns` columns of text on the left; a `Cell` stands out. `values` are the numbers
    behind it, for the CSV file.
    """

    name: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    values: pd.DataFrame
    text_columns: int = 1

    def write(self, folder: Path, page: Page, *, folded: bool = False) -> None:
        """Add the table to the page, and write ``NAME.csv`` and ``NAME.tex`` to the folder."""
        shape = {"text_columns": self.text_columns, "folded": folded}
        page.table(self.header, self.rows, caption=self.caption, **shape)
        with atomic_write(folder / f"{self.name}.csv") as temporary:
            self.values.to_csv(temporary, index=False, lineterminator="\n")
        with atomic_write(folder / f"{self.name}.tex") as temporary:
            temporary.write_text(self.latex(), encoding="utf-8")

    def latex(self) -> str:
        """The tabular, with the rules of booktabs."""
        numbers = len(self.header) - self.text_columns
        head, *body = (" & ".join(map(_latex, line)) + r" \\" for line in (self.header, *self.rows))
        begin = rf"\begin{{tabular}}{{{'l' * self.text_columns}{'r' * numbers}}}"
        lines = [f"% {self.caption}", begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
        return "\n".join([*lines, "\\end{tabular}\n"])


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
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


def with_error(value: float, error: float) -> str:
    """Format a mean and its error, as in 0.731±.012."""
    return number(value) + ("" if pd.isna(error) else f"±{error:.3f}".replace("±0.", "±."))


def p_value(p: float) -> str:
    """Format a p-value."""
    return "<1e-16" if p < 1e-16 else f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def duration(seconds: float) -> str:
    """Format a time."""
    if pd.isna(seconds):
        return "–"
    if seconds >= 100:
        return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.1f} ms"
