"""``openset traffic``, and ``openset fit --calibration``, on which its promise rests."""

import json

import numpy as np
import pandas as pd
import pytest

from openset.persistence import load_model, read_card

from .conftest import blobs


@pytest.fixture
def table(tmp_path):
    table = pd.concat([blobs(100, seed=5), blobs(200, seed=6, classes="x")], ignore_index=True)
    table.drop(columns="kind").to_csv(tmp_path / "traffic.csv", index=False)
    return tmp_path / "traffic.csv"


def test_rows_kept_back_give_a_promise(run, table, tmp_path):
    blobs(120).to_csv(tmp_path / "train.csv", index=False)
    model = tmp_path / "m.skops"
    arguments = ("fit", tmp_path / "train.csv", "-t", "kind", "-o", model, "--turns", 0)
    result = run(*arguments, "--jobs", 1, "--calibration", 0.25)
    assert result.exit_code == 0, result.stderr
    assert "operating point: at most 5.000% of the known rows are rejected" in result.stdout
    assert "calibrated on 120 known and 0 unknown rows of train.csv" in result.stdout
    assert read_card(model)["operating_point"]["rows"] == 120
    assert load_model(model)[-1].promise_
    told = run("traffic", model, table)
    assert told.exit_code == 0, told.stderr
    assert "600 rows of traffic, 120 calibration rows" in told.stdout
    assert "promise: at least" in told.stdout
    report = json.loads(run("traffic", model, table, "--json").stdout)
    assert 0.15 < report["unknown_at_least"] < 1 / 3
    assert report["unknown_share"] == pytest.approx(1 / 3, abs=0.08)
    assert [*report["classes"]] == ["a", "b", "c", "d"]


def test_without_rows_kept_back_there_is_an_estimate(run, trained, table):
    report = json.loads(run("traffic", trained.model, table, "--json").stdout)
    assert report["unknown_at_least"] is None
    assert "--calibration" in report["reason"]
    assert report["calibration_rows"] == 64  # two turns, a fifth each: a rough estimate
    assert report["unknown_share"] == pytest.approx(1 / 3, abs=0.15)


def test_objects_are_kept_back_whole(run, tmp_path):
    train = blobs(120)
    train["track"] = train.kind + (np.arange(len(train)) // 20).astype(str)
    train.to_csv(tmp_path / "train.csv", index=False)
    model = tmp_path / "m.skops"
    arguments = ("fit", tmp_path / "train.csv", "-t", "kind", "-o", model, "--turns", 0)
    result = run(*arguments, "--jobs", 1, "--group", "track", "--calibration", 0.3)
    assert result.exit_code == 0, result.stderr
    assert "rows of one 'track' are counted as one object" in result.stdout


def test_troubles(fails, run, trained, table, tmp_path):
    arguments = ("fit", trained.train, "-t", "kind", "-o", tmp_path / "m.skops", "--turns", 0)
    assert "--calibration 0.05 leaves 8 rows to calibrate on; at least 19" in fails(
        *arguments, "--calibration", 0.05
    )
    assert run(*arguments, "--calibration", 0.95).exit_code == 2
    pd.read_csv(table).drop(columns="mass").to_csv(tmp_path / "less.csv", index=False)
    assert "no column 'mass'" in fails("traffic", trained.model, tmp_path / "less.csv")
    pd.read_csv(table)[:5].to_csv(tmp_path / "few.csv", index=False)
    assert "traffic has 5 rows" in fails("traffic", trained.model, tmp_path / "few.csv")
    broken = pd.read_csv(table)
    broken.loc[3, "mass"] = np.nan
    broken.to_csv(tmp_path / "gap.csv", index=False)
    assert "missing" in fails("traffic", trained.model, tmp_path / "gap.csv")
