"""The README's table of speeds, taken from the results file: ``python -m benchmarks.readme``."""

import re
from pathlib import Path

from . import report

_FOLDER = Path(__file__).resolve().parent
_README = _FOLDER.parent / "README.md"
_MARKED = re.compile(r"(<!-- make bench: begin -->\n).*?(<!-- make bench: end -->)", re.DOTALL)

# What the jobs are called in the README, in its order.
_JOBS = {
    "grid": "the paper's grid, 3840 machines",
    "selection": "the paper's search, letter, 12 classes",
    "clinc": "150 classes of embeddings, 15,000 x 384",
    "ovr": "26 classes, 20,000 x 16",
    "predict": "scores of 20,000 rows, 26 classes",
    "binary, gamma 0.5": "one binary problem, 20,000 x 16, gamma 0.5",
    "binary, gamma 8": "the same, gamma 8",
    "binary, gamma 32": "the same, gamma 32",
}


def table(results: str) -> str:
    """The targets of a results file that are ratios of times, as a Markdown table."""
    rows = [["job", "against", "times faster", "target"]]
    for job, title in _JOBS.items():
        pattern = rf"^\| {re.escape(job)}, against (\S+) \| at least (\S+)x \| (\S+)x \|"
        for program, target, measured in re.findall(pattern, results, re.MULTILINE):
            rows.append([title, program, measured, target])
    return report.table(rows)


def write() -> None:
    """Put the table between the marks of the README."""
    text = _README.read_text("utf-8")
    if not _MARKED.search(text):
        raise ValueError(f"{_README} has no marks 'make bench: begin' and 'make bench: end'.")
    made = table((_FOLDER / "results.md").read_text("utf-8"))
    _README.write_text(_MARKED.sub(rf"\g<1>{made}\n\g<2>", text), "utf-8")


if __name__ == "__main__":
    write()
