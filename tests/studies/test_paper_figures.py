"""The figures of the paper, drawn again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "studies" / "paper_figures.py"


def _run(*arguments, **environment):
    kept = {k: v for k, v in os.environ.items() if k != "OPENSET_DATA"}
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**kept, **environment})


def test_other_points_are_never_drawn(tmp_path):
    run = _run(tmp_path, "--figures", "1", OPENSET_DATA=str(tmp_path))
    assert run.returncode
    assert "has no boat.parquet" in run.stderr
    assert not list(tmp_path.iterdir())


def test_boat_and_the_diagrams(data_home, tmp_path):
    run = _run(tmp_path, "--figures", "1,3", OPENSET_DATA=str(data_home))
    assert run.returncode == 0, run.stderr
    assert "biases of the SVM: -0.832 -0.860 +0.594" in run.stdout  # the paper's caption
    assert run.stdout.count("not different from OSSVM") == 6
    assert {path.name for path in tmp_path.iterdir()} == {"figure-1.png", "figure-3.png"}


@pytest.mark.slow
def test_regions_of_each_set(data_home, tmp_path):
    run = _run(tmp_path, "--figures", "2", OPENSET_DATA=str(data_home))
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("9 methods in") == len(list(tmp_path.iterdir())) == 4
    for method in ("OneVsRestSVC", "PISVM", "OpenSetSVC"):
        assert run.stdout.count(f"  {method}: {{'gamma'") == 4
