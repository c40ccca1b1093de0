"""Make pages from the files that the commands write.

`make bench` writes `benchmarks/*.md`: each becomes a page, unchanged. `openset study report` writes
a folder with `report.html` and tables: it becomes a page with the average ranks and a link to the
report, which is copied. `studies/results/README.md` summarises the studies. A result that has not
been measured yet has no page.
"""

import csv
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "studies" / "results"
# The tables are wide, so these pages have no table of contents at the side.
_HEAD = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"


def pages() -> dict[str, str]:
    """Text of each page, by name."""
    found = {path.name: path.read_text("utf-8") for path in ROOT.glob("benchmarks/*.md")}
    summary = STUDIES / "README.md"
    if summary.is_file():
        text = re.sub("^#", "##", summary.read_text("utf-8"), flags=re.MULTILINE)
        found["studies.md"] = f"# Studies\n\n{text}"
    for name, report in reports().items():
        found[f"study-{name}.md"] = _study_page(name, report)
    return {name: _HEAD + text for name, text in sorted(found.items())}


def reports() -> dict[str, Path]:
    """Reports of the studies, by name."""
    found = sorted(STUDIES.glob("**/report.html"))
    return {"-".join(path.parent.relative_to(STUDIES).parts) or "results": path for path in found}


def _study_page(name: str, report: Path) -> str:
    lines = [
        f"# Study: {name}",
        "",
        *_about(STUDIES.parent / f"{name}.toml"),
        f'<a href="../studies/{name}.html">The whole report</a>: means by dataset, ranks, tests, '
        "diagrams, the signs of the biases, times, what is missing.",
    ]
    for path in sorted(report.parent.glob("tables/ranks*.csv"), key=lambda path: len(path.stem)):
        which = path.stem.removeprefix("ranks").strip("-").replace("-", " ") or "all methods"
        lines += ["", f"## Average ranks, {which}", "", "1 is the best.", "", *_ranks(path)]
        tests = path.with_name(path.name.replace("ranks", "tests"))
        if tests.is_file():
            lines += ["", "Against OSSVM by the Bonferroni-Dunn test at the level 0.05:", ""]
            lines += _tests(tests)
    return "\n".join([*lines, ""])


def _about(study: Path) -> list[str]:
    """The first comment of the file of a study."""
    if not study.is_file():
        return []
    lines = []
    for line in study.read_text("utf-8").splitlines():
        if not line.removeprefix("#").strip() or not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return [*lines, ""]


def _read(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def _ranks(path: Path) -> list[str]:
    header, *rows = _read(path)
    return _table([header, *([row[0], *(f"{float(x):.2f}" for x in row[1:])] for row in rows)])


def _tests(path: Path) -> list[str]:
    header, *rows = _read(path)
    wanted = [header.index(c) for c in ("n_blocks", "better", "not_different", "worse")]
    difference = header.index("cd_exact")
    shown = [["measure", "critical difference", "blocks", "better", "not different", "worse"]]
    for row in rows:
        shown.append([row[0], f"{float(row[difference]):.2f}", *(row[k] for k in wanted)])
    return _table(shown)


def _table(rows: list[list[str]]) -> list[str]:
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return [f"| {' | '.join(row)} |" for row in rows]


def write_pages(docs: Path) -> None:
    """Write the pages that have changed, and delete those whose source file no longer exists."""
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
    """Copy the reports to where the pages link to."""
    if exception is None and app.builder.format == "html":
        for name, report in reports().items():
            target = Path(app.outdir, "studies", f"{name}.html")
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(report, target)


def setup(app):
    """Write now, because the pages must exist when Sphinx looks for documents."""
    write_pages(Path(app.srcdir))
    app.connect("build-finished", copy_reports)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
