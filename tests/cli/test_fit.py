"""openset fit and info: what is learned, told and kept."""

import json
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import Pipeline
from typer.testing import CliRunner

from openset.cli import app
from openset.cli._text import describe_result
from openset.persistence import load_model, read_card
from openset.utils import method_names, unwrap

from .conftest import blobs

FEATURES = ["width", "height", "mass"]


def test_the_model_answers_its_training_rows(trained):
    table = blobs()
    model = load_model(trained.model)
    assert isinstance(model, Pipeline)
    answers = model.predict(table[FEATURES].to_numpy())
    assert np.mean(answers == table.kind) > 0.9
    assert model.predict(np.full((1, 3), 1e6)).tolist() == ["unknown"]
    assert unwrap(model).bounded_.all()


def test_what_is_told(trained):
    settings = read_card(trained.model)["search"]["settings"]
    assert settings > 7 * 2 * 9  # the grid, and what is tried next to its best
    for words in (
        "train.csv: 160 rows, 160 to learn from",
        "target 'kind': 4 classes of 40 to 40 rows: a, b, c, d",
        "features: 3 numeric columns: width, height, mass",
        "dropped: id (counts the rows)",
        "dropped: note (not numeric, for example 'as it came')",
        f"OpenSetSVC tuned on 160 rows, {settings} settings with classes withheld",
        "held-out report of this setting: 2 turns, each with another fifth of the rows held out "
        "and 1 class withheld",
        "known rows named correctly (AKS)",
        "certificate: 4 of 4 classes accept only a bounded region",
        "saved ",
    ):
        assert words in trained.output


def test_card(trained):
    card = read_card(trained.model)
    assert card["data"]["features"] == FEATURES
    assert card["data"]["rows_by_class"] == dict.fromkeys("abcd", 40)
    assert card["search"]["chosen"].keys() == {"gamma", "C", "lam"}
    assert card["certificate"]["bounded"] == [True] * 4
    assert len(card["held_out"]["turns"]) == 2
    measures = card["held_out"]["measures"]
    assert measures["normalized_accuracy"] == pytest.approx(
        (measures["accuracy_known"] + measures["accuracy_unknown"]) / 2
    )
    ranges = np.array(card["data"]["ranges"])
    np.testing.assert_allclose(ranges[:, 0], blobs()[FEATURES].min())


def test_info(run, trained):
    told = run("info", trained.model)
    assert told.exit_code == 0
    for words in ("OpenSetSVC, written by openset", "classes: a, b, c, d", "versions: python"):
        assert words in told.stdout
    assert json.loads(run("info", trained.model, "--json").stdout) == read_card(trained.model)


def test_info_without_a_model(run):
    told = run("info")
    assert told.exit_code == 0
    for words in ("openset 0.", "numpy 2.", "compiled code: loaded"):
        assert words in told.stdout
    assert json.loads(run("info", "--json").stdout)["cores"]["available"] >= 1


def test_known_classes_and_json(run, tmp_path):
    blobs().to_parquet(tmp_path / "t.parquet")
    result = run(
        *("fit", tmp_path / "t.parquet", "-t", "kind", "--known", "a,b, c", "--turns", 1),
        *("-m", "osnn", "-o", tmp_path / "m.skops", "--json", "--jobs", 1),
    )
    assert result.exit_code == 0, result.stderr
    card = json.loads(result.stdout)
    assert card["classes"] == ["a", "b", "c"]
    assert card["method"] == "OSNN"
    # One class withheld of three, in one turn; the rows of d are unknown as well.
    assert [turn["n_unknown"] for turn in card["held_out"]["turns"]] == [48]
    told = run("info", tmp_path / "m.skops").stdout
    assert "of them rows of withheld classes" in told
    assert "of them other unknown rows" in told


