"""The one decision rule on given scores, the unknown label, and the validation of fit."""

import warnings
from enum import Enum

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from openset.base import (
    OpenSetClassifier,
    resolve_unknown_label,
    validate_samples,
    validate_training_data,
)


class Colour(str, Enum):  # noqa: UP042 - which NumPy takes for what it is
    RED, BLUE = "red", "sky"


class GivenScores(OpenSetClassifier):
    """The rows of X are the scores."""

    def __init__(self, unknown_label="auto"):
        self.unknown_label = unknown_label

    def fit(self, X, y, sample_weight=None):
        self.fitted_ = validate_training_data(self, X, y, sample_weight)
        return self

    def decision_function(self, X):
        return validate_samples(self, X)


SCORES = np.array(
    [
        [1.0, -1.0, -2.0],
        [-1.0, 0.0, -2.0],  # zero accepts
        [-1e-300, -1.0, -2.0],  # the next number below does not
        [2.0, 3.0, 3.0],  # several accept: the highest, the first on ties
        [-1.0, -3.0, -1.0],  # none does; the first on ties is the closed-set answer
        [0.0, 0.0, 0.0],
        [-0.0, -1.0, -1.0],  # minus zero is zero
    ]
)


@pytest.fixture
def model():
    return GivenScores().fit(np.eye(3), ["a", "b", "c"])


class TestDecisionRule:
    def test_predict(self, model):
        answers = ["a", "b", "unknown", "b", "unknown", "a", "a"]
        assert model.predict(SCORES).tolist() == answers

    def test_predict_known(self, model):
        assert model.predict_known(SCORES).tolist() == ["a", "b", "a", "b", "a", "a", "a"]

    def test_predict_set(self, model):
        accepted = model.predict_set(SCORES)
        assert accepted.dtype == bool
        assert accepted.astype(int).tolist() == [
            [1, 0, 0],
            [0, 1, 0],
            [0, 0, 0],
            [1, 1, 1],
            [0, 0, 0],
            [1, 1, 1],
            [1, 0, 0],
        ]

    def test_known_score(self, model):
        assert model.known_score(SCORES).tolist() == [1.0, 0.0, -1e-300, 3.0, -1.0, 0.0, 0.0]

    def test_an_empty_set_is_unknown(self, model):
        empty = ~model.predict_set(SCORES).any(axis=1)
        np.testing.assert_array_equal(model.predict(SCORES) == model.unknown_label_, empty)

    def test_accuracy_counts_unknown_as_wrong(self, model):
        assert model.score(SCORES[:3], ["a", "b", "a"]) == pytest.approx(2 / 3)

    @pytest.mark.parametrize(
        ("y", "sample_weight"), [(["a"], None), (["a"] * 2, None), (["a"] * 3, [1.0, 2.0])]
    )
    def test_accuracy_of_other_lengths(self, model, y, sample_weight):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.score(SCORES[:3], y, sample_weight)

    def test_it_is_a_classifier(self, model):
        assert is_classifier(model)

    @pytest.mark.parametrize("method", ["predict", "predict_known", "predict_set", "known_score"])
    def test_not_fitted(self, method):
        with pytest.raises(NotFittedError):
            getattr(GivenScores(), method)(SCORES)


class TestUnknownLabel:
    @pytest.mark.parametrize(
        ("classes", "label"),
        [
            ([0, 1], -1),
            ([-3, 5], -1),
            ([-1], -2),
            ([-9, -1, 4], -10),
            ([0.0, 1.0], -1.0),
            ([-1.0, 1.0], -2.0),
            ([False, True], -1),
            (["cat", "dog"], "unknown"),
            (["unknown"], "unknown_"),
            (["unknown", "unknown_", "unknown__"], "unknown___"),
        ],
    )
    def test_auto(self, classes, label):
        found = resolve_unknown_label("auto", np.array(classes))
        assert found == label and type(found) is type(label)

    @pytest.mark.parametrize(
        ("label", "classes"),
        [(7, [0, 1]), (-2.5, [0, 1]), (np.int8(5), [0, 1]), ("none", ["a", "b"]), (2, [0.0, 1.0])],
    )
    def test_explicit(self, label, classes):
        assert resolve_unknown_label(label, np.array(classes)) is label

    @pytest.mark.parametrize(
        ("label", "classes", "message"),
        [
            (1, [0, 1], "unknown_label=1 is also a class"),
            (1.0, [0, 1], "unknown_label=1.0 is also a class"),
            (True, [0, 1], "unknown_label=True is also a class"),
            ("b", ["a", "b"], "unknown_label='b' is also a class"),
            ("x", [0, 1], "different kinds"),
            (-1, ["a", "b"], "different kinds"),
            (None, [0, 1], "different kinds"),
            (None, ["a", "b"], "different kinds"),
            ([1], [0, 1], "different kinds"),
            (np.nan, [0, 1], "not equal to itself"),
            (np.nan, [0.0, 1.0], "not equal to itself"),
        ],
    )
    def test_refused(self, label, classes, message):
        with pytest.raises(ValueError, match=message):
            resolve_unknown_label(label, np.array(classes))

    def test_auto_needs_strings_or_numbers(self):
        dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")
        with pytest.raises(ValueError, match="pass unknown_label"):
            resolve_unknown_label("auto", dates)


