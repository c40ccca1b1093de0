"""One answer per object, from calibrate to the monitor."""

import json

import numpy as np
import pandas as pd
import pytest

from openset.calibration import predict_groups
from openset.monitoring import UnknownRateMonitor
from openset.persistence import load_model, read_card

from .conftest import blobs

FEATURES = ["width", "height", "mass"]


def tracks(n=80, seed=5, classes="abcd", size=5):
    """A table of objects of one class each, in mixed order."""
    table = blobs(n, seed, classes).sort_values("kind", kind="stable", ignore_index=True)
    table["track"] = [f"{classes[0]}{seed}-{k // size}" for k in range(len(table))]
    return table.sample(frac=1, random_state=0, ignore_index=True)


@pytest.fixture
def table(tmp_path):
    table = pd.concat([tracks(), tracks(seed=6, classes="x")], ignore_index=True)
    table.to_csv(tmp_path / "t.csv", index=False)
    return table


@pytest.mark.parametrize("aggregate", [None, "mean", "votes"])
def test_objects_from_calibrate_to_evaluate(run, trained, table, tmp_path, aggregate):
    out, data, answers = tmp_path / "c.skops", tmp_path / "t.csv", tmp_path / "a.csv"
    arguments = ["calibrate", trained.model, data, "-t", "kind", "-o", out, "--group", "track"]
    result = run(*arguments, *([] if aggregate is None else ["--aggregate", aggregate]))
    assert result.exit_code == 0, result.stderr
    if aggregate is not None:
        assert "5.000% of the known 'track' objects are rejected" in result.stdout
        assert read_card(out)["operating_point"]["aggregate"] == aggregate
    told = run("predict", out, data, "-o", answers, "--group", "track")
    assert told.exit_code == 0, told.stderr
    written = pd.read_csv(answers)
    names, expected = predict_groups(load_model(out), table[FEATURES].to_numpy(), table.track)
    assert written.track.tolist() == names.tolist()
    assert written.prediction.tolist() == expected.tolist()
    assert written.rows.tolist() == table.groupby("track").size().tolist()
    assert f"{len(names)} objects answered, {np.sum(expected == 'unknown')} (" in told.stdout
    truth = table.groupby("track").kind.first()
    told = json.loads(run("evaluate", out, data, "-t", "kind", "--group", "track", "--json").stdout)
    assert told["objects"] == len(names) and told["unknown_objects"] == 16
    named = np.mean((truth == expected)[truth != "x"])
    assert told["measures"]["accuracy_known"] == pytest.approx(named)
    assert (
        "80 objects, 16 of them unknown"
        in run(*("evaluate", out, data, "-t", "kind", "--group", "track")).stdout
    )


def test_the_monitor_counts_objects(run, fails, trained, table, tmp_path):
    data, answers, state = tmp_path / "t.csv", tmp_path / "a.csv", tmp_path / "m"
    assert run("predict", trained.model, data, "-o", answers).exit_code == 0
    begin = ("monitor", state, "--reference", answers)
    result = run(*begin, "--group", "track", "--test", "scores")
    assert result.exit_code == 0, result.stderr
    rows = pd.read_csv(answers)
    given = {"reference": rows.known_score, "reference_groups": rows.track, "test": "scores"}
    expected = UnknownRateMonitor(**given)
    expected.update(rows.known_score, groups=rows.track)
    told = run(
        *("predict", trained.model, data, "-o", tmp_path / "o.csv"),
        *("--monitor", state, "--group", "track", "--json"),
    )
    assert told.exit_code == 3 * expected.alarm, told.stderr
    evidence = json.loads(told.stdout)["monitor"]
    assert evidence["n_samples"] == expected.n_samples == 80
    assert evidence["log_evidence"] == pytest.approx(expected.log_evidence, abs=1e-3)
    assert "--group is a column of the table --reference" in fails(
        *("monitor", tmp_path / "new", "--rate", 0.1, "--group", "track"), code=2
    )
    assert "no column 'trak'" in fails(
        "monitor", tmp_path / "new", "--reference", answers, "--group", "trak"
    )


def test_troubles_with_objects(fails, trained, table, tmp_path):
    data, out = tmp_path / "t.csv", tmp_path / "o.csv"
    predict = ("predict", trained.model, data, "-o", out)
    assert "no column 'trak'" in fails(*predict, "--group", "trak")
    assert "leave --scheduler out" in fails(
        *predict, "--group", "track", "--scheduler", "tcp://x", code=2
    )
    calibrate = ("calibrate", trained.model, data, "-t", "kind", "-o", out)
    assert "name their column by --group" in fails(*calibrate, "--aggregate", "mean", code=2)
    assert "--aggregate mean belongs to --alpha" in fails(
        *calibrate, "--aggregate", "mean", "--group", "track", "--strangers", 0.1, code=2
    )
    evaluate = ("evaluate", trained.model, data, "-t", "kind")
    assert "are of more than one class" in fails(*evaluate, "--group", "note")
    table.track = table.track.where(table.index != 6)
    table.to_csv(data, index=False)
    for command in (predict, evaluate):
        assert "has no 'track' in data row 7; fill it" in fails(*command, "--group", "track")
