"""The second protocol: splits from a column, known classes drawn from the sorted labels."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import f1_score

from openset import CalibratedRejector, OpenSetSVC
from openset.evaluation import Evaluation
from openset.study import (
    Store,
    Study,
    Task,
    accuracy_by_rejection,
    draw_from_column,
    load_study,
    run_study,
    run_task,
)
from openset.study._tasks import class_count

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

PROTOCOL = {"column": "split", "train": "train", "validation": "val"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Eight intents and queries of none, in the layout of clinc150-minilm."""
    folder = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)
    parts = []
    for k, name in enumerate("hgfedcba"):
        center = np.eye(8)[k] * 3
        for split, n in (("train", 20), ("val", 30), ("test", 10)):
            X = center + rng.normal(scale=0.5, size=(n, 8))
            parts.append(pd.DataFrame(X).assign(target=name, split=split))
    for split in ("oos_train", "oos_val", "oos_test"):
        X = rng.normal(scale=2.0, size=(15, 8))
        parts.append(pd.DataFrame(X).assign(target="oos", split=split))
    table = pd.concat(parts, ignore_index=True)
    table.columns = [f"e{c}" if isinstance(c, int) else c for c in table.columns]
    table.assign(text="what?").to_parquet(folder / "intents.parquet")
    return folder


def _study(**changes):
    base = {
        "search": {"scoring": "oscr_area", "n_repeats": 1},
        "grids": {"OpenSetSVC": {"gamma": [0.1], "lam": [0.0]}},
        "protocol": PROTOCOL,
        "operating_point": {"alpha": 0.1, "by": "highest"},
    }
    return Study("s", ("intents",), ("OpenSetSVC",), (0.25, 0.5, 3), 2, **(base | changes))


@pytest.mark.parametrize("seed", range(3))
def test_a_draw_is_that_of_numpy(home, seed):
    X, y, split, validation = draw_from_column("intents", 4, seed, home, **PROTOCOL)
    np.random.seed(seed)  # noqa: NPY002
    known = np.random.choice(sorted("abcdefgh"), 4, replace=False)  # noqa: NPY002
    assert set(split.known) == set(known)
    part = pd.read_parquet(home / "intents.parquet")["split"].to_numpy()
    is_known = np.isin(y, known)
    assert split.train.tolist() == np.flatnonzero(is_known & (part == "train")).tolist()
    assert validation.tolist() == np.flatnonzero(is_known & (part == "val")).tolist()
    assert split.test.tolist() == np.flatnonzero(~np.isin(part, ["train", "val"])).tolist()
    assert len(X) == len(y)


@pytest.mark.parametrize(("dataset", "name"), [("clinc150", "oos"), ("banking77", "banking")])
def test_the_draws_of_textoir(data_home, dataset, name):
    labels = json.loads((data_home / "textoir-labels.json").read_text())[name]
    assert class_count(_study(), f"{dataset}-minilm", data_home) == len(labels)
    for ratio, seed in ((0.25, 0), (0.75, 9)):
        n = round(len(labels) * ratio)
        draw = draw_from_column(f"{dataset}-minilm", n, seed, data_home, **PROTOCOL)
        np.random.seed(seed)  # noqa: NPY002
        known = np.random.choice(labels, n, replace=False)  # noqa: NPY002
        assert set(draw.split.known) == set(known)
    assert len(draw.split.test) == {"clinc150": 5700, "banking77": 3080}[dataset]


def test_ratios_become_numbers():
    study = _study()
    numbers = {
        n: list(dict.fromkeys(task.n_known for task in study.tasks({"intents": n})))
        for n in (8, 12, np.inf, 150)
    }
    assert numbers[8] == [2, 4, 3]
    assert numbers[12] == [3, 6]  # a quarter of 12 is 3: one number
    assert numbers[np.inf] == [3]
    assert numbers[150] == [38, 75, 3]  # Python's round, as TEXTOIR's: half to even
    assert study.restrict(n_known=[0.5]).n_known == (0.5,)


