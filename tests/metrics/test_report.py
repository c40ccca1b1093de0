"""The report holds what the single functions return, and prints it."""

import json
import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from openset import OSNN, metrics


def report_of(unknown_label=-1):
    y_true, y_pred = [1, 1, 1, 1, 2, 2, 3, 9, 9, 8], [1, 1, -1, 2, 2, -1, -1, -1, 1, 2]
    arguments = y_true, y_pred
    names = {"known": np.array([1, 2, 3]), "unknown_label": unknown_label}
    return metrics.open_set_report(*arguments, **names), arguments, names


def test_report_repeats_the_functions():
    report, arguments, names = report_of()
    for name, value in report.items():
        if name != "per_class":
            function, options = name, {}
            if name.endswith(("_macro", "_micro")):
                function, _, average = name.rpartition("_")
                options = {"average": average}
            assert value == getattr(metrics, function)(*arguments, **names, **options), name
    assert len(report) == 11


def test_per_class():
    per_class = report_of()[0]["per_class"]
    assert list(per_class) == [1, 2, 3, -1]
    expected = {"precision": 2 / 3, "recall": 1 / 2, "f1": 4 / 7, "support": 4}
    assert per_class[1] == pytest.approx(expected)
    assert [row["support"] for row in per_class.values()] == [4, 2, 1, 3]


def test_report_is_a_plain_dict_for_others():
    report = report_of(unknown_label=np.int64(-1))[0]
    assert isinstance(report, dict)
    assert json.loads(json.dumps(report))["per_class"]["-1"]["support"] == 3
    assert pickle.loads(pickle.dumps(report)) == report


def test_table_has_a_row_per_class_and_measure():
    report = report_of()[0]
    lines = str(report).splitlines()
    assert len(lines) == 1 + 10 + 1 + 1 + 4
    assert lines[0].split() == ["measure", "value"]  # the summary comes first
    assert lines[12].split() == ["class", "precision", "recall", "f1", "support"]
    assert lines[13].split() == ["1", "0.6667", "0.5000", "0.5714", "4"]
    assert lines[16].split() == ["-1", "(unknown)", "0.2500", "0.3333", "0.2857", "3"]
    assert len({len(line) for line in lines[12:]}) == 1
    for name, value in report.items():
        if name != "per_class":
            assert [name, f"{value:.4f}"] in [line.split() for line in lines]


def test_table_with_undefined_measures():
    report = metrics.open_set_report(["a"], ["a"], known=["a"], unknown_label="unknown")
    lines = [line.split() for line in str(report).splitlines()]
    assert ["normalized_accuracy", "nan"] in lines
    assert ["unknown", "0.0000", "0.0000", "0.0000", "0"] in lines


def test_many_classes_show_the_worst():
    known = np.arange(30)
    y_true = np.repeat(known, 10)
    y_pred = np.where(np.arange(300) % 10 < y_true // 3, -1, y_true)  # later classes are worse
    report = metrics.open_set_report(y_true, y_pred, known=known, unknown_label=-1)
    lines = str(report).splitlines()
    shown = [int(line.split()[0]) for line in lines[13:23]]
    f1 = {label: row["f1"] for label, row in report["per_class"].items() if label >= 0}
    assert sorted(f1[label] for label in shown) == sorted(f1.values())[:10]
    assert lines[-1] == "the 10 classes with the lowest f1 of 30; as_text(None) shows all"
    assert len(report.as_text(None).splitlines()) == 1 + 10 + 1 + 1 + 30 + 1


def test_of_a_model():
    X, y = load_iris(return_X_y=True)
    known = y < 2
    model = OSNN().fit(X[known], y[known])
    names = {"known": model.classes_, "unknown_label": model.unknown_label_}
    expected = metrics.open_set_report(y, model.predict(X), **names)
    assert metrics.open_set_report(model, X, y) == expected
    piped = make_pipeline(FunctionTransformer(), model)
    assert metrics.open_set_report(piped, X, y) == expected
    with pytest.raises(ValueError, match=r"leave them out of open_set_report\(model, X, y\)"):
        metrics.open_set_report(model, X, y, **names)
    with pytest.raises(ValueError, match="also needs known and unknown_label"):
        metrics.open_set_report(y, model.predict(X))


def test_confusion_matrix_follows_the_order_of_known():
    y_true, y_pred = ["a", "a", "b", "x", "y"], ["a", "?", "a", "?", "b"]
    matrix = metrics.open_set_confusion_matrix(y_true, y_pred, known=["b", "a"], unknown_label="?")
    np.testing.assert_array_equal(matrix, [[0, 1, 0], [0, 1, 1], [1, 0, 1]])
