"""Recorded tasks run again: equal ones, changed ones, resuming."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from openset.study import Store, load_study, run_task

SCRIPT = Path(__file__).resolve().parents[2] / "studies" / "rerun.py"
STUDY = """datasets = ["make_four_gauss"]
methods = ["OneVsSetMachine"]
n_known = [3]
runs = 3
[search]
preset = "paper"
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A study of three tasks and its export; a measure of the last was changed."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "tiny.toml").write_text(STUDY)
    study = load_study(folder / "tiny.toml")
    with Store(folder / "r.sqlite", create=True) as store:
        for task in study.tasks({"make_four_gauss": 4}):
            row = run_task(task, study)
            store.put(row | {"NA": row["NA"] + 1e-9 * (task.run == 2)})
        store.export_csv(folder / "r.csv")
    return folder


def rerun(folder, *options):
    command = [sys.executable, SCRIPT, folder / "tiny.toml", folder / "r.csv", *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def test_a_changed_digit_is_found(recorded, tmp_path):
    out = tmp_path / "again.csv"
    first = rerun(recorded, "--tasks", 2, "--seed", 1, "--out", out)
    assert len(pd.read_csv(out)) == 2, first.stderr
    everything = rerun(recorded, "--tasks", 3, "--seed", 1, "--out", out)
    assert everything.returncode == 1
    assert "2 of 3 tasks equal" in everything.stdout
    assert "OneVsSetMachine: 2 of 3, mean change of NA -0.0000" in everything.stdout
    table = pd.read_csv(out)
    assert table[["dataset", "run", "method"]].duplicated().sum() == 0
    (row,) = table[~table["equal"]].to_dict("records")
    assert row["run"] == 2
    assert row["difference"] == pytest.approx(1e-9, rel=1e-4)
    assert row["same_params"] and row["same_libraries"]
    assert json.loads(row["recorded"]) == json.loads(row["again"])


def test_bad_input(recorded, tmp_path):
    out = ["--out", tmp_path / "x.csv"]
    for options, message in [
        (["--tasks", 0, *out], "--tasks 0 must be 1 or more"),
        (["--datasets", "letter", *out], "no finished row of these datasets and methods"),
    ]:
        found = rerun(recorded, *options)
        assert found.returncode == 2
        assert message in found.stderr