def test_a_task_by_hand(home):
    task = Task("intents", 4, 1, "OpenSetSVC")
    row = run_task(task, _study(), home)
    assert row["status"] == "done", row["error"]
    X, y, split, validation = draw_from_column("intents", 4, 1, home, **PROTOCOL)
    svc = OpenSetSVC(gamma=0.1).fit(X[split.train], y[split.train])
    scores = svc.known_score(X[validation])
    threshold = np.sort(scores)[int(0.1 * (len(scores) + 1)) - 1]
    test = svc.decision_function(X[split.test])
    answers = np.where(test.max(axis=1) >= threshold, svc.classes_[test.argmax(axis=1)], "open")
    truth = np.where(np.isin(y[split.test], split.known), y[split.test], "open")
    assert row["FMmicro"] == pytest.approx(np.mean(answers == truth))
    assert row["n_test_known"] == np.sum(truth != "open")
    without = run_task(task, _study(operating_point={}), home)
    assert without["FMmicro"] != row["FMmicro"]


def test_a_refit_keeps_the_thresholds(home):
    point = {"alpha": 0.1, "by": "highest", "refit": True}
    row = run_task(Task("intents", 4, 1, "OpenSetSVC"), _study(operating_point=point), home)
    X, y, split, validation = draw_from_column("intents", 4, 1, home, **PROTOCOL)
    first = OpenSetSVC(gamma=0.1).fit(X[split.train], y[split.train])
    scores = first.known_score(X[validation])
    threshold = np.sort(scores)[int(0.1 * (len(scores) + 1)) - 1]
    rows = np.concatenate([split.train, validation])
    second = OpenSetSVC(gamma=0.1).fit(X[rows], y[rows])
    test = second.decision_function(X[split.test])
    answers = np.where(test.max(axis=1) >= threshold, second.classes_[test.argmax(axis=1)], "open")
    truth = np.where(np.isin(y[split.test], split.known), y[split.test], "open")
    assert row["FMmicro"] == pytest.approx(np.mean(answers == truth))
    assert row["n_train"] == len(rows)


def test_the_recorded_curve_has_the_measures_of_scikit_learn(home):
    study = _study(operating_point={"alpha": 0.1, "by": "highest"})
    row = run_task(Task("intents", 4, 1, "OpenSetSVC"), study, home)
    curve = json.loads(row["extra"])
    assert curve["chosen"]["accuracy"] == pytest.approx(row["FMmicro"])
    rng = np.random.default_rng(0)
    truth = rng.choice(list("abcx"), 400)
    scores = rng.normal(size=(400, 3)) + 2 * (truth[:, None] == np.array(list("abc")))
    evaluation = Evaluation(truth, scores, np.array(list("abc")))
    curve = accuracy_by_rejection(evaluation)
    json.dumps(curve)
    assert len(curve["rejected"]) == len(curve["accuracy"]) == len(curve["f1"])
    assert curve["accuracy"][0] < max(curve["accuracy"])  # nothing known is rejected at first
    expected = np.where(evaluation.is_known, truth, evaluation.unknown_label)
    f1 = f1_score(expected, evaluation.answers, average="macro")
    assert curve["chosen"]["f1"] == pytest.approx(f1)
    assert curve["chosen"]["accuracy"] == pytest.approx(np.mean(expected == evaluation.answers))
    assert curve["chosen"]["rejected"] == np.mean(scores[truth != "x"].max(axis=1) < 0)


def test_a_copy_of_the_open_intent_study_alone(home, tmp_path):
    """With another line of datasets, in a folder of its own."""
    path = Path(__file__).parents[2] / "studies" / "open_intents.toml"
    text = re.sub("^datasets = .*", 'datasets = ["intents"]', path.read_text(), flags=re.M)
    (tmp_path / "copy.toml").write_text(re.sub("^runs = .*", "runs = 1", text, flags=re.M))
    study = load_study(tmp_path / "copy.toml").restrict(n_known=[0.5])
    with Store(tmp_path / "r.sqlite", create=True) as store:
        counts = run_study(study, store, data_home=home, jobs=1)
        assert counts["done"] == len(study.methods), [
            r["error"] for r in store.rows() if r["error"]
        ]
        store.export_csv(tmp_path / "r.csv")
    table = pd.read_csv(tmp_path / "r.csv")
    assert set(table["method"]) == set(study.methods)
    assert table[["accuracy", "FMmacro"]].notna().all(axis=None)


