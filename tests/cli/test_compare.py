"""``openset compare``: the command, its page and its JSON."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

from openset import OSNN
from openset.cli import app
from openset.persistence import load_model

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
    assert (tmp_path / "my data.skops").is_file()


def test_what_is_left_out_is_said(tmp_path, table):
    rare = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0], "c": [1.0, 1.0], "kind": ["Q", "Q"]})
    table = pd.concat([table, rare], ignore_index=True).replace({"kind": {"V": 'V, "v"'}})
    table["note"] = table["remark"] = "some text"
    table.loc[0, "a"] = np.nan
    path, page = tmp_path / "t.csv", tmp_path / "p.html"
    table.to_csv(path, index=False)
    arguments = ["--missing", "drop", "--max-rows", "60", "-o", str(page)]
    result = runner.invoke(app, ["compare", str(path), *QUICK, *arguments])
    assert result.exit_code == 0, result.output
    html = page.read_text()
    for told in (
        "ropped: note, remark (not numeric",
        "left out: a value is missing",
        "with too few rows are left out: Q",
    ):
        assert told in result.stderr
        assert told in html
    assert "60 of the rows were used" in html
    (command,) = re.findall(r"openset (fit .*)", result.stdout)
    assert "--missing drop" in command  # the winner is fitted in the same way
    fitted = [*shlex.split(command)[:-1], str(tmp_path / "m.skops"), "--turns", "0"]
    result = runner.invoke(app, fitted)
    assert result.exit_code == 0, result.output
    assert load_model(tmp_path / "m.skops").classes_.tolist() == ["U", 'V, "v"', *"WXYZ"]


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
    assert len(report["ranking"]) == 14
    assert report["failed"] == {}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--target", "knid"], "kind"),
        (["--methods", "osvm"], "did you mean ossvm?"),
        (["--methods", ","], "names nothing"),
        (["--repeats", "1"], "repeats"),
        (["--max-rows", "5"], "max-rows"),
        (["-o", "/dev/null/page.html"], "cannot be created"),
        (["--minutes", "0"], "minutes"),
        (["--drop", "a,b,c"], "no numeric or categorical column"),
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

    monkeypatch.setattr("openset.study.comparison.compare_methods", interrupt)
    result = runner.invoke(app, ["compare", str(csv), *QUICK, "-o", str(page)])
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert page.read_text() == "the old page"
    assert {path.name for path in tmp_path.iterdir()} == {page.name, csv.name}
