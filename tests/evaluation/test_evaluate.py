"""One method on one split: the result agrees with what its parts give when called by hand."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openset import OneVsRestSVC, OpenSetSearchCV, OpenSetSVC, metrics
from openset.evaluation import Evaluation, draw_split, evaluate_method


@pytest.fixture(scope="module")
def data():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


def test_by_hand(data):
    X, y = data
    split = draw_split(y, 6, random_state=0)
    search = OpenSetSearchCV(OpenSetSVC(), {"gamma": [0.1, 1.0]}, random_state=1)
    result = evaluate_method(search, X, y, split)
    model = search.fit(X[split.train], y[split.train])
    assert result.fitted.params == model.best_params_
    answers = model.predict(X[split.test])
    np.testing.assert_array_equal(result.evaluation.answers, answers)
    labels = {"known": split.known, "unknown_label": -1}
    report = metrics.open_set_report(y[split.test], answers, **labels)
    for name in ("accuracy_known", "normalized_accuracy", "f1_with_unknown_macro"):
        assert result.measures[name] == report[name]
    np.testing.assert_array_equal(
        result.evaluation.confusion_matrix,
        metrics.open_set_confusion_matrix(y[split.test], answers, **labels),
    )
    assert result.fitted.n_rows == len(split.train)
    np.testing.assert_array_equal(result.bounded, model.bounded_)
    assert min(result.fitted.seconds_search, result.fitted.seconds_fit, result.seconds_predict) > 0


def test_agrees_with_counting():
    # Three known samples, one of them refused; two unknown ones, one of them accepted.
    scores = np.array([[1.0, -1], [-1, 2], [-1, -1], [-2, -1], [0, -1]])
    truth = np.array(["a", "b", "b", "x", "y"])
    found = Evaluation(truth, scores, np.array(["a", "b"])).measures
    assert found["accuracy_known"] == pytest.approx(2 / 3)
    assert found["accuracy_unknown"] == 0.5
    assert found["normalized_accuracy"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert found["harmonic_normalized_accuracy"] == pytest.approx(2 / (3 / 2 + 2))
    assert found["false_unknown_rate"] == pytest.approx(1 / 3)


def test_measures_that_are_not_defined_are_left_out():
    classes = np.array(["a", "b"])
    found = Evaluation(classes, np.array([[1.0, -1], [-1, -1]]), classes).measures
    assert found["accuracy_known"] == 0.5
    assert "accuracy_unknown" not in found and "oscr_area" not in found
    assert np.isfinite(list(found.values())).all()


def test_an_estimator_without_search(data):
    X, y = data
    result = evaluate_method(OneVsRestSVC(gamma=0.5), X, y, draw_split(y, 4, random_state=3))
    assert result.fitted.params == {} and result.fitted.search is None
