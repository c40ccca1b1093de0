"""Write the table of methods, `_generated/methods.md`, from the traits that estimators declare.

It maps the name in the paper to the class and to the name on the command line; other pages include
it. The name of a method links to its page, `methods/ESTIMATOR.md`.
"""

from pathlib import Path

from openset.utils import method_table

_HEADER = ["method", "class", "on the command line", "based on", "bounded", "exactly when"]


def _based_on(row) -> str:
    parts = [f"{row.kernel} kernel"] if row.kernel else []
    parts += ["tails"] if row.extreme_value else []
    parts += ["one class"] if row.one_class else []
    return ", ".join(parts)


def table() -> str:
    """The table as Markdown."""
    rows = [_HEADER, ["---"] * len(_HEADER)]
    for row in method_table():
        rows.append(
            [
                f"[{row.method}](methods/{row.estimator}.md)",
                f"`{row.estimator}`",
                f"`{row.command}`" if row.command else "",
                _based_on(row),
                "yes" if row.bounded else "no",
                row.footnote or ("always" if row.bounded else "never"),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def write_table(docs: Path) -> None:
    """Write the file if its content has changed."""
    path = docs / "_generated" / "methods.md"
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != table():
        path.write_text(table(), "utf-8")


def setup(app):
    """Write now, because the pages must exist when Sphinx looks for documents."""
    write_table(Path(app.srcdir))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
