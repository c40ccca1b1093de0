"""A model carries its table: the command, Python, ONNX and Dask answer alike."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from typer.testing import CliRunner

from openset import OpenSetSVC
from openset.cli import app
from openset.persistence import ModelFileError, load_model, read_card, save_model
from openset.tables import TableEncoder, TableError

FEATURES = ["width", "depth"]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def ok(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return result


def rows(n=300, seed=0):
    """Three kinds of soil: two numbers, with gaps, a category that tells kinds apart, a date."""
    rng = np.random.default_rng(seed)
    kind = np.array(["dune", "field", "marsh"])[np.arange(n) % 3]
    center = pd.Series(kind).map({"dune": 0.0, "field": 0.0, "marsh": 6.0}).to_numpy()
    table = pd.DataFrame({"width": rng.normal(center, 1.0), "depth": rng.normal(center, 2.0)})
    table["soil"] = pd.Series(kind).map({"dune": "sand", "field": "clay", "marsh": "clay"})
    table["when"] = pd.date_range("2024-01-01", periods=n, freq="D").to_numpy()
    table["kind"] = kind
    table.loc[4::50, "depth"] = np.nan
    table.loc[7::90, "soil"] = None
    return table


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A model of the command, rows that it has not seen, and what the command answers."""
    folder = tmp_path_factory.mktemp("world")
    rows().to_parquet(folder / "train.parquet")
    model, new = folder / "m.skops", rows(150, seed=1)
    new.loc[3, "soil"] = "peat"  # a value that is new
    new.to_parquet(folder / "new.parquet")
    fit = ("fit", folder / "train.parquet", "-t", "kind", "-o", model, "--missing", "median")
    ok(*fit, "-m", "svm", "--turns", 0, "--jobs", 1)
    ok("predict", model, folder / "new.parquet", "-o", folder / "answers.parquet")
    return folder, model, new, pd.read_parquet(folder / "answers.parquet")


def test_what_is_learned_from_the_columns(world):
    encoder = load_model(world[1])[0]
    names = ["width", "depth", "soil=clay", "soil=sand"]
    assert encoder.get_feature_names_out().tolist() == names
    assert encoder.feature_names_in_.tolist() == ["width", "depth", "soil"]
    assert encoder.categories_ == {"soil": ["clay", "sand"]}
    assert list(encoder.dropped_) == ["when"] and "not numeric" in encoder.dropped_["when"]
    card = read_card(world[1])
    assert card["data"]["features"] == names and card["steps"][0] == "TableEncoder"


def _same(model, frame, answers):
    assert model.predict(frame).tolist() == answers.prediction.tolist()
    scores = model.decision_function(frame).max(axis=1)
    np.testing.assert_allclose(scores, answers.known_score, rtol=1e-9, atol=1e-9)


def test_python_answers_as_the_command(world):
    _, path, new, answers = world
    model = load_model(path)
    assert set(answers.prediction) >= {"dune", "field", "marsh"}
    _same(model, new, answers)
    _same(model, new[["soil", "depth", "width"]], answers)  # in another order, and no others
    _same(model, new.astype({"soil": "category"}), answers)
    _same(model, model[0].transform(new), answers)  # the features themselves
    import pyarrow as pa

    _same(model, pa.Table.from_pandas(new), answers)
    (batch,) = pa.Table.from_pandas(new).to_batches()
    _same(model, batch, answers)
    polars = pytest.importorskip("polars")
    _same(model, polars.from_pandas(new), answers)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "arrow"])
def test_formats_answer_alike(world, tmp_path, ending):
    _, model, new, answers = world
    if ending == "arrow":
        new.to_feather(tmp_path / "new.arrow")
    else:
        new.to_csv(tmp_path / f"new.{ending}", index=False, sep="\t" if ending == "tsv" else ",")
    ok("predict", model, tmp_path / f"new.{ending}", "-o", tmp_path / "a.parquet")
    found = pd.read_parquet(tmp_path / "a.parquet")
    assert found.prediction.tolist() == answers.prediction.tolist()
    np.testing.assert_allclose(found.known_score, answers.known_score, rtol=1e-9, atol=1e-9)


