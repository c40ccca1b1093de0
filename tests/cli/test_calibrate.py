"""``openset calibrate``: a model file with an operating point inside, used by ``predict``."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.frozen import FrozenEstimator

from openset.calibration import CalibratedRejector
from openset.persistence import load_model, read_card, save_model
from openset.svm import OpenSetSVC

from .conftest import blobs

FEATURES = ["width", "height", "mass"]


@pytest.fixture
def unseen(tmp_path):
    table = pd.concat([blobs(200, seed=5), blobs(100, seed=6, classes="x")], ignore_index=True)
    table.to_csv(tmp_path / "unseen.csv", index=False)
    return table


def test_a_promise_in_a_file(run, trained, unseen, tmp_path):
    model, data, out = trained.model, tmp_path / "unseen.csv", tmp_path / "calibrated.skops"
    result = run("calibrate", model, data, "-t", "kind", "-o", out, "--alpha", 0.1)
    assert result.exit_code == 0, result.stderr
    assert "at most 10.000% of the known rows are rejected" in result.stdout
    assert "800 known and 100 unknown rows of unseen.csv" in result.stdout
    known = unseen[unseen.kind != "x"]
    expected = CalibratedRejector(FrozenEstimator(load_model(model)), alpha=0.1)
    expected.fit(known[FEATURES].to_numpy(), known.kind)
    fresh = blobs(100, seed=7)
    fresh.to_csv(tmp_path / "fresh.csv", index=False)
    run("predict", out, tmp_path / "fresh.csv", "-o", tmp_path / "answers.csv")
    answers = pd.read_csv(tmp_path / "answers.csv")
    assert answers.prediction.tolist() == expected.predict(fresh[FEATURES].to_numpy()).tolist()
    assert 0.02 < np.mean(answers.prediction == "unknown") < 0.2
    told = run("info", out).stdout
    assert "operating point: at most 10.000%" in told
    assert "before it was calibrated" in told
    assert run("evaluate", out, tmp_path / "fresh.csv", "-t", "kind").exit_code == 0


def test_reasons_of_a_calibrated_model_are_those_of_explain(run, trained, unseen, tmp_path):
    out = tmp_path / "c.skops"
    run("calibrate", trained.model, tmp_path / "unseen.csv", "-t", "kind", "-o", out)
    run("predict", out, tmp_path / "unseen.csv", "-o", tmp_path / "a.csv")
    model = load_model(out)
    why = model[-1].explain(model[:-1].transform(unseen[FEATURES].to_numpy()))
    assert pd.read_csv(tmp_path / "a.csv").reason.tolist() == why.reason.tolist()


def test_precision_and_costs(run, trained, unseen, tmp_path):
    arguments = ("calibrate", trained.model, tmp_path / "unseen.csv", "-t", "kind", "--json")
    card = json.loads(
        run(
            *(*arguments, "-o", tmp_path / "p.skops", "--precision", 0.9, "--unknown-share", 0.05)
        ).stdout
    )
    assert card["operating_point"]["criterion"] == "precision"
    assert card["operating_point"]["promise"]
    assert read_card(tmp_path / "p.skops")["operating_point"] == card["operating_point"]
    costs = "reject=1, wrong=10, accept_unknown=20"
    result = run(
        *("calibrate", trained.model, tmp_path / "unseen.csv", "-t", "kind"),
        *("-o", tmp_path / "c.skops", "--costs", costs, "--unknown-share", 0.2),
    )
    assert "least expected cost (reject=1, wrong=10, accept_unknown=20)" in result.stdout
    assert len(load_model(tmp_path / "c.skops")[-1].cost_curve_.cost) > 10


def test_a_model_saved_from_python(run, unseen, tmp_path):
    table = blobs()
    save_model(OpenSetSVC().fit(table[FEATURES], table.kind), tmp_path / "m.skops")
    arguments = ("calibrate", tmp_path / "m.skops", tmp_path / "unseen.csv", "-t", "kind")
    result = run(*arguments, "-o", tmp_path / "c.skops", "--per-class")
    assert result.exit_code == 0, result.stderr
    assert "of each class are rejected" in result.stdout
    assert isinstance(load_model(tmp_path / "c.skops"), CalibratedRejector)


def test_the_training_table_is_no_calibration_table(run, trained, unseen, tmp_path):
    """By mistake; a promise is made all the same, because a name proves nothing."""
    for command in (("calibrate", "-o", tmp_path / "c.skops"), ("evaluate",)):
        for data, warns in ((trained.train, True), (tmp_path / "unseen.csv", False)):
            result = run(command[0], trained.model, data, "-t", "kind", *command[1:])
            assert result.exit_code == 0, result.stderr
            assert ("the table that the model was fitted on" in result.stderr) == warns


def test_a_promise_tells_its_price(run, trained, unseen, tmp_path):
    data, out = tmp_path / "unseen.csv", tmp_path / "c.skops"
    arguments = ("calibrate", trained.model, data, "-t", "kind", "-o", out, "--alpha", 0.1)
    told = run(*arguments).stdout
    price = read_card(out)["operating_point"]["price"]
    assert price["unknown"]["source"] == "100 unknown samples that were passed"
    assert load_model(out)[-1].price_ == price
    line = "unknown rows rejected: {before:.1%} before, {after:.1%} now (100 unknown"
    assert line.format(**price["unknown"]) in told
    assert line.format(**price["unknown"]) in run("info", out).stdout
    highest = load_model(out)[-1].thresholds_[0]
    run(*arguments, "--by", "own")
    assert load_model(out)[-1].thresholds_[0] <= highest
    assert "by their own class" in run("info", out).stdout
    # Without unknown rows the classes that `openset fit` withheld tell the price.
    unseen[unseen.kind != "x"].to_csv(data, index=False)
    assert "now (classes withheld in the search)" in run(*arguments).stdout
    # Without a search nothing does.
    table = blobs()
    save_model(OpenSetSVC().fit(table[FEATURES], table.kind), tmp_path / "m.skops")
    told = run("calibrate", tmp_path / "m.skops", data, "-t", "kind", "-o", out).stdout
    assert "unknown rows rejected: not known" in told


def test_rejection_that_is_lost_is_warned_of(run, trained, unseen, tmp_path):
    # A tenth of the known rows lie among the unknown ones: 1 % can only be promised below those.
    known = unseen.kind != "x"
    unseen.loc[~known, FEATURES] += 30.0
    strange = unseen[~known].sample(80, random_state=0).assign(kind=unseen.kind[known].iloc[0])
    pd.concat([unseen, strange]).to_csv(tmp_path / "mixed.csv", index=False)
    arguments = ("calibrate", trained.model, tmp_path / "mixed.csv", "-t", "kind")
    result = run(*arguments, "-o", tmp_path / "c.skops", "--alpha", 0.01)
    assert result.exit_code == 0, result.stderr
    assert "share of unknown samples that are rejected falls from" in result.stderr


def test_troubles(fails, trained, unseen, tmp_path):
    def told(*more, output="c.skops", target="kind", code=1):
        data = tmp_path / "unseen.csv"
        arguments = ("calibrate", trained.model, data, "-t", target, "-o", tmp_path / output)
        return fails(*arguments, *more, code=code)

    assert "exclude each other" in told("--alpha", 0.1, "--precision", 0.9, code=2)
    assert "--by own belongs to --alpha" in told("--precision", 0.9, "--by", "own", code=2)
    assert "must be NAME=NUMBER" in told("--costs", "reject:1", code=2)
    assert "--costs 'reject=1' must be NAME=NUMBER" in told("--costs", "reject=1", code=2)
    assert "needs at least 9999 calibration samples" in told("--alpha", 0.0001)
    assert "highest target that they can promise is" in told("--precision", 0.9999)
    assert "no column 'kinds'" in told(target="kinds")
    assert "cannot be created" in told(output="unseen.csv/c.skops")
    unseen[unseen.kind != "x"].to_csv(tmp_path / "unseen.csv", index=False)
    assert "all labels in y are known" in told("--precision", 0.9, "--unknown-share", 0.1)


def test_strangers_with_identities(run, fails, trained, unseen, tmp_path):
    # The strangers score low; each identity has two rows.
    out, data = tmp_path / "c.skops", tmp_path / "unseen.csv"
    unseen["who"] = [f"p{k // 2}" for k in range(len(unseen))]
    unseen.to_csv(data, index=False)
    arguments = ("calibrate", trained.model, data, "-t", "kind", "-o", out)
    result = run(*arguments, "--strangers", 0.05, "--group", "who")
    assert result.exit_code == 0, result.stderr
    assert "at most 5.000% of the rows of a new identity are accepted" in result.stdout
    assert "50 identities of strangers" in run("info", out).stdout
    card = read_card(out)["operating_point"]
    assert card["promise"] and card["strangers"]["identities"] == 50
    assert load_model(out)[-1].strangers_ == card["strangers"]
    assert "needs at least 99 identities" in fails(
        *arguments, "--strangers", 0.01, "--group", "who"
    )
    assert "needs at least 19 identities" in fails(*arguments, "--strangers", 0.05)  # one class
    told = fails(*arguments, "--strangers", 0.1, "--per-class", code=2)
    assert "--per-class belongs to --alpha" in told
    assert "no column 'whom'" in fails(*arguments, "--group", "whom")


def test_objects_and_a_confidence(run, fails, trained, unseen, tmp_path):
    out, data = tmp_path / "c.skops", tmp_path / "unseen.csv"
    unseen["track"] = np.arange(len(unseen)) // 5
    unseen.to_csv(data, index=False)
    arguments = ("calibrate", trained.model, data, "-t", "kind", "-o", out)
    result = run(*arguments, "--alpha", 0.1, "--group", "track")
    assert result.exit_code == 0, result.stderr
    assert "rows of one 'track' are counted as one object" in result.stdout
    known = unseen[unseen.kind != "x"]
    expected = CalibratedRejector(FrozenEstimator(load_model(trained.model)), alpha=0.1)
    expected.fit(known[FEATURES].to_numpy(), known.kind, groups=known.track)
    assert_allclose(load_model(out)[-1].thresholds_, expected.thresholds_)
    told = run(*arguments, "--confidence", 0.95).stdout
    assert "5.000% of the known rows are rejected, with confidence 0.95" in told
    assert "a confidence is for independent" in fails(
        *arguments, "--confidence", 0.95, "--group", "track"
    )


def test_categories_from_calibrate_to_predict(run, fails, trained, unseen, tmp_path):
    out, data, answers = tmp_path / "c.skops", tmp_path / "unseen.csv", tmp_path / "a.csv"
    unseen["camera"] = np.where(np.arange(len(unseen)) % 3, "left", "right")
    unseen.to_csv(data, index=False)
    arguments = ("calibrate", trained.model, data, "-t", "kind", "-o", out)
    result = run(*arguments, "--alpha", 0.1, "--within", "camera")
    assert result.exit_code == 0, result.stderr
    assert "of the known rows of each 'camera' are rejected" in result.stdout
    assert run("predict", out, data, "-o", answers).exit_code == 0
    model = load_model(out)
    Z = model[:-1].transform(unseen[FEATURES].to_numpy())
    expected = model[-1].predict(Z, categories=unseen.camera)
    assert pd.read_csv(answers).prediction.tolist() == expected.tolist()
    assert run("evaluate", out, data, "-t", "kind").exit_code == 0
    unseen.drop(columns="camera").to_csv(data, index=False)
    assert "no column 'camera'" in fails("predict", out, data, "-o", answers)
    assert "excludes" in fails(*arguments, "--within", "camera", "--per-class", code=2)
