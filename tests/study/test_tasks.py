"""One task: its row agrees with what its parts give when called by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from openset import DecisionBoundaryCarving, OneVsRestSVC, OpenSetSVC
from openset.metrics import open_set_report
from openset.study import Study, Task, run_task
from openset.study._protocol import make_problem
from openset.study._tasks import COLUMNS

STUDY = Study("s", ("digits",), ("OpenSetSVC",), (3,), 1, search={"preset": "paper"})


def _done(method, study=STUDY):
    row = run_task(Task("digits", 3, 0, method), study)
    assert row["status"] == "done", row["error"]
    assert list(row) == list(COLUMNS)
    return row


def _by_hand(estimator, row):
    """Fit with the parameters of the row; JSON made texts of the classes."""
    for name, value in json.loads(row["params"]).items():
        if isinstance(value, dict):
            value = {int(c): v for c, v in value.items()}
        estimator.set_params(**{name: value})
    problem = make_problem("digits", 3, 0, 0, None)
    return problem, estimator.fit(problem.X_train, problem.y_train)


def test_measures_carry_their_true_names():
    row = _done("OpenSetSVC")
    problem, model = _by_hand(OpenSetSVC(), row)
    answers = model.predict(problem.X_test)
    report = open_set_report(problem.y_test, answers, known=problem.known, unknown_label=-1)
    assert row["OSFMmicro"] == report["open_set_f1_micro"]
    assert row["FMmacro"] == report["f1_with_unknown_macro"]
    n_known, n_unknown = row["n_test_known"], row["n_test_unknown"]
    assert n_known + n_unknown + row["n_train"] == 1797
    right = row["AKS"] * n_known + row["AUS"] * n_unknown
    assert row["FMmicro"] == pytest.approx(right / (n_known + n_unknown))  # overall accuracy
    assert row["NA"] == pytest.approx((row["AKS"] + row["AUS"]) / 2)


def test_biases_of_the_open_set_svm():
    row = _done("OpenSetSVC")
    problem, model = _by_hand(OpenSetSVC(), row)
    plain = OneVsRestSVC(model.C, model.gamma).fit(problem.X_train, problem.y_train)
    assert json.loads(row["bias_before"]) == plain.intercept_.tolist()
    after = np.array(json.loads(row["bias_after"]))
    assert after.tolist() == model.intercept_.tolist()
    assert np.all(after < 0)
    # b never rises with lambda
    assert np.all(after <= plain.intercept_ + 2e-3)


def test_biases_of_carving():
    row = _done("DecisionBoundaryCarving")
    _, model = _by_hand(DecisionBoundaryCarving(), row)
    moved = np.subtract(json.loads(row["bias_before"]), json.loads(row["bias_after"]))
    np.testing.assert_allclose(moved, model.epsilon_)


def test_biases_of_pairs():
    row = _done("OneVsRestSVC")
    assert row["bias_before"] == row["bias_after"]
    biases = json.loads(row["ovo_bias"])
    assert len(biases) == 3
    assert np.all(np.isfinite(biases))


@pytest.mark.parametrize("method", ["MulticlassSVDD", "OneVsSetMachine", "ExtremeValueMachine"])
def test_no_bias_before_where_there_is_no_svm_to_change(method):
    row = _done(method)
    assert row["bias_before"] is row["ovo_bias"] is None


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
