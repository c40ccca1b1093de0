"""Classes withheld in turns: who sees what, and what is measured."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from openset import OSNN, OneVsRestSVC, OpenSetSearchCV
from openset.evaluation import fit_method, held_out_report, make_method, tuning_rows
from openset.utils import method_names


@pytest.fixture
def data():
    X, y = make_blobs([20] * 4, n_features=3, random_state=0)
    return X, np.array(list("abcd"))[y]


class Recorder(OSNN):
    """Remembers what it was fitted on."""

    seen = []

    def fit(self, X, y):
        Recorder.seen.append((X.copy(), y.copy()))
        return super().fit(X, y)


def test_withheld_rows_have_no_part_in_the_fit(data, monkeypatch):
    monkeypatch.setattr(Recorder, "seen", [])
    told = []
    report = held_out_report(
        Recorder(), *data, n_turns=2, random_state=0, on_turn=lambda *turn: told.append(turn)
    )
    assert len(Recorder.seen) == 2 * len(report.turns) == 4
    for rows, labels in Recorder.seen[1::2]:  # every second fit knows all classes
        assert len(rows) == 64 and set(labels) == set("abcd") and report.all_known
    for (rows, labels), turn in zip(Recorder.seen[::2], report.turns, strict=True):
        assert not set(labels) & set(turn["withheld"])
        assert len(rows) == 48  # four fifths of three classes
        assert (turn["n_known"], turn["n_unknown"]) == (12, 4)
        assert len(turn["withheld"]) == 1  # three classes stay known
    assert told == [(k + 1, 2, turn["withheld"]) for k, turn in enumerate(report.turns)]
    withheld = {label for turn in report.turns for label in turn["withheld"]}
    assert {c for c, shares in report.classes.items() if "rejected" in shares} == withheld
    assert all("named" in shares for shares in report.classes.values())


def test_consecutive_rows_are_held_out(data, monkeypatch):
    monkeypatch.setattr(Recorder, "seen", [])
    X, y = data
    held_out_report(Recorder(), X, y, n_turns=3, random_state=0)
    for (rows, _), first in zip(Recorder.seen[1::2], (16, 8, 0), strict=True):  # of each class
        seen = {tuple(row) for row in rows}
        for label in "abcd":
            left_out = [k for k, row in enumerate(X[y == label]) if tuple(row) not in seen]
            assert left_out == [first, first + 1, first + 2, first + 3]


def test_alike_neighbours_do_not_flatter_the_report():
    # Sessions of five rows that are nearly copies of each other; new rows are of new sessions.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 600)

    def sessions():
        centers = rng.normal(size=(3, 120, 4)) + 2 * np.eye(3, 4)[:, None]
        return centers.repeat(5, axis=1).reshape(-1, 4) + 0.01 * rng.normal(size=(1800, 4))

    X, model = sessions(), OneVsRestSVC(gamma=1.0)
    new = np.vstack([sessions() for _ in range(5)])
    true = np.mean(model.fit(X, y).predict(new) == np.tile(y, 5))
    told = held_out_report(model, X, y, random_state=0).all_known["accuracy_known"]
    order = rng.permutation(1800)  # neighbouring rows are of different sessions
    mixed = held_out_report(model, X[order], y[order], random_state=0).all_known["accuracy_known"]
    assert abs(told - true) < 0.04
    assert mixed - true > 0.1


@pytest.mark.parametrize("n_turns", [1, 2, 3, 4, 9])
def test_as_many_turns_as_asked_for(data, n_turns):
    report = held_out_report(OSNN(), *data, n_turns=n_turns, random_state=0)
    assert len(report.turns) == min(n_turns, 4)
    withheld = [label for turn in report.turns for label in turn["withheld"]]
    assert len(withheld) == len(set(withheld)) and all(turn["withheld"] for turn in report.turns)


def test_rows_of_other_classes_are_unknown_in_every_turn(data):
    report = held_out_report(OSNN(), *data, n_turns=3, known=["a", "b", "c"], random_state=0)
    assert [(t["n_known"], t["n_unknown"]) for t in report.turns] == [(8, 24)] * 3
    assert set(report.classes) == {"a", "b", "c"}
    # What was withheld and what was never known are counted apart, and together give AUS.
    for turn in report.turns:
        found, n = turn["measures"], turn["n_withheld"]
        assert n == 4
        both = n * found["rejected_withheld"] + (24 - n) * found["rejected_others"]
        assert both / 24 == pytest.approx(found["accuracy_unknown"])


def test_means_are_over_the_turns(data):
    report = held_out_report(OSNN(), *data, n_turns=4, random_state=0)
    values = [turn["measures"]["accuracy_known"] for turn in report.turns]
    assert report.means()["accuracy_known"] == pytest.approx(np.mean(values))
    assert report.spread()["accuracy_known"] == (min(values), max(values))
    assert "rejected_others" not in report.means()  # every class takes its turn


def test_two_classes_cannot_be_withheld(data):
    X, y = data
    rows = np.isin(y, ["a", "b"])
    report = held_out_report(OSNN(), X[rows], y[rows], random_state=0)
    assert [turn["withheld"] for turn in report.turns] == [[]]
    assert "accuracy_unknown" not in report.means()


def test_tuning_on_some_rows_and_fitting_on_all(data):
    search = OpenSetSearchCV(OSNN(), n_repeats=1, random_state=0)
    fitted = fit_method(search, *data, max_tuning_rows=40)
    assert fitted.n_tuning_rows == 40
    whole = fit_method(OSNN(**fitted.params), *data)
    np.testing.assert_array_equal(
        fitted.model.decision_function(data[0]), whole.model.decision_function(data[0])
    )
    assert whole.search is None and whole.params == {}


def test_search_with_few_rows_warns(data):
    search = OpenSetSearchCV(OSNN(), n_repeats=1, random_state=0)
    with pytest.warns(UserWarning, match="10 rows per class to choose parameters"):
        fit_method(search, *data, max_tuning_rows=40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, y = np.vstack([data[0]] * 2), np.concatenate([data[1]] * 2)  # 40 rows per class
        fit_method(search, X, y)
        fit_method(OSNN(), data[0][:12], data[1][:12])  # nothing to choose


def test_rows_for_tuning_grow_with_the_classes():
    assert tuning_rows(np.repeat(np.arange(5), 2000)) == 3000
    assert tuning_rows(np.repeat(np.arange(100), 500)) == 20_000
    assert tuning_rows(np.arange(100)) == 100


def test_methods_by_name():
    names = method_names()
    assert {"ossvm", "svm", "ocsvm", "svdd", "dbc", "w-svm", "pi-svm", "evm", "osnn"} <= set(names)
    for name in ("OSSVM", "OpenSetSVC"):
        assert type(make_method(name).steps[-1][1]) is names["ossvm"]
    with pytest.raises(ValueError, match="no such method: ossvn; did you mean ossvm"):
        make_method("ossvn")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_turns": 0}, "n_turns=0 must be at least 1"),
        ({"known": ["a", "z"]}, r"known has \['z'\], of which y has no row"),
    ],
)
def test_bad_arguments(data, arguments, message):
    with pytest.raises(ValueError, match=message):
        held_out_report(OSNN(), *data, **arguments)


@pytest.mark.parametrize("n_classes", [1, 4])
def test_objects_are_held_out_as_a_whole(n_classes, monkeypatch):
    # Objects of one class, or of several as speakers are; e is never known.
    monkeypatch.setattr(Recorder, "seen", [])
    n, rng = 400, np.random.default_rng(0)
    y = np.array(list("abcde"))[np.arange(n) % 5]
    groups = (
        rng.permutation(n) % 50 if n_classes > 1 else 5 * (np.arange(n) // 40) + np.arange(n) % 5
    )
    X = np.column_stack([groups, rng.normal(size=(n, 2))])
    report = held_out_report(
        Recorder(), X, y, groups=groups, n_turns=2, known=list("abcd"), random_state=0
    )
    for k, turn in enumerate(report.turns):
        n_test = turn["n_known"] + turn["n_unknown"]
        assert turn["n_withheld"] and turn["n_unknown"] > turn["n_withheld"]
        for rows, labels in Recorder.seen[2 * k : 2 * k + 2]:
            trained = np.unique(rows[:, 0])
            free = ~np.isin(groups, trained)
            assert n_test <= free.sum() and "e" not in labels
            assert 0.4 * n < len(rows) + n_test <= n
    few = np.where(y == "a", 0, groups + 1)
    with pytest.raises(ValueError, match="class 'a' has rows of too few groups"):
        held_out_report(OSNN(), X, y, groups=few)


def test_groups_reach_the_search(data):
    X, y = data
    groups = np.arange(len(y)) % 40
    search = OpenSetSearchCV(OneVsRestSVC(), {"gamma": [0.1, 1.0]}, random_state=0)
    fitted = fit_method(search, X, y, groups=groups)
    expected = search.fit(X, y, groups=groups)
    assert fitted.search.best_score_ == expected.best_score_
    some = fit_method(search, X, y, groups=groups, max_tuning_rows=60)
    assert some.n_tuning_rows == 60 and some.n_rows == 80
