"""Write the table of methods, `_generated/methods.md`, from what the estimators say of themselves.

A page includes it. The name of a method leads to its page, `methods/ESTIMATOR.md`.
"""

from pathlib import Path

from openset.utils import method_table

_HEADER = ["method", "estimator", "kernel", "tails", "one class", "bounded", "exactly when"]


def table() -> str:
    """The table as Markdown."""
    rows = [_HEADER, ["---"] * len(_HEADER)]
    for row in method_table():
        flags = [row.extreme_value, row.one_class, row.bounded]
        rows.append(
            [
                f"[{row.method}](methods/{row.estimator}.md)",
                f"`{row.estimator}`",
                row.kernel or "none",
                *("yes" if flag else "" for flag in flags),
                row.footnote or ("always" if row.bounded else "never"),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def write_table(docs: Path) -> None:
    """Write the file, unless it is there as it should be."""
    path = docs / "_generated" / "methods.md"
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != table():
        path.write_text(table(), "utf-8")


def setup(app):
    """Write now: the pages have to be there when Sphinx looks for documents."""
    write_table(Path(app.srcdir))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