def test_gaps_are_filled_when_asked(run, tmp_path):
    table = blobs()
    table.loc[::7, "mass"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops")
    result = run(*arguments, "-m", "osnn", "--turns", 0, "--missing", "median")
    assert result.exit_code == 0, result.stderr
    assert "no held-out report" in result.stdout
    result = run("predict", tmp_path / "m.skops", tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    assert result.exit_code == 0, result.stderr


def test_two_classes_cannot_be_withheld(run, tmp_path):
    blobs(classes="ab").to_csv(tmp_path / "t.csv", index=False)
    result = run(
        *("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops", "--jobs", 1)
    )
    assert result.exit_code == 0, result.stderr
    assert "two classes are too few to withhold any" in result.stdout
    assert set(result.stderr.splitlines()) == {
        "openset: warning: y has 2 classes; at least 3 are required to withhold some. The "
        "search is closed-set: it cannot learn to reject."
    }


def test_the_smallest_classes(run, fails, tmp_path):
    def table(*sizes):
        y = np.repeat(list("abcd")[: len(sizes)], sizes)
        X = np.random.default_rng(0).normal(size=(len(y), 2))
        np.savez(tmp_path / "t.npz", X=X + 5 * (y == "b")[:, None], y=y)
        return ("fit", tmp_path / "t.npz", "-t", "y", "-o", tmp_path / "m.skops", "--jobs", 1)

    told = fails(*table(2, 1, 30))
    assert "too few rows of 'a' (2), 'b' (1); at least 3 of each class are needed" in told
    result = run(*table(3, 3, 3, 3))
    assert result.exit_code == 0, result.stderr
    assert "the search has 3 rows per class to choose parameters with" in result.stderr


def test_troubles(fails, tmp_path):
    blobs().to_csv(tmp_path / "t.csv", index=False)
    data, model = tmp_path / "t.csv", tmp_path / "m.skops"
    assert "did you mean 'kind'" in fails("fit", data, "-t", "knd", "-o", model)
    told = fails("fit", data, "-t", "kind", "-o", model, "-m", "ossvn", code=2)
    assert "no such method: ossvn; did you mean ossvm?" in told
    told = fails("fit", data, "-t", "kind", "-o", model, "--known", "a,q")
    assert "has no class 'q'" in told
    told = fails("fit", data, "-t", "kind", "-o", model, "--known", "a")
    assert "at least two are required" in told
    told = fails("fit", data, "-t", "kind", "-o", data / "m.skops")
    assert "cannot be created" in told
    assert "it is a folder" in fails("fit", data, "-t", "kind", "-o", tmp_path)
    assert "there is no file" in fails("fit", tmp_path / "no.csv", "-t", "kind", "-o", model)


def test_wrong_usage(run, tmp_path):
    assert run("fit", tmp_path / "t.csv").exit_code == 2
    result = run("fit", tmp_path / "t.csv", "-t", "k", "-o", "m", "--missing", "maybe")
    assert result.exit_code == 2
    assert "maybe" in result.stderr


def test_the_help_names_all_methods(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")  # so that no line of the help is wrapped
    text = " ".join(run("fit", "--help").stdout.split())
    assert f"One of {', '.join(sorted(method_names(), key=text.index))}." in text


@pytest.mark.slow
@pytest.mark.parametrize("method", list(method_names()))
def test_every_method_from_table_to_answers(run, tmp_path, method):
    blobs().to_csv(tmp_path / "t.csv", index=False)
    model, data = tmp_path / "m.skops", tmp_path / "t.csv"
    fitted = run("fit", data, "-t", "kind", "-o", model, "-m", method, "--turns", 1, "--jobs", 1)
    assert fitted.exit_code == 0, fitted.stderr
    assert run("predict", model, data, "-o", tmp_path / "o.csv").exit_code == 0
    told = json.loads(run("evaluate", model, data, "-t", "kind", "--json").stdout)
    # The plain SVM never rejects with two known classes, so its search has nothing to go by here.
    assert method == "svm" or told["measures"]["accuracy_known"] > 0.6
    assert run("info", model).exit_code == 0


def _mixed(path):
    """A table with a categorical and a boolean column, which tell the classes apart."""
    table = blobs().drop(columns=["id", "note"])
    table["colour"] = table.kind.map({"a": "red", "b": "green", "c": "blue", "d": "blue"})
    table["heavy"] = (table.mass > 0).map({True: "True", False: "false"})
    table.to_csv(path, index=False)
    return table


def test_categorical_and_boolean_columns(run, fails, tmp_path):
    table = _mixed(tmp_path / "t.csv.gz")
    arguments = ("fit", tmp_path / "t.csv.gz", "-t", "kind", "-m", "osnn", "--turns", 0)
    result = run(*arguments, "-o", tmp_path / "new" / "folder" / "m.skops")
    assert result.exit_code == 0, result.stderr
    assert "categorical, one 0/1 column per value: colour (3 values)" in result.stdout
    model = load_model(tmp_path / "new" / "folder" / "m.skops")
    coded = [f"colour={value}" for value in ("blue", "green", "red")]
    assert read_card(tmp_path / "new" / "folder" / "m.skops")["data"]["features"] == [
        *(*FEATURES, "heavy"),
        *coded,
    ]
    X = np.column_stack(
        [table[FEATURES], table.mass > 0, *(table.colour == c[7:] for c in coded)]
    ).astype(float)
    out = tmp_path / "answers.tsv.gz"
    result = run("predict", tmp_path / "new/folder/m.skops", tmp_path / "t.csv.gz", "-o", out)
    assert result.exit_code == 0, result.stderr
    answers = pd.read_csv(out, sep="\t")
    assert answers["prediction"].tolist() == model.predict(X).tolist()


def test_too_large_a_number_is_reported_by_row_and_column(fails, tmp_path):
    table = blobs()
    table.loc[2, "mass"] = 1e300
    table.to_csv(tmp_path / "t.csv", index=False)
    told = fails("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops")
    assert "column 'mass' is too large (1e+300) in data row 3" in told


def test_boolean_labels_keep_their_names(run, tmp_path):
    table = blobs(classes="abc")
    table["kind"] = table.kind == "a"
    table.to_parquet(tmp_path / "t.parquet")
    arguments = ("-t", "kind", "-m", "osnn", "--turns", 0, "-o", tmp_path / "m.skops")
    assert run("fit", tmp_path / "t.parquet", *arguments).exit_code == 0
    answers = tmp_path / "o.csv"
    run("predict", tmp_path / "m.skops", tmp_path / "t.parquet", "-o", answers)
    assert set(pd.read_csv(answers, dtype=str)["prediction"]) <= {"True", "False", "unknown"}


def test_output_never_replaces_the_input(fails, trained, tmp_path):
    before = trained.train.read_bytes()
    (tmp_path / "link.csv").symlink_to(trained.train)
    other = trained.train.parent / ".." / trained.train.parent.name / trained.train.name
    for output in (trained.train, tmp_path / "link.csv", other):
        told = fails("predict", trained.model, trained.train, "-o", output)
        assert "it is read by this command; choose another name" in told
    told = fails("fit", trained.train, "-t", "kind", "-o", trained.train)
    assert "it is read by this command" in told
    assert trained.train.read_bytes() == before


def test_pipes(trained):
    text = blobs().to_csv(index=False)
    arguments = ["predict", str(trained.model), "-", "-o", "-"]
    result = CliRunner().invoke(app, arguments, input=text)
    assert result.exit_code == 0, result.stderr
    answers = pd.read_csv(StringIO(result.stdout))
    assert len(answers) == 160 and "prediction" in answers
    assert "standard input: 160 rows answered" in result.stderr
    assert CliRunner().invoke(app, arguments, input="").exit_code == 1


@pytest.mark.parametrize(("radius", "said"), [(0.5, False), (9.0, True)])
def test_certificates_wider_than_the_data_say_little(radius, said):
    card = {"data": {"features": FEATURES}, "certificate": {"bounded": [True], "radius": [radius]}}
    (line,) = describe_result(card)
    assert ("larger than any distance within the data (1.73)" in line) == said


@pytest.fixture(scope="module")
def with_unknowns(tmp_path_factory):
    table = blobs(classes="abcde")
    table["kind"] = table.kind.replace({"e": "other"})
    path = tmp_path_factory.mktemp("unknowns") / "table.csv"
    table.to_csv(path, index=False)
    return path


def test_known_unknowns(run, with_unknowns, tmp_path):
    fitted = run(
        *("fit", with_unknowns, "--target", "kind", "-o", tmp_path / "model", "--turns", 1),
        *("--unknown", "other", "--method", "osnn", "--jobs", 1),
    )
    assert fitted.exit_code == 0, fitted.stderr
    model = unwrap(load_model(tmp_path / "model"))
    assert model.classes_.tolist() == list("abcd") and model.unknown_label_ == "other"
    assert model.n_known_unknowns_ == 40
    assert "--unknown" not in fitted.stderr
    told = "4 classes of 40 to 40 rows: a, b, c, d; 40 rows of 'other' are examples of the unknown"
    assert told in fitted.stdout and told in run("info", tmp_path / "model").stdout
    assert "held-out report of this setting: a fifth of the rows held out" in fitted.stdout
    assert set(read_card(tmp_path / "model")["held_out"]["by_class"]) == set("abcd")
    measured = run("evaluate", tmp_path / "model", with_unknowns, "--target", "kind", "--json")
    assert json.loads(measured.stdout)["unknown_rows"] == 40


def test_a_class_that_looks_unknown_is_pointed_out(run, with_unknowns, tmp_path):
    fitted = run(
        *("fit", with_unknowns, "--target", "kind", "-o", tmp_path / "model", "--turns", 0),
        *("--method", "centroids", "--jobs", 1),
    )
    assert fitted.exit_code == 0, fitted.stderr
    assert "use --unknown 'other'" in fitted.stderr
    assert unwrap(load_model(tmp_path / "model")).classes_.tolist() == [*"abcd", "other"]
    words = ("fit", with_unknowns, "-t", "kind", "-o", tmp_path / "few", "--turns", 0)
    fitted = run(*words, "-m", "centroids", "--known", "a,b,c")
    assert fitted.exit_code == 0 and "other" not in fitted.stderr  # it is not learned


def test_a_name_with_a_comma_is_quoted(run, fails, tmp_path):
    table = blobs().replace({"kind": {"a": "a, or b", "b": 'say "b"'}})
    table.to_csv(tmp_path / "t.csv", index=False)
    model, known = tmp_path / "m.skops", ("--turns", 0, "-m", "osnn", "--known")
    words = ("fit", tmp_path / "t.csv", "-t", "kind", "-o", model, *known)
    told = fails(*words, "a, or b,c")
    assert "no class 'a'; write a name with a comma in double quotes: '\"a, or b\"'" in told
    assert run(*words, '"a, or b",c, say "b"').exit_code == 0
    assert load_model(model).classes_.tolist() == ["a, or b", "c", 'say "b"']


def test_an_unknown_label_that_is_not_there(fails, with_unknowns, tmp_path):
    told = fails(
        *("fit", with_unknowns, "--target", "kind", "-o", tmp_path / "m", "--unknown", "othr")
    )
    assert "--unknown" in told and "no class 'othr'; did you mean 'other'" in told


def test_compare_with_known_unknowns(run, with_unknowns, tmp_path):
    compared = run(
        *("compare", with_unknowns, "--target", "kind", "-o", tmp_path / "page.html"),
        *("--unknown", "other", "--methods", "osnn,svdd,lda", "--repeats", 2, "--jobs", 1),
        "--json",
    )
    assert compared.exit_code == 0, compared.stderr
    found = json.loads(compared.stdout)
    assert not found["failed"] and "--unknown other" in found["fit_command"]


def test_landmarks(run, tmp_path):
    blobs().to_csv(tmp_path / "train.csv", index=False)
    arguments = "fit", tmp_path / "train.csv", "-t", "kind", "--turns", "0"
    model = tmp_path / "model.openset"
    assert run(*arguments, "--landmarks", "50", "-o", model).exit_code == 0
    fitted = unwrap(load_model(model))
    assert fitted.landmarks == 50 and len(fitted.support_) <= 50
    assert fitted.bounded_.all()
    told = run(*arguments, "--landmarks", "5000", "-o", tmp_path / "none.openset")
    assert told.exit_code != 0 and "landmarks=5000, but X has only 160" in told.output
    assert not (tmp_path / "none.openset").exists()
    told = run(*arguments, "--landmarks", "5", "-m", "evm", "-o", tmp_path / "none.openset")
    assert told.exit_code != 0 and "choose one of" in told.output


def test_objects_are_kept_together(run, fails, tmp_path):
    # Rows of an object are copies: a search that splits it would take the narrowest kernel.
    table = blobs(n=12)
    objects = table.loc[table.index.repeat(4)].assign(track=lambda t: "t" + t["id"])
    data, model = tmp_path / "t.csv", tmp_path / "m.skops"
    objects.drop(columns=["id", "note"]).to_csv(data, index=False)
    arguments = ("fit", data, "-t", "kind", "-o", model, "-m", "osnn", "--turns", 2)
    result = run(*arguments, "--group", "track")
    assert result.exit_code == 0, result.stderr
    assert "rows of one 'track' are one object: 48 objects" in result.stdout
    assert "dropped: track (by --group)" in run("info", model).stdout
    card = read_card(model)
    assert card["data"]["features"] == FEATURES
    together = run(*arguments, "--drop", "track")
    assert together.exit_code == 0
    scores = card["search"]["score"], read_card(model)["search"]["score"]
    assert scores[0] < scores[1]
    assert "no column 'trak'" in fails(*arguments, "--group", "trak")
    assert "the group 'track' cannot also be a feature" in fails(
        *arguments, "--group", "track", "--features", "width,track"
    )
    objects.track = objects.track.where(objects.track != "t003")
    objects.to_csv(data, index=False)
    row = int(np.argmax(objects.track.isna())) + 1
    assert f"has no 'track' in data row {row}" in fails(*arguments, "--group", "track")
