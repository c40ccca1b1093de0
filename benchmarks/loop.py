"""The loop on CLINC150 for several draws: ``python -m benchmarks.loop``; it writes loop.md."""

import subprocess
import sys
import tempfile
from pathlib import Path

from .report import table

EXAMPLE = Path(__file__).parents[1] / "examples" / "clinc150_loop.py"
SEEDS = range(5)


def main():
    """Run the example, and collect the tables of its reports."""
    reports = []
    with tempfile.TemporaryDirectory() as folder:
        report, figure = Path(folder, "report.md"), Path(folder, "figure.png")
        for seed in SEEDS:
            arguments = ["--seed", str(seed), "--report", str(report), "--output", str(figure)]
            subprocess.run([sys.executable, str(EXAMPLE), *arguments], check=True)
            reports.append(report.read_text())
    (Path(__file__).parent / "loop.md").write_text(text_of(reports))


def text_of(reports):
    """The first report, and the figures of all."""
    rows = [["draw", ""]]
    for seed, report in zip(SEEDS, reports, strict=True):
        lines = [line for line in report.splitlines() if line.startswith("|")]
        head, _, *figures = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
        rows[0][2:] = head[1:]
        rows += [[str(seed), *cells] for cells in figures]
    return (
        f"{reports[0]}\nFive draws of the ten intents, by `python -m benchmarks.loop`; the first "
        f"is the one above:\n\n{table(rows)}\n"
    )


if __name__ == "__main__":
    main()