def test_onnx_answers_as_the_command(world, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    _, path, new, answers = world
    told = ok("export", path, "--onnx", tmp_path / "m.onnx").stdout
    assert "the features unscaled, in this order: width, depth\n" in told
    assert "input categories: texts, in this order: soil\n" in told
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    given = {"X": new[["width", "depth"]].to_numpy(), "categories": new[["soil"]].to_numpy(object)}
    label, score = session.run(["label", "known_score"], given)
    assert label.tolist() == answers.prediction.tolist()
    np.testing.assert_allclose(score, answers.known_score, atol=1e-5)


def test_dask_answers_as_the_command(world):
    dask = pytest.importorskip("dask.dataframe")
    from openset.svm import predict_distributed

    _, path, new, answers = world
    found = predict_distributed(load_model(path), dask.from_pandas(new, npartitions=4))
    assert found.compute().tolist() == answers.prediction.tolist()


def test_calibrate_and_evaluate_in_python_and_by_the_command(world, tmp_path):
    from openset.calibration import calibrate

    folder, path, new, _ = world
    words = (folder / "new.parquet", "-t", "kind")
    ok("calibrate", path, *words, "--alpha", 0.1, "-o", tmp_path / "m2.skops")
    ok("predict", tmp_path / "m2.skops", folder / "train.parquet", "-o", tmp_path / "a.parquet")
    expected = calibrate(load_model(path), new, new.kind.to_numpy(), alpha=0.1)
    train, answers = rows(), pd.read_parquet(tmp_path / "a.parquet")
    _same(expected, train, answers)
    _same(load_model(tmp_path / "m2.skops"), train, answers)
    told = json.loads(ok("evaluate", path, *words, "--json").stdout)
    share = np.mean(load_model(path).predict(new) == new.kind)
    assert told["measures"]["accuracy_known"] == pytest.approx(share)


def test_learn_in_python_and_by_the_command(world, tmp_path):
    from openset.discovery import Decisions
    from openset.evaluation import learn_decisions

    folder, path, new, _ = world
    chosen = np.flatnonzero(new.kind == "marsh")[:20]
    lines = [f"{row + 1},new,bog" for row in chosen]
    (tmp_path / "d.csv").write_text("\n".join(["row,decision,label", *lines]) + "\n")
    data = ("--data", folder / "train.parquet", folder / "new.parquet")
    ok("learn", path, *data, "--decisions", tmp_path / "d.csv", "-o", tmp_path / "m2.skops")
    train = rows()
    learned = learn_decisions(
        *(load_model(path), train, train.kind.to_numpy(), new),
        Decisions(chosen, ["new"] * len(chosen), ["bog"] * len(chosen)),
    )
    assert learned.model.classes_.tolist() == ["bog", "dune", "field", "marsh"]
    again = load_model(tmp_path / "m2.skops")
    scores = learned.model.decision_function(new)
    np.testing.assert_allclose(again.decision_function(new), scores, atol=1e-6)


def test_refused_tables_name_row_and_column(world):
    model, new = load_model(world[1]), world[2]
    with pytest.raises(TableError, match="no column 'width', which the model needs"):
        model.predict(new.drop(columns="width"))
    with pytest.raises(TableError, match="'width' has '1,5' in data row 1; the model needs a num"):
        model.predict(new.assign(width="1,5"))
    with pytest.raises(TableError, match=r"'width' has .*2024.* in data row 1"):
        model.predict(new.assign(width=new.when))
    with pytest.raises(ValueError, match="X has 2 features, but TableEncoder is expecting 4"):
        model.predict(new[FEATURES].to_numpy())


def test_commas_dates_and_gaps_are_refused_when_asked_for(tmp_path):
    table = rows()
    table.to_csv(tmp_path / "t.csv", index=False, sep=";", decimal=",")
    fit = ("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m.skops", "-m", "svm")
    told = run(*fit)
    assert told.exit_code == 1 and "column 'width' has numbers with a decimal comma" in told.stderr
    table.to_csv(tmp_path / "t.csv", index=False)
    told = run(*fit)
    assert told.exit_code == 1 and "missing values in 6 of 300 rows" in told.stderr
    told = run(*fit, "--missing", "drop", "--features", "width,when")
    assert told.exit_code == 1 and "column 'when' has 300 non-numeric cells" in told.stderr
    encoder = TableEncoder(features=["width", "when"])
    with pytest.raises(TableError, match="column 'when' has 300 non-numeric cells"):
        encoder.fit(table)


@pytest.mark.parametrize("text", ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y", "%m/%d/%Y"])
def test_dates_that_repeat_are_no_category(tmp_path, text):
    """Text or not, new rows have other dates: CSV and Parquet give the same features."""
    table = rows()
    table["when"] = pd.date_range("2024-01-01", periods=9).repeat(34)[:300]
    from_dates = TableEncoder(drop=["kind"], missing="median").fit(table)
    as_text = table.assign(when=table.when.dt.strftime(text))
    encoder = TableEncoder(drop=["kind"], missing="median").fit(as_text)
    assert encoder.get_feature_names_out().tolist() == from_dates.get_feature_names_out().tolist()
    assert list(encoder.dropped_) == ["kind", "when"]
    chosen = TableEncoder(features=["width", "when"]).fit(as_text)
    assert len(chosen.categories_["when"]) == 9  # --features decides
    codes = as_text.assign(when=as_text.when + "-a")
    assert "when" in TableEncoder(drop=["kind"], missing="median").fit(codes).categories_


def test_a_pipeline_in_python(tmp_path):
    table = rows().dropna()
    model = make_pipeline(TableEncoder(drop=["kind"]), MinMaxScaler(), OpenSetSVC(gamma=1.0)).fit(
        table, table.kind
    )
    assert np.mean(model.predict(table) == table.kind) > 0.9
    save_model(model, tmp_path / "m.skops")
    table.to_csv(tmp_path / "t.csv", index=False)
    ok("predict", tmp_path / "m.skops", tmp_path / "t.csv", "-o", tmp_path / "a.csv")
    answers = pd.read_csv(tmp_path / "a.csv").prediction
    assert answers.tolist() == model.predict(table).tolist()
    assert clone(model).fit(table, table.kind).n_features_in_ == 3
    with pytest.raises(TableError, match="no value in data row 5"):
        model.predict(rows())


def test_arrays_pass_through():
    X = np.arange(6.0).reshape(3, 2)
    encoder = TableEncoder().fit(X)
    np.testing.assert_array_equal(encoder.transform(X), X)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x1"]
    with pytest.raises(ValueError, match="missing"):
        TableEncoder(missing="maybe").fit(pd.DataFrame(X, columns=["a", "b"]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("categories_", {"soil": "sand"}),
        ("categories_", {"other": ["a"]}),
        ("categories_", {"soil": [1.5]}),
        ("feature_names_in_", np.array(["width", "width", "soil"], dtype=object)),
        ("feature_names_in_", np.array(["width"], dtype=object)),
        ("dropped_", {"x": 3}),
        ("missing", "often"),
    ],
)
def test_damaged_encoders_are_refused(world, tmp_path, name, value):
    model = load_model(world[1])
    setattr(model[0], name, value)
    with pytest.raises(ModelFileError, match="cannot save the model, no reader would load it"):
        save_model(model, tmp_path / "m.skops")
