"""The tables of the pages follow from the stored results."""

import subprocess
import sys
from pathlib import Path

import pytest

STUDIES = Path(__file__).resolve().parents[2] / "studies"
sys.path.insert(0, str(STUDIES))

import quoted  # noqa: E402


def test_the_tables_of_the_pages_are_those_of_the_results():
    command = [sys.executable, STUDIES / "quoted.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr or done.stdout
    assert "0 lines of tables are not as on the pages" in done.stdout


def test_a_line_of_the_right_table_is_replaced(tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text("| NA | 1 |\n\nsecond\n\n| NA | 2 |\n| HNA | 3 |\n")
    page = quoted.Page(path)
    page.table("second")
    page.line("| HNA | 3 |")
    assert page.changed == 0
    page.line("| NA | 2.5 |")
    assert page.changed == 1 and "| NA | 2.5 |   CHANGED" in capsys.readouterr().out
    page.write()
    assert path.read_text() == "| NA | 1 |\n\nsecond\n\n| NA | 2.5 |\n| HNA | 3 |\n"


def test_a_line_that_no_table_has_is_an_error(tmp_path):
    path = tmp_path / "page.md"
    path.write_text("| NA | 1 |\n")
    page = quoted.Page(path)
    page.table("| NA")
    with pytest.raises(ValueError, match=r"no line of .*page\.md begins with"):
        page.line("| FM | 1 |")
