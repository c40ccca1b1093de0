"""adapt: unlabelled rows teach a model, or it stays as it is."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset import OpenSetSearchCV, OpenSetSVC
from openset.persistence import load_model, read_card, save_model
from openset.tables import TableModel, open_table
from openset.traffic import TrafficClassifier

from .conftest import blobs

FEATURES = ["width", "height", "mass"]


def between(n, seed):
    """Rows halfway between two classes, which belong to neither."""
    table = blobs(n, seed=seed, classes="ab")
    means = table.groupby("kind")[FEATURES].mean()
    table[FEATURES] += (means.mean() - means).loc[table.kind].to_numpy()
    table["kind"] = "z"
    return table


@pytest.fixture(scope="module")
def traffic(tmp_path_factory):
    path = tmp_path_factory.mktemp("traffic") / "traffic.csv"
    pd.concat([blobs(seed=5), between(80, 6)]).drop(columns="kind").to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def adapted(run, trained, traffic, tmp_path_factory):
    output = tmp_path_factory.mktemp("adapted") / "adapted.skops"
    arguments = (trained.model, traffic, "--data", trained.train, "-o", output, "--jobs", 1)
    result = run("adapt", *arguments, "--new-kinds", 0)
    assert result.exit_code == 0, result.stderr
    return output, result.stdout


def rejected(path, table):
    """Share of the rows of a table that a model answers as unknown."""
    return np.mean(load_model(path).predict(table[FEATURES].to_numpy()) == "unknown")


def test_unknown_rows_are_learned(adapted, trained):
    output, text = adapted
    assert "learned from the 320 rows of traffic.csv: with confidence 0.95, at least" in text
    assert "  known rows rejected: " in text and "  unknown rows rejected: " in text
    new = between(100, 7)
    assert rejected(output, new) > rejected(trained.model, new)
    assert rejected(output, blobs(seed=8)) < 0.25


def test_the_card_says_what_was_learned(adapted, trained, run):
    output, _ = adapted
    card = read_card(output)
    (entry,) = card["descent"]
    told = entry["changes"]["adapted"]
    assert told["learned"] and told["rows"] == 320 and told["source"] == "traffic.csv"
    assert 0.05 < told["unknown_at_least"] <= 0.5
    assert card["data"] == read_card(trained.model)["data"]
    shown = run("info", output)
    assert shown.exit_code == 0 and "learned from the 320 rows of traffic.csv" in shown.stdout


def test_it_is_the_classifier(adapted, trained, traffic):
    output, _ = adapted
    scorer = TableModel(load_model(output), read_card(output))
    X, _ = scorer.read(open_table(traffic))
    assert isinstance(scorer.final, TrafficClassifier)
    old = TableModel(load_model(trained.model), read_card(trained.model))
    first = scorer.final.estimator_.decision_function(scorer.transform(X))
    np.testing.assert_array_equal(first, old.final.decision_function(old.transform(X)))


def test_an_adapted_model_learns_again_from_what_it_was(adapted, trained, traffic, run, tmp_path):
    again = tmp_path / "again.skops"
    arguments = ("--data", trained.train, "-o", again, "--jobs", 1, "--new-kinds", 0)
    assert run("adapt", adapted[0], traffic, *arguments).exit_code == 0
    rows = blobs(seed=9)[FEATURES].to_numpy()
    for name in ("decision_function", "predict"):
        one, two = (getattr(load_model(path), name)(rows) for path in (adapted[0], again))
        np.testing.assert_array_equal(one, two)
    assert len(read_card(again)["descent"]) == 2


def test_known_rows_alone_leave_the_model_as_it_is(run, trained, tmp_path):
    blobs(seed=5).to_csv(tmp_path / "known.csv", index=False)
    output = tmp_path / "same.skops"
    arguments = ("adapt", trained.model, tmp_path / "known.csv", "--data", trained.train)
    result = run(*arguments, "-o", output, "--json", "--jobs", 1)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)["descent"][0]["changes"]["adapted"]
    assert not told["learned"] and "it learns from 5%" in told["reason"]
    rows = blobs(seed=9)[FEATURES].to_numpy()
    one, two = (load_model(path).decision_function(rows) for path in (trained.model, output))
    np.testing.assert_array_equal(one, two)


def test_a_calibrated_model_is_adapted_before(run, fails, trained, traffic, tmp_path):
    blobs(seed=4).to_csv(tmp_path / "unseen.csv", index=False)
    calibrated = tmp_path / "calibrated.skops"
    arguments = ("calibrate", trained.model, tmp_path / "unseen.csv", "-t", "kind")
    assert run(*arguments, "-o", calibrated, "--jobs", 1).exit_code == 0
    output = ("-o", tmp_path / "x.skops")
    line = fails("adapt", calibrated, traffic, "--data", trained.train, *output)
    assert "is calibrated" in line and "adapt the model from before `openset calibrate`" in line


def test_few_rows(fails, trained, tmp_path):
    blobs(1).to_csv(tmp_path / "few.csv", index=False)
    arguments = ("adapt", trained.model, tmp_path / "few.csv", "--data", trained.train)
    line = fails(*arguments, "-o", tmp_path / "x.skops")
    assert "X_traffic has 4 rows; at least 10 are needed" in line


def test_transformers_inside_a_search_stay(trained, traffic, run, tmp_path):
    table, model = pd.read_csv(trained.train), tmp_path / "search.skops"
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC(n_jobs=1))
    search = OpenSetSearchCV(pipeline, {"opensetsvc__lam": [0.1, 0.3]}, n_repeats=1, random_state=0)
    save_model(search.fit(table[FEATURES], table.kind), model)
    arguments = (model, traffic, "--data", trained.train, "-t", "kind", "-o", tmp_path / "a.skops")
    result = run("adapt", *arguments, "--new-kinds", 0, "--jobs", 1)
    assert result.exit_code == 0 and "learned from" in result.stdout, result.stderr
    assert rejected(tmp_path / "a.skops", blobs(seed=8)) < 0.25
    assert rejected(tmp_path / "a.skops", between(100, 7)) > 0.5
