"""Make pages from the files that the commands write.

`make bench` writes `benchmarks/*.md`: each becomes a page, word for word. A folder of
`studies/results` with `results.csv.gz` and `report.html` becomes a page with the average ranks and
a link to the report, which is copied. `studies/results/README.md` summarizes them. A result that
has not been measured yet has no page.
"""

import re
import shutil
from pathlib import Path

import pandas as pd

from openset.study import load_study, rank_methods, stats
from openset.utils import method_table

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "studies" / "results"
_CONTROL = "OpenSetSVC"
# What a page answers, for the list of all pages; one that is not named here is listed by its title.
_ABOUT = {
    "results": "How fast is it? Each job against other libraries, with objective and KKT gap",
    "cores": "What do more cores gain? Fits, scores and searches with 1 to 16 threads",
    "gpu": "What does a GPU gain?",
    "scale": "Many samples: time, memory and accuracy with landmarks",
    "studies": "Which method rejects best? Summary of the experiments",
    "study-paper": "The paper's experiments, with the paper's search",
    "study-better": "The same experiments with our default search",
    "study-open_intents": "Open intents: CLINC150 and BANKING77 in the protocol of TEXTOIR",
    "study-open_intents_lambda": "The same with lambda searched, the plain SVM, SIMCA and ViM",
    "study-open_intents_searched": "The same with lambda or one threshold from the search alone",
    "open_intents_rule": "How the rule of that study was chosen, without test rows",
    "gain": "What does the default search gain over the one of the paper?",
    "clinc150": "150 intents and out-of-scope queries: accuracy at several operating points",
    "known_unknowns": "What do examples of the unknown gain? Baselines for embeddings",
    "operating_points": "Are the promises of calibrated thresholds kept?",
    "promises": "Are promises about strangers, objects and categories kept, and what do they cost?",
    "monitoring": "How soon does a monitor notice, and how often is it a false alarm?",
    "groups": "Are new classes found among the rejected samples?",
    "loop": "The loop on real data: alarm, review, learn",
    "reliability": "Random fits, damaged files, threads: what was tried to break it",
    "front_door": "What the command line writes on real data, and what changed for new users",
}
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
    return {name: _HEAD + _linked(text) for name, text in sorted(found.items())}


def _linked(text: str) -> str:
    """The text with links to other measured files, pages and pictures as they are on the pages."""
    text = re.sub(r"\]\((?:\.\./)*benchmarks/(\w+\.md)", r"](\1", text)
    text = re.sub(r"\]\((?:\.\./)*studies/results/README\.md", "](studies.md", text)
    text = re.sub(r"\]\((?:\.\./)*docs/(\w+\.md)", r"](../\1", text)
    return re.sub(r"\]\((?:\.\./)*docs/images/", "](../images/", text)


def reports() -> dict[str, Path]:
    """Reports of the studies, by name."""
    found = sorted(STUDIES.glob("**/report.html"))
    return {"-".join(path.parent.relative_to(STUDIES).parts) or "results": path for path in found}


def _study_page(name: str, report: Path) -> str:
    file = STUDIES.parent / f"{name}.toml"
    lines = [
        f"# Study: {name}",
        "",
        *_about(file),
        f'<a href="../studies/{name}.html">The whole report</a>: means by dataset, ranks, tests, '
        "diagrams, times, missing tasks.",
    ]
    results = report.with_name("results.csv.gz")
    if not results.is_file():
        return "\n".join([*lines, ""])
    rows = pd.read_csv(results, keep_default_na=False)
    study = load_study(file) if file.is_file() else None
    names = {row.estimator: row.method for row in method_table()}
    for k, group in enumerate(rank_methods(rows, study=study, control=_CONTROL)):
        which = f"{len(group[0].ranks)} methods" if k else "all methods"
        lines += ["", f"## Average ranks, {which}", "", "1 is the best.", "", *_ranks(group, names)]
        if _CONTROL in group[0].ranks:
            lines += ["", "Against OSSVM by the Bonferroni-Dunn test at the level 0.05:", ""]
            lines += _tests(group, names)
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


def _ranks(group, names) -> list[str]:
    rows = [["method", *(ranking.measure for ranking in group)]]
    for method in group[0].ranks:
        rows.append([names[method], *(f"{ranking.ranks[method]:.2f}" for ranking in group)])
    return _table(rows)


def _tests(group, names) -> list[str]:
    shown = [["measure", "critical difference", "blocks", "better", "not different", "worse"]]
    for ranking in group:
        limit = stats.critical_difference(len(ranking.ranks), ranking.n_blocks)
        verdicts: dict[str, list[str]] = {"better": [], "same": [], "worse": []}
        for c in stats.compare_with_control(ranking.ranks, _CONTROL, ranking.n_blocks):
            verdict = ("worse" if c.difference > 0 else "better") if c.differs else "same"
            verdicts[verdict].append(names[c.method])
        cells = [", ".join(found) or "none" for found in verdicts.values()]
        shown.append([ranking.measure, f"{limit:.2f}", str(ranking.n_blocks), *cells])
    return _table(shown)


def _table(rows: list[list[str]]) -> list[str]:
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return [f"| {' | '.join(row)} |" for row in rows]


def overview(found: dict[str, str]) -> str:
    """A table of the pages and what each answers, in the order of `_ABOUT`."""
    order = [name for name in _ABOUT if f"{name}.md" in found]
    order += [name for name in map(_stem, found) if name not in _ABOUT]
    rows = [["page", "what it answers"]]
    for name in order:
        title = re.search("^# (.*)", found[f"{name}.md"], flags=re.MULTILINE)
        text = title[1] if title else name
        rows.append([f"[{text}](measured/{name}.md)", _ABOUT.get(name, "")])
    return "\n".join(_table(rows)) + "\n"


def _stem(name: str) -> str:
    return name.removesuffix(".md")


def write_pages(docs: Path) -> None:
    """Write the pages that have changed, and delete those whose source file no longer exists."""
    folder = docs / "measured"
    folder.mkdir(exist_ok=True)
    found = pages()
    (docs / "_generated").mkdir(exist_ok=True)
    (docs / "_generated" / "results.md").write_text(overview(found), "utf-8")
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