class TestAnswers:
    """No label is cut, rounded or wrapped on its way into the array of answers."""

    @pytest.mark.parametrize(
        ("y", "unknown_label", "dtype"),
        [
            (np.array([0, 1], dtype=np.int8), "auto", "int8"),
            (np.array([0, 1], dtype=np.int8), 300, "int64"),
            (np.array([-128, -1], dtype=np.int8), "auto", "int64"),
            (np.array([0, 255], dtype=np.uint8), "auto", "int64"),
            (np.array([0, 2**63], dtype=np.uint64), "auto", "object"),
            (np.array([0, 1]), 2**70, "object"),
            (np.array([0, 1]), 0.5, "float64"),
            (np.array([0, 1]), np.float32(0.5), "float64"),
            (np.array([False, True]), "auto", "int64"),
            (np.array([False, True]), 0.5, "float64"),
            (np.array([0, 1], dtype=np.float32), "auto", "float64"),
            (np.array(["a", "b"]), "auto", "<U7"),
            (np.array(["a", "b"]), "nobody we know", "<U14"),
            (np.array(["a", "b"], dtype=object), "auto", "object"),
            (pd.Series(["a", "b"]), "auto", "object"),
            (pd.Series(["a", "b"], dtype="string"), "auto", "object"),
            (pd.Series(["a", "b"], dtype="category"), "auto", "object"),
            (pd.Series([1, 2], dtype="category"), "auto", "int64"),
        ],
    )
    def test_dtype(self, y, unknown_label, dtype):
        model = GivenScores(unknown_label).fit(np.eye(2), y)
        answers = model.predict([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
        assert answers.dtype == np.dtype(dtype)
        assert answers.tolist() == [*np.asarray(y).tolist(), model.unknown_label_]


class TestFit:
    def test_classes_are_sorted_and_codes_point_into_them(self):
        model = GivenScores().fit(np.eye(4), ["b", "a", "c", "a"])
        X, codes, weight, kept = model.fitted_
        assert model.classes_.tolist() == ["a", "b", "c"]
        assert codes.tolist() == [1, 0, 2, 0]
        assert X.dtype == np.float64 and weight.tolist() == [1.0] * 4
        assert kept.tolist() == [0, 1, 2, 3]

    def test_rows_of_weight_zero_are_dropped_before_classes_are_counted(self):
        model = GivenScores().fit(np.eye(4), ["b", "a", "c", "a"], [1.0, 0.0, 0.0, 2.0])
        X, codes, weight, kept = model.fitted_
        assert model.classes_.tolist() == ["a", "b"]
        np.testing.assert_array_equal(X, np.eye(4)[[0, 3]])
        assert codes.tolist() == [1, 0]
        assert weight.tolist() == [1.0, 2.0]
        assert kept.tolist() == [0, 3]

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (None, "GivenScores requires y"),
            (["a", 1, "a", 1], r"Unknown label type.*\['int', 'str'\].*strings"),
            (np.array(["a", 1, "a", 1], dtype=object), r"\['int', 'str'\]"),
            (np.array([1, "a", 1, "a"], dtype=object), r"\['int', 'str'\]"),
            (np.array(["a", None, "a", "b"], dtype=object), r"\['NoneType', 'str'\]"),
            (pd.Series(["a", None, "a", "b"]), "a missing label is neither"),
            (pd.Series(["a", None, "a", "b"], dtype="string"), "a missing label is neither"),
            (pd.Series(["a", None, "a", "b"], dtype="category"), "a missing label is neither"),
            (np.array([1, 2, 1, 2], dtype=object), "y to an array of numbers"),
            (np.array(["2020", "2021"] * 2, dtype="datetime64[Y]"), "Convert it to strings"),
            (np.array([b"a", b"b"] * 2), "Convert it to strings"),
            (
                [Colour.RED, Colour.BLUE] * 2,
                "<Colour.RED: 'red'> would become 'Col'.*plain strings",
            ),
            ([0.5, 1.5, 0.1, 0.2], "Unknown label type: continuous"),
            ([0.0, 1.0, np.nan, 1.0], "NaN"),
            ([[0, 1]] * 4, "1d array"),
            ([0, 1, 0], "inconsistent numbers of samples"),
            ([], "inconsistent|0 sample"),
        ],
    )
    def test_bad_labels(self, y, message):
        with pytest.raises(ValueError, match=message):
            GivenScores().fit(np.eye(4), y)

    @pytest.mark.parametrize("dtype", [int, float, str, object])
    def test_one_sample_per_class_is_no_regression(self, dtype):
        y = np.arange(30).astype(str if dtype is object else dtype).astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(GivenScores().fit(np.eye(30), y).classes_) == 30

    @pytest.mark.parametrize(
        ("weight", "message"),
        [
            ([0.0, 0.0], "zero"),
            ([1.0, -1.0], "Negative values.*sample_weight"),
            ([1.0, np.nan], "sample_weight contains NaN"),
            ([1.0], "sample_weight.shape"),
        ],
    )
    def test_bad_weights(self, weight, message):
        with pytest.raises(ValueError, match=message):
            GivenScores().fit(np.eye(2), [0, 1], weight)

    def test_too_few_classes(self):
        message = r"GivenScores needs at least 2 classes; y has 1 class: \['a'\]"
        with pytest.raises(ValueError, match=message):
            validate_training_data(GivenScores(), np.eye(2), ["a", "a"], min_classes=2)

    def test_sparse_input_is_refused_unless_allowed(self):
        with pytest.raises(TypeError, match=r"[Ss]parse"):
            GivenScores().fit(csr_matrix(np.eye(2)), [0, 1])
        X, *_ = validate_training_data(
            GivenScores(), csr_matrix(np.eye(2)), [0, 1], accept_sparse="csr"
        )
        assert X.shape == (2, 2) and X.dtype == np.float64