def test_an_export(home, tmp_path):
    with Store(tmp_path / "r.sqlite", create=True) as store:
        counts = run_study(_study().restrict(n_known=[0.25]), store, data_home=home, jobs=1)
        assert counts["done"] == 2
        store.export_csv(tmp_path / "r.csv")
        with Store(tmp_path / "other.sqlite", create=True) as other:
            other.import_csv(tmp_path / "r.csv")
            assert other.rows() == store.rows()
    with open(tmp_path / "r.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["dataset"], r["n_known"], r["run"]) for r in rows] == [
        ("intents", "2", "0"),
        ("intents", "2", "1"),
    ]
    assert all(r["accuracy"] == r["FMmicro"] and 0 < float(r["FMmacro"]) <= 1 for r in rows)


def test_logistic_regression_with_a_threshold(home):
    for refit in (False, True):
        point = {"alpha": 0.1, "by": "highest", "refit": refit}
        study = _study(grids={}, operating_point=point)
        row = run_task(Task("intents", 4, 0, "ThresholdRejector"), study, home)
        assert row["status"] == "done", row["error"]
        assert row["FMmicro"] > 0.5


def test_results_of_another_rule_are_not_mixed():
    plain = Study("s", ("digits",), ("PISVM",), (3,), 2)
    other = _study(operating_point={"alpha": 0.2})
    prints = {study.fingerprint("PISVM") for study in (plain, _study(), other)}
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_known = [0.25, 1.5]", "must be 2 or more each, or ratios between 0 and 1"),
        ("n_known = [true]", "must be a list of int or float"),
        ('n_known = [3]\n[protocol]\ncolumn = "split"', r"\[protocol\] train = None must be"),
        ('n_known = [3]\n[protocol]\ncolumns = "a"', "no key of .protocol. 'columns'; did you"),
        ("n_known = [3]\n[operating_point]\nalpha = 0.1", "needs the validation rows"),
        (
            "n_known = [3]\nPROTOCOL\n[operating_point]\nalpha = 7",
            r"\[operating_point\]: The 'alpha'",
        ),
        ("n_known = [3]\nPROTOCOL\n[operating_point]\nrefit = 1", "refit must be true or false"),
        ("n_known = [3]\nPROTOCOL\n[operating_point]\nalfa = 7", "'alfa'; did you mean 'alpha'"),
    ],
)
def test_bad_files(tmp_path, text, message):
    lines = "\n".join(["[protocol]", *(f'{k} = "{v}"' for k, v in PROTOCOL.items())])
    path = tmp_path / "bad.toml"
    head = 'datasets = ["digits"]\nmethods = ["OSNN"]\nruns = 1\n'
    path.write_text(head + text.replace("PROTOCOL", lines))
    with pytest.raises(ValueError, match=message):
        load_study(path)


def test_bad_datasets(home):
    for changes, message in (
        ({"column": "part"}, "no text column 'part'"),
        ({"train": "training"}, "no row with split = 'training'; there are oos_test"),
    ):
        row = run_task(Task("intents", 2, 0, "OSNN"), _study(protocol=PROTOCOL | changes), home)
        assert row["status"] == "failed"
        assert message in row["error"]


def test_the_rejector_of_an_operating_point(home):
    from openset.evaluation import evaluate_method

    X, y, split, validation = draw_from_column("intents", 4, 0, home, **PROTOCOL)
    result = evaluate_method(
        OpenSetSVC(gamma=0.1), X, y, split, operating_point={"alpha": 0.2}, calibration=validation
    )
    assert isinstance(result.fitted.model, CalibratedRejector)
    assert result.fitted.model.n_calibration_ == len(validation)
