import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from openset.cli import app

runner = CliRunner(env={"COLUMNS": "120"})


@pytest.fixture
def home(tmp_path):
    frame = pd.DataFrame({"x": range(7), "target": [0, 0, 1, 1, 1, 2, 2]})
    frame.to_parquet(tmp_path / "own.parquet")
    return tmp_path


def test_json(home):
    result = runner.invoke(app, ["datasets", "--json", "--data-home", str(home)])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.output)}
    assert rows["own"]["n_samples"] == 7
    assert (rows["own"]["smallest"], rows["own"]["largest"]) == (2, 3)
    assert rows["letter"]["source"] == "pmlb"
    assert rows["letter"]["published"] == [20000, 16, 26, 734, 813]


def test_table(home, monkeypatch):
    monkeypatch.setenv("OPENSET_DATA", str(home))
    result = runner.invoke(app, ["datasets"])
    assert result.exit_code == 0
    (line,) = (line for line in result.output.splitlines() if line.startswith("own"))
    assert line.split() == ["own", "3", "7", "1", "2.3", "2", "3"]
    text = " ".join(result.output.split())
    assert "caltech-256 is not here; the paper has 256 classes of 80 to 800 samples" in text
    assert "pip install pmlb" in text


def test_the_papers_table(data_home):
    result = runner.invoke(app, ["datasets", "--data-home", str(data_home)])
    lines = {
        line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line.strip()
    }
    # classes, samples, features, mean, smallest and largest class, as printed in the paper
    assert lines["krkopt"] == ["18", "28,056", "6", "1,558.7", "27", "4,553", "same", "values"]
    assert lines["yeast"] == ["9", "1,479", "8", "164.3", "20", "463", "same", "values"]
    for name in ("cifar10", "15-scenes", "kddcup", "aloi"):
        assert lines[name][-2:] == ["same", "size"]
    assert all(len(line) <= 80 for line in result.output.splitlines()[:30])
    text = " ".join(result.output.split())
    assert "mnist is not the paper's; the paper has 10 classes of 4,987 to 6,179 samples" in text


def test_other_values_of_the_same_size(data_home, tmp_path):
    frame = pd.read_parquet(data_home / "yeast.parquet")
    frame.iloc[0, 0] += 0.5
    frame.to_parquet(tmp_path / "yeast.parquet")
    result = runner.invoke(app, ["datasets", "--data-home", str(tmp_path)])
    (line,) = (line for line in result.output.splitlines() if line.startswith("yeast"))
    assert line.split()[-1] == "differs"
    result = runner.invoke(app, ["datasets", "--data-home", str(tmp_path), "--json"])
    values = {row["name"]: row["same_values"] for row in json.loads(result.output)}
    assert values["yeast"] is False
    assert values["letter"] is None


def test_no_such_folder(tmp_path):
    result = runner.invoke(app, ["datasets", "--data-home", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert "--data-home" in result.output
    assert "a folder" in result.output
