"""One task: its row agrees with what its parts give when called by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openset import OpenSetSVC
from openset.metrics import open_set_report
from openset.study import Study, Task, make_split, run_task

STUDY = Study("s", ("digits",), ("OpenSetSVC",), (3,), 1, search={"preset": "paper"})


def _done(method, study=STUDY):
    row = run_task(Task("digits", 3, 0, method), study)
    assert row["status"] == "done", row["error"]
    return row


def _by_hand(estimator, row):
    """Fit with the parameters of the row; JSON made texts of the classes."""
    for name, value in json.loads(row["params"]).items():
        if isinstance(value, dict):
            value = {int(c): v for c, v in value.items()}
        estimator.set_params(**{name: value})
    X, y = load_digits(return_X_y=True)
    split = make_split(y, "digits", 3, 0, 0)
    # Features scaled by the training rows, not clipped; 0 where they are constant.
    low, high = X[split.train].min(axis=0), X[split.train].max(axis=0)
    X = np.divide(X - low, high - low, out=np.zeros_like(X), where=high > low)
    assert X.max() > 1
    return X, y, split, estimator.fit(X[split.train], y[split.train])


def test_measures_carry_their_true_names():
    row = _done("OpenSetSVC")
    X, y, split, model = _by_hand(OpenSetSVC(), row)
    answers = model.predict(X[split.test])
    report = open_set_report(y[split.test], answers, known=split.known, unknown_label=-1)
    assert row["OSFMmicro"] == report["open_set_f1_micro"]
    assert row["FMmacro"] == report["f1_with_unknown_macro"]
    n_known, n_unknown = row["n_test_known"], row["n_test_unknown"]
    assert n_known + n_unknown + row["n_train"] == 1797
    right = row["AKS"] * n_known + row["AUS"] * n_unknown
    assert row["FMmicro"] == pytest.approx(right / (n_known + n_unknown))  # overall accuracy
    assert row["NA"] == pytest.approx((row["AKS"] + row["AUS"]) / 2)


def test_what_the_function_of_the_study_records(tmp_path):
    (tmp_path / "own.py").write_text(
        "def rows(result, X, y):\n"
        "    return {'rows': [len(X), len(y)], 'C': result.fitted.model.C}\n"
    )
    study = replace(STUDY, record=f"{tmp_path}/own.py:rows")
    row = _done("OpenSetSVC", study)
    recorded = json.loads(row["extra"])
    fit = recorded.pop("fit")
    assert recorded == {"rows": [row["n_train"]] * 2, "C": 1.0}
    assert json.loads(_done("OpenSetSVC")["extra"]) == {"fit": fit}


def test_a_row_tells_its_lambda_and_how_often_it_was_raised():
    row = _done("OpenSetSVC")
    *_, model = _by_hand(OpenSetSVC(), row)
    fit = json.loads(row["extra"])["fit"]
    assert fit["n_classes"] == 10
    np.testing.assert_allclose(fit["lam"], model.lam_, atol=1e-6)
    # Of two classes in wide kernels one has a positive bias.
    wide = {"C": [1.0], "lam": [0.0], "gamma": [1e-3]}
    two = replace(STUDY, grids={"OpenSetSVC": wide}, search={"level": "model"}, n_known=(2,))
    fit = json.loads(run_task(Task("digits", 2, 0, "OpenSetSVC"), two)["extra"])["fit"]
    assert fit["raised"] == sum(value > 0 for value in fit["lam"]) > 0
    assert set(json.loads(_done("OSNN")["extra"])["fit"]) == {"n_classes"}


def test_a_fingerprint_ends_with_the_libraries():
    row = _done("OSNN")
    settings, libraries = row["fingerprint"].split("-")
    assert settings == STUDY.fingerprint("OSNN")
    assert len(libraries) == 8 and json.loads(row["versions"])


def test_a_row_does_not_depend_on_threads():
    task = Task("digits", 3, 1, "OpenSetSVC")
    one, two = run_task(task, STUDY, threads=1), run_task(task, STUDY, threads=2)
    assert _without_times(one) == _without_times(two)


def _without_times(row):
    return {name: value for name, value in row.items() if not name.startswith("seconds")}


def test_all_methods_see_the_same_simulations(monkeypatch):
    seeds = []
    original = Study.make_search

    def spy(self, method, *arguments):
        seeds.extend(arguments[:1])
        return original(self, method, *arguments)

    monkeypatch.setattr(Study, "make_search", spy)
    for method in ("OneVsRestSVC", "OneVsSetMachine"):
        run_task(Task("make_four_gauss", 3, 0, method), STUDY)
    run_task(Task("make_four_gauss", 3, 1, "OneVsSetMachine"), STUDY)
    assert seeds[0] == seeds[1] != seeds[2]


def test_what_goes_wrong_is_in_the_row():
    study = replace(STUDY, grids={"OpenSetSVC": {"gamma": [-1.0]}})
    row = run_task(Task("digits", 3, 0, "OpenSetSVC"), study)
    assert row["status"] == "failed"
    assert "gamma" in row["error"]
    assert row["NA"] is None
    row = run_task(Task("absent", 3, 0, "OpenSetSVC"), STUDY, data_home="/nowhere")
    assert "'/nowhere', which is not a folder" in row["error"]
