"""Classes withheld in turns: who sees what, and what is measured."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from openset import OSNN, OpenSetSearchCV
from openset.evaluation import fit_method, held_out_report, make_method
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
    assert len(Recorder.seen) == len(report.turns) == 4  # three classes stay known
    for (rows, labels), turn in zip(Recorder.seen, report.turns, strict=True):
        assert not set(labels) & set(turn["withheld"])
        assert len(rows) == 48  # four fifths of three classes
        assert (turn["n_known"], turn["n_unknown"]) == (12, 4)
    assert told == [(k + 1, 4, turn["withheld"]) for k, turn in enumerate(report.turns)]
    assert {label: sorted(shares) for label, shares in report.classes.items()} == {
        c: ["named", "rejected"] for c in "abcd"
    }


def test_rows_of_other_classes_are_unknown_in_every_turn(data):
    report = held_out_report(OSNN(), *data, n_turns=3, known=["a", "b", "c"], random_state=0)
    assert [(t["n_known"], t["n_unknown"]) for t in report.turns] == [(8, 24)] * 3
    assert set(report.classes) == {"a", "b", "c"}


def test_means_are_over_the_turns(data):
    report = held_out_report(OSNN(), *data, n_turns=4, random_state=0)
    values = [turn["measures"]["accuracy_known"] for turn in report.turns]
    assert report.means()["accuracy_known"] == pytest.approx(np.mean(values))


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


def test_methods_by_name():
    names = method_names()
    assert {"ossvm", "svm", "ocsvm", "svdd", "dbc", "w-svm", "pi-svm", "evm", "osnn"} <= set(names)
    for name in ("OSSVM", "OpenSetSVC"):
        assert type(make_method(name).steps[-1][1]) is names["ossvm"]
    with pytest.raises(ValueError, match="no such method: ossvn; did you mean ossvm"):
        make_method("ossvn")
