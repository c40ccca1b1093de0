"""Make pages of the files that the commands write: `measured/NAME.md` of `benchmarks/NAME.md`.

The text is that of the file. A result that has not been measured yet has no page.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The tables are wide: no list of contents beside them.
_HEAD = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"


def pages() -> dict[str, str]:
    """Text of each page by its name."""
    files = sorted(ROOT.glob("benchmarks/*.md"))
    return {path.name: _HEAD + path.read_text("utf-8") for path in files}


def write_pages(docs: Path) -> None:
    """Write the pages that have changed, and remove those whose file is gone."""
    folder = docs / "measured"
    folder.mkdir(exist_ok=True)
    found = pages()
    for path in folder.glob("*.md"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def setup(app):
    """Write now: the pages have to be there when Sphinx looks for documents."""
    write_pages(Path(app.srcdir))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
