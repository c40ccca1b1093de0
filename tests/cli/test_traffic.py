"""``openset traffic``, and ``openset fit --calibration``, on which its promise rests."""

import json

import numpy as np
import pandas as pd
import pytest

from openset import OpenSetSVC
from openset.calibration import Cost, calibrate
from openset.persistence import load_model, read_card, save_model

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


def test_monitor_and_review_tell_the_share(run, fails, trained, table, tmp_path):
    blobs(150, seed=9).to_csv(tmp_path / "more.csv", index=False)
    model, state = tmp_path / "c.skops", tmp_path / "state"
    run("calibrate", trained.model, tmp_path / "more.csv", "-t", "kind", "-o", model)
    expected = json.loads(run("traffic", model, table, "--json").stdout)
    more = ("--model", model, "--data", table)
    told = run("monitor", state, "--rate", 0.3, *more)
    assert told.exit_code == 0, told.stderr
    line = f"about {expected['unknown_share']:.1%} unknown"
    assert f"600 rows: {line}" in told.stdout and "at least" in told.stdout
    share = json.loads(run("monitor", state, *more, "--json").stdout)["traffic"]
    assert share == {name: expected[name] for name in share}
    assert "traffic" not in json.loads(run("monitor", state, "--json").stdout)
    run("predict", model, table, "-o", tmp_path / "a.csv")
    review = ("review", tmp_path / "a.csv", *more, "-o", tmp_path / "r.html")
    assert f"estimate from all scores: {line}" in run(*review).stdout
    assert json.loads(run(*review, "--json").stdout)["traffic"] == share
    assert "give both" in fails("monitor", state, "--model", model, code=2)
    comma = tmp_path / "comma.csv"
    pd.read_csv(table).to_csv(comma, index=False, sep=";", decimal=",")
    told = run("monitor", state, "--model", model, "--data", comma, "--decimal", ",", "--json")
    assert json.loads(told.stdout)["traffic"] == share


def test_no_share_without_held_out_scores(run, fails, table, tmp_path):
    train, model = blobs(), tmp_path / "m.skops"
    save_model(OpenSetSVC().fit(train[["width", "height", "mass"]], train.kind), model)
    more = ("--model", model, "--data", table)
    run("predict", model, table, "-o", tmp_path / "a.csv")
    told = run("review", tmp_path / "a.csv", *more, "-o", tmp_path / "r.html")
    assert told.exit_code == 0, told.stderr
    assert "estimate" not in told.stdout
    told = fails("traffic", model, table)
    assert "use `openset calibrate` on other rows of known classes first" in told
    told = fails("monitor", tmp_path / "state", "--rate", 0.3, *more)
    assert "holds no scores of rows that it was not fitted to" in told


def test_calibrate_on_unlabelled_rows(run, fails, trained, table, tmp_path):
    """The file holds the model that `calibrate` in Python gives; the price is told for it."""
    blobs(150, seed=9).to_csv(tmp_path / "more.csv", index=False)
    out, rows = tmp_path / "c.skops", pd.read_csv(tmp_path / "more.csv")
    arguments = ("calibrate", trained.model, tmp_path / "more.csv", "-t", "kind", "-o", out)
    costs = ("--costs", "reject=1,wrong=1,accept_unknown=1")
    told = run(*arguments, *costs, "--traffic", table)
    assert told.exit_code == 0, told.stderr
    features = ["width", "height", "mass"]
    expected = calibrate(
        *(load_model(trained.model), rows[features].to_numpy(), rows.kind),
        X_traffic=pd.read_csv(table)[features].to_numpy(),
        criterion=Cost(1, 1, 1),
    )[-1]
    np.testing.assert_array_equal(load_model(out)[-1].thresholds_, expected.thresholds_)
    point = read_card(out)["operating_point"]
    assert point["traffic"] == {"source": "traffic.csv"} | expected.traffic_
    assert point["unknown_share"] == expected.criterion_.unknown_share
    for text in (told.stdout, run("info", out).stdout):
        assert "traffic.csv: 600 rows, about" in text
        for kind, price in expected.price_.items():
            line = f"{kind} rows rejected: {price['before']:.1%} before, {price['after']:.1%} now"
            assert line in text
    assert (
        "operating point, an estimate: at least 80"
        in run(*(*arguments, "--precision", 0.8, "--traffic", table)).stdout
    )
    promise = run(*arguments, "--traffic", table).stdout
    assert "operating point: at most 5.000% of the known rows are rejected" in promise
    for other in (("--unknown-share", 0.1, *costs), ("--strangers", 0.1), ("--within", "note")):
        told = fails(*arguments, *other, "--traffic", table, code=2)
        assert f"--traffic and {other[0]} exclude each other" in told
