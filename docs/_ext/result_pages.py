"""Make pages of the files that the commands write.

`make bench` writes `benchmarks/*.md`: each becomes a page, word for word. `openset study report`
writes a folder with `report.html` and tables: it becomes a page with the average ranks and a link
to the report, which is copied. A result that has not been measured yet has no page.
"""

import csv
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "studies" / "results"
# The tables are wide: no list of contents beside them.
_HEAD = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"


def pages() -> dict[str, str]:
    """Text of each page by its name."""
    found = {path.name: path.read_text("utf-8") for path in ROOT.glob("benchmarks/*.md")}
    for name, report in reports().items():
        found[f"study-{name}.md"] = _study_page(name, report)
    return {name: _HEAD + text for name, text in sorted(found.items())}


def reports() -> dict[str, Path]:
    """The reports of studies by name."""
    found = sorted(STUDIES.glob("**/report.html"))
    return {"-".join(path.parent.relative_to(STUDIES).parts) or "results": path for path in found}


def _study_page(name: str, report: Path) -> str:
    lines = [
        f"# Study: {name}",
        "",
        f'<a href="../studies/{name}.html">The whole report</a>: means by dataset, ranks, tests, '
        "diagrams, the signs of the biases, times, what is missing.",
    ]
    for path in sorted(report.parent.glob("tables/ranks*.csv"), key=lambda path: len(path.stem)):
        which = path.stem.removeprefix("ranks").strip("-").replace("-", " ") or "all methods"
        lines += ["", f"## Average ranks, {which}", "", "1 is the best.", "", *_table(path)]
    return "\n".join([*lines, ""])


def _table(path: Path) -> list[str]:
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    rows = [[row[0], *(f"{float(x):.2f}" if x else "" for x in row[1:])] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]]


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


def copy_reports(app, exception) -> None:
    """Put the reports where the pages look for them."""
    if exception is None and app.builder.format == "html":
        for name, report in reports().items():
            target = Path(app.outdir, "studies", f"{name}.html")
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(report, target)


def setup(app):
    """Write now: the pages have to be there when Sphinx looks for documents."""
    write_pages(Path(app.srcdir))
    app.connect("build-finished", copy_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
