"""``openset compare``: the trials by themselves, then the command."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from typer.testing import CliRunner

from openset import OSNN, ExtremeValueMachine, OpenSetSVC
from openset.cli import _trials as trials
from openset.cli._app import app
from openset.metrics import normalized_accuracy
from openset.model_selection import OpenSetSearchCV, OpenSetSplit

runner = CliRunner()
QUICK = ["--methods", "osnn,evm", "--repeats", "2", "--target", "kind"]


def _blobs(n_features=3, n_samples=120, centers=6):
    X, y = make_blobs(
        n_samples, n_features=n_features, centers=centers, cluster_std=2.0, random_state=0
    )
    return X, np.array(list("UVWXYZ"))[y]


@pytest.fixture(scope="module")
def table():
    X, y = _blobs()
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=y)


@pytest.fixture
def csv(tmp_path, table):
    table.to_csv(tmp_path / "my data.csv", index=False)
    return tmp_path / "my data.csv"


@pytest.fixture(scope="module")
def outcomes():
    X, y = _blobs()
    methods = {
        "OSNN": make_pipeline(MinMaxScaler(), OSNN()),
        "twin": make_pipeline(MinMaxScaler(), OSNN()),
        "EVM": make_pipeline(MinMaxScaler(), ExtremeValueMachine()),
        "broken": make_pipeline(MinMaxScaler(), OpenSetSVC(kernel="nonsense")),
    }
    return trials.compare(X, y, methods, n_repeats=3, seed=5)


def test_the_seed_decides():
    X, y = _blobs()
    methods = {"OSNN": make_pipeline(MinMaxScaler(), OSNN())}
    one, two, other = (
        trials.compare(X, y, methods, n_repeats=2, seed=seed)[0].values("oscr_area")
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, two)
    assert np.all(one != other)


def _named(outcomes, name):
    return next(outcome for outcome in outcomes if outcome.method == name)


def test_trials_are_what_the_parts_give(outcomes):
    # The protocol once more, by hand.
    X, y = _blobs()
    splits = OpenSetSplit(3, n_known=3, random_state=5).simulate(y)
    expected = []
    for repeat, split in enumerate(splits):
        search = OpenSetSearchCV(
            make_pipeline(MinMaxScaler(), OSNN()),
            n_repeats=trials.N_TUNING,
            random_state=5 + repeat,
        ).fit(X[split.fit], y[split.fit])
        labels = {"known": search.classes_, "unknown_label": search.unknown_label_}
        answers = search.predict(X[split.validation])
        expected.append(normalized_accuracy(y[split.validation], answers, **labels))
    osnn = _named(outcomes, "OSNN")
    np.testing.assert_allclose(osnn.values("normalized_accuracy"), expected)
    assert set(osnn.model.classes_) == set(splits[0].known)  # the model of the first repeat


def test_methods_get_the_same_splits(outcomes):
    for measure in ("normalized_accuracy", "oscr_area", "auroc_known"):
        np.testing.assert_array_equal(
            _named(outcomes, "OSNN").values(measure), _named(outcomes, "twin").values(measure)
        )


def test_order_and_failures(outcomes):
    *ranked, last = outcomes
    assert last.method == "broken" and "nonsense" in last.error and not last.trials
    means = [outcome.values("normalized_accuracy").mean() for outcome in ranked]
    assert means == sorted(means, reverse=True)


def test_curves_have_the_area_of_the_measure(outcomes):
    for outcome in outcomes[:3]:
        for trial in outcome.trials:
            for curve, area in ((trial.oscr, "oscr_area"), (trial.roc, "auroc_known")):
                assert np.all(np.diff(curve) >= 0)
                np.testing.assert_allclose(
                    np.trapezoid(curve, trials.GRID), trial.measures[area], atol=0.01
                )


def _outcome(method, *accuracies):
    measures = [{"normalized_accuracy": value} for value in accuracies]
    nothing = np.zeros(1)
    made = [trials.Trial(m, nothing, nothing, 1.0, 0.0, 0.0) for m in measures]
    return trials.Outcome(method, made)


def test_intervals():
    # Three values, t = 4.3027 for two degrees of freedom (a printed table).
    mean, half = trials.interval(np.array([1.0, 2.0, 3.0]))
    assert mean == 2.0
    np.testing.assert_allclose(half, 4.3027 / np.sqrt(3), rtol=1e-4)


def test_differences_are_paired_and_the_verdict_follows():
    # B is behind by 0.1 in every repeat, however much the repeats differ among themselves.
    a = _outcome("A", 0.9, 0.5, 0.7)
    b = _outcome("B", 0.8, 0.4, 0.6)
    c = _outcome("C", 0.5, 0.9, 0.6)
    gap, half = trials.differences([a, b])["B"]
    np.testing.assert_allclose([gap, half], [0.1, 0.0], atol=1e-12)
    assert trials.verdict([a, b]).endswith("by more than chance explains.")
    assert trials.verdict([a, b, c]).endswith("cannot tell it from C.")
    assert trials.verdict([a]).startswith("A leads, with a normalized accuracy of 0.700 ±")


def test_subsample():
    y = np.repeat(["big", "middle", "small", "tiny"], [1000, 300, 6, 3])
    rows, left_out = trials.subsample(y, 200, seed=0)
    assert left_out == ["tiny"]
    assert np.all(np.diff(rows) > 0)
    classes, counts = np.unique(y[rows], return_counts=True)
    assert dict(zip(classes.tolist(), counts.tolist(), strict=True)) == {
        "big": 153,  # 1000 x 200 / 1306
        "middle": 46,
        "small": 4,
    }
    everything, _ = trials.subsample(y, 10_000, seed=0)
    assert len(everything) == 1306


@pytest.mark.parametrize("n_classes, n_known", [(3, 2), (4, 3), (5, 3), (6, 3), (7, 4), (26, 13)])
def test_number_of_known_classes(n_classes, n_known):
    assert trials.n_known_of(n_classes) == n_known


def test_command(csv, tmp_path):
    page = tmp_path / "page.html"
    result = runner.invoke(app, ["compare", str(csv), *QUICK, "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "on 120 of 120 rows" in result.stderr
    assert "OSNN" in result.stdout and "EVM" in result.stdout
    html = page.read_text()
    # Nothing to fetch: no address but those of the namespaces inside the figures' own files.
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?\s*(https?:)?//", html)
    assert "<script" not in html
    for part in ("Ranking", "Curves", "Decision regions", "Times", "How it was done"):
        assert f">{part}</h2>" in html
    assert html.count("<img ") == 4


def test_json_agrees_with_the_page_and_its_command_works(csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = json.loads(runner.invoke(app, ["compare", csv.name, *QUICK, "--json"]).stdout)
    assert report["n_rows"] == report["n_compared"] == 120
    assert {row["method"] for row in report["ranking"]} == {"osnn", "evm"}
    assert report["ranking"][0]["behind"] == 0 < report["ranking"][1]["behind"]
    assert report["failed"] == {}
    page = (tmp_path / report["page"]).read_text()
    for row in report["ranking"]:
        assert f"{row['measures']['normalized_accuracy']:.3f}" in page

    program, *command = shlex.split(report["fit_command"])
    assert program == "openset" and command[:2] == ["fit", "my data.csv"]
    result = runner.invoke(app, [*command, "--turns", "0"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "my data.model").is_file()


def test_what_is_left_out_is_said(tmp_path, table):
    rare = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "c": [1.0, 1.0], "kind": ["Q", "Q"]})
    table = pd.concat([table, rare], ignore_index=True)
    table["note"] = "some text"
    table.loc[0, "a"] = np.nan
    path, page = tmp_path / "t.csv", tmp_path / "p.html"
    table.to_csv(path, index=False)
    arguments = ["--missing", "drop", "--max-rows", "60", "-o", str(page)]
    result = runner.invoke(app, ["compare", str(path), *QUICK, *arguments])
    assert result.exit_code == 0, result.output
    html = page.read_text()
    for told in ("note", "left out: a value is missing", "too few rows are left out: Q"):
        assert told in result.stderr
        assert told in html
    assert "60 of the rows were used" in html
    assert "--missing drop" in html  # the winner is fitted in the same way


@pytest.mark.parametrize("n_features", [1, 2])
def test_few_features_and_filled_gaps(tmp_path, n_features):
    X, y = _blobs(n_features)
    X[3, 0] = np.nan
    pd.DataFrame(X).add_prefix("f").assign(kind=y).to_csv(tmp_path / "t.csv", index=False)
    page = tmp_path / "p.html"
    arguments = [*QUICK, "--missing", "median", "-o", str(page)]
    result = runner.invoke(app, ["compare", str(tmp_path / "t.csv"), *arguments])
    assert result.exit_code == 0, result.output
    assert (">Decision regions</h2>" in page.read_text()) == (n_features > 1)


def test_three_classes_are_tuned_closed_and_the_page_says_so(tmp_path, table):
    table[table["kind"] <= "W"].to_csv(tmp_path / "t.csv", index=False)
    page = tmp_path / "p.html"
    result = runner.invoke(app, ["compare", str(tmp_path / "t.csv"), *QUICK, "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "warning" not in result.stderr
    assert "two known classes are too few to withhold one" in page.read_text()
    assert "on the plane of the first two principal directions" in page.read_text()


@pytest.mark.slow
def test_every_method_can_be_compared(tmp_path, table):
    table.iloc[:60].to_csv(tmp_path / "t.csv", index=False)
    arguments = ["--target", "kind", "--methods", "all", "--repeats", "2", "--json"]
    result = runner.invoke(
        app, ["compare", str(tmp_path / "t.csv"), *arguments, "-o", str(tmp_path / "p.html")]
    )
    report = json.loads(result.stdout)
    assert len(report["ranking"]) == 11
    assert report["failed"] == {}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--target", "knid"], "kind"),
        (["--methods", "osvm"], "did you mean ossvm?"),
        (["--methods", ","], "no method"),
        (["--repeats", "1"], "repeats"),
        (["--max-rows", "5"], "max-rows"),
        (["-o", "nowhere/page.html"], "there is no folder nowhere"),
        (["--drop", "a,b,c"], "no numeric column"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else "",
)
def test_bad_arguments(arguments, message, csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["compare", str(csv), *QUICK, *arguments])
    assert result.exit_code in (1, 2)
    assert message in re.sub(r"[\s│]+", " ", result.stderr)
    assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == [csv.name]


def test_wrong_usage_has_an_exit_code_of_its_own(csv):
    assert runner.invoke(app, ["compare", str(csv), *QUICK, "--methods", ","]).exit_code == 2


def test_two_classes_are_too_few(tmp_path, table):
    table[table["kind"] <= "V"].to_csv(tmp_path / "t.csv", index=False)
    result = runner.invoke(app, ["compare", str(tmp_path / "t.csv"), *QUICK])
    assert result.exit_code == 1
    assert result.stderr.startswith("openset: a comparison withholds classes and needs at least 3")
    assert result.stderr.count("\n") == 1


def test_no_method_works(csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def broken(self, X, y):
        raise ValueError("no luck")

    monkeypatch.setattr(OSNN, "fit", broken)
    result = runner.invoke(app, ["compare", str(csv), *QUICK, "--methods", "osnn"])
    assert result.exit_code == 1
    assert "no method could be fitted" in result.stderr and "no luck" in result.stderr
    assert not (tmp_path / "compare.html").exists()


def test_interrupted(csv, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    page.write_text("the old page")

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "_try", interrupt)
    result = runner.invoke(app, ["compare", str(csv), *QUICK, "-o", str(page)])
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert page.read_text() == "the old page"
    assert {path.name for path in tmp_path.iterdir()} == {page.name, csv.name}
