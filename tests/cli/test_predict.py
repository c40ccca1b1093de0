"""openset predict and evaluate: the answers are the model's, row by row."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import OpenSetSVC, metrics
from openset.base import PredictionExplainer, explain
from openset.persistence import load_model, save_model

from .conftest import blobs

FEATURES = ["width", "height", "mass"]


@pytest.fixture
def questions(tmp_path):
    """Rows of the known classes, of two others, and some far away."""
    table = pd.concat([blobs(seed=1), blobs(seed=2, classes="xy")], ignore_index=True)
    table.loc[:4, FEATURES] = 1e3
    table["id"] = [f"{i:04d}" for i in range(len(table))]
    table.to_csv(tmp_path / "questions.csv", index=False)
    return table


def read(path):
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix == ".arrow":
        return pd.read_feather(path)
    separator = "\t" if path.suffix == ".tsv" else ","
    return pd.read_csv(path, sep=separator, dtype={"id": str}, keep_default_na=False)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow"])
def test_answers_are_those_of_the_model(run, trained, questions, tmp_path, ending):
    out = tmp_path / f"out.{ending}"
    result = run("predict", trained.model, tmp_path / "questions.csv", "-o", out, "--jobs", 1)
    assert result.exit_code == 0, result.stderr
    told = read(out)
    model = load_model(trained.model)
    X = questions[FEATURES].to_numpy()
    scores = model.decision_function(X)
    assert told.columns.tolist() == [
        *questions.columns,
        *("prediction", "known_score", "runner_up", "margin", "reason"),
    ]
    assert told.id.tolist() == questions.id.tolist()  # in order, zeros in front kept
    assert told.note.tolist() == questions.note.tolist()
    assert told.prediction.tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(told.known_score.astype(float), scores.max(axis=1), rtol=1e-9)
    second = np.argsort(-scores, axis=1, kind="stable")[:, 1]
    assert told.runner_up.tolist() == np.array(list("abcd"))[second].tolist()
    assert told.reason[0].endswith("; outside every certificate")
    n_unknown = sum(told.prediction == "unknown")
    assert f"{len(told)} rows answered, {n_unknown} (" in result.stdout


def test_reasons_agree_with_explain(trained, questions):
    model = load_model(trained.model)
    X = questions[FEATURES].to_numpy()
    Z, final = model[:-1].transform(X), model[-1]
    why = explain(model, X)
    columns = PredictionExplainer(final, 1).columns(Z, final.decision_function(Z))
    outside = 0
    assert columns[4].to_pylist() == why.reason.tolist()
    np.testing.assert_allclose(columns[3].to_numpy(), why.margin, atol=1e-5)
    for reason, row in zip(columns[4].to_pylist(), why.itertuples(), strict=True):
        if row.answer != "unknown":
            assert f"accepted by {row.answer}" in reason or f"accept: {row.answer}" in reason
            continue
        nearest, _, rest = reason.removeprefix("none accepts; nearest is ").partition(
            "; missed by "
        )
        missed, _, where = rest.partition("; ")
        assert nearest == row.nearest_class
        assert float(missed) == pytest.approx(max(row.deficit, 1e-4), abs=1e-4)
        assert where == ("outside every certificate" if row.region_gap > 0 else "")
        outside += row.region_gap > 0
    assert 5 <= outside < len(X)


@pytest.mark.parametrize("gamma", [0.5, 20.0])
def test_outside_means_farther_than_every_radius(gamma):
    table = blobs()
    X = MinMaxScaler().fit_transform(table[FEATURES])
    model = OpenSetSVC(gamma=gamma).fit(X, table.kind)
    rng = np.random.default_rng(0)
    Z = np.concatenate([rng.uniform(-2, 3, size=(600, 3)), [[1e9, 0, 0], [1e200, 0, 0]]])
    *_, reasons = PredictionExplainer(model).columns(Z, model.decision_function(Z))
    found = np.array([text.endswith("outside every certificate") for text in reasons.to_pylist()])
    expected = np.ones(len(Z), dtype=bool)
    for c, radius in enumerate(model.known_radius_):
        own = model.support_vectors_[model.dual_coef_[c] > 0]
        with np.errstate(over="ignore"):
            distance = np.sqrt(((Z[:, None] - own) ** 2).sum(axis=2)).min(axis=1)
        expected &= distance > radius
    np.testing.assert_array_equal(found, expected & (model.predict(Z) == "unknown"))
    assert found.sum() == expected.sum() > 100
    assert (model.predict(Z[found]) == "unknown").all()


def test_chunks_make_no_difference(run, trained, questions, tmp_path, monkeypatch):
    arguments = ("predict", trained.model, tmp_path / "questions.csv", "-o")
    run(*arguments, tmp_path / "one.csv")
    monkeypatch.setattr("openset.tables._files.CSV_BLOCK", 1000)
    run(*arguments, tmp_path / "many.csv")
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "many.csv").read_text()


def test_columns_in_another_order_and_taken_names(run, trained, questions, tmp_path):
    data = tmp_path / "questions.csv"
    run("predict", trained.model, data, "-o", tmp_path / "one.csv")
    moved = questions[["mass", "kind", "width", "note", "height", "id"]].assign(reason="mine")
    moved.to_csv(tmp_path / "moved.csv", index=False)
    result = run("predict", trained.model, tmp_path / "moved.csv", "-o", tmp_path / "two.csv")
    assert "the new one is 'reason_'" in result.stderr
    one, two = pd.read_csv(tmp_path / "one.csv"), pd.read_csv(tmp_path / "two.csv")
    assert two.prediction.tolist() == one.prediction.tolist()
    assert two.reason_.tolist() == one.reason.tolist()
    assert set(two.reason) == {"mine"}


def test_typed_columns_pass_through(run, fails, trained, questions, tmp_path):
    typed = questions.assign(
        kind=questions.kind.astype("category"),
        when=pd.Timestamp("2026-01-02"),
        parts=[[1, 2]] * len(questions),
    )
    typed.to_parquet(tmp_path / "t.parquet", row_group_size=50)
    for ending in ("parquet", "arrow"):
        out = tmp_path / f"o.{ending}"
        result = run("predict", trained.model, tmp_path / "t.parquet", "-o", out)
        assert result.exit_code == 0, result.stderr
        told = read(out)
        assert told.kind.tolist() == questions.kind.tolist()
        assert (told.when == pd.Timestamp("2026-01-02")).all()
        assert told.parts[3].tolist() == [1, 2]
    told = fails("predict", trained.model, tmp_path / "t.parquet", "-o", tmp_path / "o.csv")
    assert "write .parquet instead" in told


def test_summary_as_json(run, trained, questions, tmp_path):
    data, out = tmp_path / "questions.csv", tmp_path / "o.csv"
    told = json.loads(run("predict", trained.model, data, "-o", out, "--json").stdout)
    counts = pd.read_csv(out).prediction.value_counts().to_dict()
    assert told == {"rows": len(questions), "unknown": counts["unknown"], "answers": counts}


def test_a_model_saved_from_python(run, fails, tmp_path):
    table = blobs()
    save_model(OpenSetSVC().fit(table[FEATURES].to_numpy(), table.kind), tmp_path / "m.skops")
    np.save(tmp_path / "x.npy", table[FEATURES].to_numpy())
    result = run("predict", tmp_path / "m.skops", tmp_path / "x.npy", "-o", tmp_path / "o.csv")
    assert result.exit_code == 0, result.stderr
    assert run("info", tmp_path / "m.skops").exit_code == 0
    np.save(tmp_path / "x.npy", np.zeros((4, 7)))
    told = fails("predict", tmp_path / "m.skops", tmp_path / "x.npy", "-o", tmp_path / "p.csv")
    assert "has 7 columns" in told


def test_troubles(fails, trained, questions, tmp_path):
    def told(table, output="o.csv"):
        table.to_csv(tmp_path / "bad.csv", index=False)
        return fails("predict", trained.model, tmp_path / "bad.csv", "-o", tmp_path / output)

    questions.to_csv(tmp_path / "bad.csv", index=False)
    renamed = told(questions.rename(columns={"height": "Height"}))
    assert "no column 'height', which the model needs; did you mean 'Height'?" in renamed
    assert "(and 1 more: mass)" in told(questions.drop(columns=["height", "mass"]))
    assert "a header and no rows" in told(questions[:0])
    gap = questions.astype({"mass": object})
    gap.loc[9, "mass"] = None
    assert "'mass' has no value in data row 10; fix it, or fit with --missing median" in told(gap)
    gap.loc[9, "mass"] = "heavy"
    assert "'mass' has 'heavy' in data row 10" in told(gap)
    gap.loc[9, "mass"] = np.inf
    assert "'mass' is infinite in data row 10; fix it" in told(gap)
    assert "none of .csv, .tsv, .csv.gz" in told(questions, "o.xls")
    assert "cannot be created" in told(questions, "bad.csv/o.csv")
    data = tmp_path / "bad.csv"
    assert "no model file" in fails(
        "predict", tmp_path / "no.skops", data, "-o", tmp_path / "o.csv"
    )
    assert "no model file of openset" in fails("predict", data, data, "-o", tmp_path / "o.csv")


def test_evaluate(run, trained, questions, tmp_path):
    arguments = ("evaluate", trained.model, tmp_path / "questions.csv", "-t", "kind")
    told = json.loads(run(*arguments, "--json").stdout)
    model = load_model(trained.model)
    scores = model.decision_function(questions[FEATURES].to_numpy())
    answers = model.predict(questions[FEATURES].to_numpy())
    truth = questions.kind.to_numpy(dtype=str)
    labels = {"known": list("abcd"), "unknown_label": "unknown"}
    expected = metrics.open_set_report(truth, answers, **labels)
    for name, value in told["measures"].items():
        if name in expected:
            assert value == pytest.approx(expected[name])
    assert told["measures"]["oscr_area"] == pytest.approx(
        metrics.oscr_area(truth, scores, known=list("abcd"))
    )
    counts = metrics.open_set_confusion_matrix(truth, answers, **labels)
    assert told["confusion"]["counts"] == counts.tolist()
    assert set(told["unknown_labels"]) == {"x", "y"}
    assert told["unknown_rows"] == 80
    area = np.trapezoid(
        told["oscr"]["correct_classification_rate"], told["oscr"]["false_positive_rate"]
    )
    assert area == pytest.approx(told["measures"]["oscr_area"], abs=0.02)

    text = run(*arguments).stdout
    assert "240 rows, 80 of them unknown (classes the model has not learned: " in text
    assert f"{expected['accuracy_known']:.4f}" in text
    assert "most frequent mistakes:" in text


def test_evaluate_without_unknown_rows(run, trained, tmp_path):
    blobs(seed=5).to_csv(tmp_path / "t.csv", index=False)
    result = run("evaluate", trained.model, tmp_path / "t.csv", "-t", "kind", "--json")
    told = json.loads(result.stdout, parse_constant=pytest.fail)  # NaN is no JSON
    assert "accuracy_unknown" not in told["measures"]
    assert told["oscr"] is None


def test_a_model_fitted_to_a_frame_knows_its_columns(run, tmp_path):
    table = blobs(seed=6)
    model = make_pipeline(MinMaxScaler(), OpenSetSVC()).fit(table[FEATURES], table["kind"])
    save_model(model, tmp_path / "m.skops", {"data": "some blobs"})
    table[["kind", *reversed(FEATURES)]].to_csv(tmp_path / "t.csv", index=False)
    result = run("predict", tmp_path / "m.skops", tmp_path / "t.csv", "-o", tmp_path / "out.csv")
    assert (result.exit_code, result.stderr) == (0, "")
    answers = pd.read_csv(tmp_path / "out.csv")["prediction"]
    assert answers.tolist() == model.predict(table[FEATURES]).tolist()
    assert run("info", tmp_path / "m.skops").exit_code == 0


def test_evaluate_a_model_of_float_classes(run, tmp_path):
    X, y = np.repeat([[0.0, 0.0], [5.0, 5.0]], 4, axis=0), np.repeat([1.0, 2.0], 4)
    save_model(
        OpenSetSVC(gamma=1.0).fit(X, y), tmp_path / "m.skops", {"data": {"features": ["a", "b"]}}
    )
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": y}).to_parquet(tmp_path / "t.parquet")
    result = run("evaluate", tmp_path / "m.skops", tmp_path / "t.parquet", "-t", "kind", "--json")
    assert json.loads(result.stdout)["measures"]["accuracy_known"] == 1.0


@pytest.mark.parametrize("fitted", [int, float])
def test_evaluate_where_pandas_has_written_integers_as_floats(run, tmp_path, fitted):
    """1 and 1.0 are one class in a CSV too, in either table, and while a model learns."""
    table = blobs().assign(kind=lambda t: t["kind"].map(dict(zip("abcd", range(4), strict=True))))
    train, test, model = (tmp_path / name for name in ("train.csv", "test.csv", "m.skops"))
    table.astype({"kind": fitted}).to_csv(train, index=False)
    table.astype({"kind": float if fitted is int else int}).to_csv(test, index=False)
    assert run("fit", train, "-t", "kind", "-o", model, "-m", "osnn", "--turns", 0).exit_code == 0
    told = json.loads(run("evaluate", model, test, "-t", "kind", "--json").stdout)
    assert told["unknown_rows"] == 0 and list(told["per_class"])[:4] == ["0", "1", "2", "3"]
    words = ("learn", model, "--data", test, test, "--remove", 3, "-o", tmp_path / "m2.skops")
    assert run(*words).exit_code == 0


def test_evaluate_figures_without_unknown_rows(run, trained, tmp_path):
    blobs(seed=5).to_csv(tmp_path / "t.csv", index=False)
    result = run("evaluate", trained.model, tmp_path / "t.csv", "-t", "kind", "--figures", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    assert {p.name for p in tmp_path.glob("*.png")} == {"confusion_matrix.png"}


def test_evaluate_figures(run, trained, questions, tmp_path):
    (tmp_path / "figures").mkdir()
    result = run(
        *("evaluate", trained.model, tmp_path / "questions.csv", "-t", "kind"),
        *("--figures", tmp_path / "figures"),
    )
    assert result.exit_code == 0, result.stderr
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"confusion_matrix.png", "oscr.png", "roc.png", "scores.png"}


def test_evaluate_troubles(fails, trained, questions, tmp_path):
    data = tmp_path / "questions.csv"
    assert "no column 'knd', the target" in fails("evaluate", trained.model, data, "-t", "knd")
    told = fails("evaluate", trained.model, data, "-t", "kind", "--figures", data)
    assert "it is read by this command" in told
    questions.loc[3, "kind"] = None
    questions.to_csv(data, index=False)
    told = fails("evaluate", trained.model, data, "-t", "kind")
    assert "no class in 'kind' in data row 4" in told


def test_labels_that_are_numbers(run, tmp_path):
    table = blobs()
    table["kind"] = table.kind.map({"a": 1, "b": 2, "c": 3, "d": 9})
    table[table.kind < 9].to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "all.parquet")
    model = tmp_path / "m.skops"
    fitted = run(
        *("fit", tmp_path / "t.csv", "-t", "kind", "-o", model, "-m", "osnn", "--turns", 0)
    )
    assert fitted.exit_code == 0, fitted.stderr
    run("predict", model, tmp_path / "all.parquet", "-o", tmp_path / "o.parquet")
    assert set(pd.read_parquet(tmp_path / "o.parquet").prediction) <= {-1, 1, 2, 3}
    told = json.loads(
        run("evaluate", model, tmp_path / "all.parquet", "-t", "kind", "--json").stdout
    )
    assert told["unknown_labels"] == ["9"]
    assert told["unknown_rows"] == 40
