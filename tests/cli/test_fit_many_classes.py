"""openset fit with its defaults on real data with many classes: the report tells the truth."""

import json

import pandas as pd
import pytest


@pytest.mark.slow
def test_the_report_agrees_with_the_test_rows(run, data_home, tmp_path):
    table = pd.read_parquet(data_home / "clinc150-minilm.parquet").drop(columns="text")
    for name, splits in (("train", ["train"]), ("test", ["test", "oos_test"])):
        rows = table["split"].isin(splits)
        table[rows].drop(columns="split").to_parquet(tmp_path / f"{name}.parquet")
    model = tmp_path / "m.skops"
    arguments = ("fit", tmp_path / "train.parquet", "-t", "target", "-o", model, "--json")
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.stdout)["held_out"]["measures"]
    result = run("evaluate", model, tmp_path / "test.parquet", "-t", "target", "--json")
    found = json.loads(result.stdout)["measures"]
    assert found["normalized_accuracy"] >= 0.90
    assert abs(said["accuracy_known"] - found["accuracy_known"]) <= 0.03
