"""What the README shows is run as it stands there, and its table of speeds is the one measured."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
TEXT = README.read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
SHELL = re.findall(r"^```sh\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def test_example_is_short():
    assert BLOCKS
    assert all(len(block.splitlines()) <= 12 for block in BLOCKS)


def test_example_runs_and_prints_what_the_readme_says(capsys):
    namespace = {}
    exec(compile(BLOCKS[0], str(README), "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    for block in BLOCKS[1:]:
        exec(compile(block, str(README), "exec"), namespace)
    # Each print() carries its result as a comment.
    promised = re.findall(r"^print\(.*\)\s+# (.*)$", BLOCKS[0], re.MULTILINE)
    assert promised
    assert printed == promised


def test_two_commands():
    assert [line.split("#")[0].split() for line in SHELL[0].splitlines()] == [
        ["make", "demo"],
        ["make", "test"],
    ]


def test_shell_lines_run(tmp_path):
    (lines,) = (block for block in SHELL if "openset fit" in block)
    assert len(lines.splitlines()) == 3
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    run = subprocess.run(
        ["sh", "-ec", lines],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    answers = (tmp_path / "answers.csv").read_text("utf-8").splitlines()
    assert len(answers) == 1 + 1797
    assert "prediction" in answers[0]


def test_table_of_speeds_is_that_of_the_results(monkeypatch):
    monkeypatch.syspath_prepend(README.parent)
    readme = pytest.importorskip("benchmarks.readme")
    results = (README.parent / "benchmarks" / "results.md").read_text("utf-8")
    marks = r"<!-- make bench: begin -->\n(.*?)\n<!-- make bench: end -->"
    shown = re.search(marks, TEXT, re.DOTALL)
    assert shown[1] == readme.table(results)
    assert shown[1].count("\n") > 3


@pytest.mark.parametrize("target", re.findall(r"\]\(((?!http)[^)]+)\)", TEXT))
def test_links_lead_somewhere(target):
    assert (README.parent / target.partition("#")[0]).exists()
