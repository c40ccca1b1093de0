"""Every measure reads labels in the same way, whatever their type."""

import numpy as np
import pytest

from openset import metrics

PREDICTION_MEASURES = [
    metrics.accuracy_known,
    metrics.accuracy_unknown,
    metrics.normalized_accuracy,
    metrics.harmonic_normalized_accuracy,
    metrics.false_unknown_rate,
    metrics.misclassification_rate,
    metrics.open_set_f1,
    metrics.f1_with_unknown,
    metrics.open_set_confusion_matrix,
    metrics.open_set_report,
]
SCORE_MEASURES = [
    metrics.auroc_known,
    metrics.fpr_at_tpr,
    metrics.oscr_curve,
    metrics.oscr_area,
]


# The ten samples of the worked example; X, Y and Z are three unknown classes.
TRUTH, PREDICTION, KNOWN = list("AAAABBCXYZ"), list("AAUBBUUUAB"), list("ABC")
MATRIX = [[2, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1], [1, 1, 0, 1]]

BIG = 2**60  # neighbours of this are one number in float64
RENAMINGS = {
    "int": dict(zip("ABCUXYZ", [3, 1, 2, -1, 7, 8, -1], strict=True)),
    "float": dict(zip("ABCUXYZ", [0.5, 1.5, 2.0, -1.0, 7.0, 8.0, 9.0], strict=True)),
    "big int": dict(zip("ABCUXYZ", [BIG, BIG + 1, BIG + 2, BIG + 3, BIG + 4, 0, 1], strict=True)),
    "bool and int": dict(zip("ABCUXYZ", [True, False, 2, -1, 3, 4, 5], strict=True)),
    "mixed": dict(zip("ABCUXYZ", [1, "1", (1,), None, "None", 1.5, "x"], strict=True)),
}


@pytest.mark.parametrize("names", RENAMINGS.values(), ids=RENAMINGS)
def test_labels_are_only_names(names):
    y_true, y_pred, known = ([names[c] for c in labels] for labels in (TRUTH, PREDICTION, KNOWN))
    matrix = metrics.open_set_confusion_matrix(
        y_true, y_pred, known=known, unknown_label=names["U"]
    )
    np.testing.assert_array_equal(matrix, MATRIX)


@pytest.mark.parametrize("dtype", [None, object, "U1", "U9", np.dtypes.StringDType()])
def test_string_arrays(dtype):
    def array(labels):
        return labels if dtype is None else np.array(labels, dtype=dtype)

    matrix = metrics.open_set_confusion_matrix(
        array(TRUTH), array(PREDICTION), known=array(KNOWN), unknown_label=np.str_("U")
    )
    np.testing.assert_array_equal(matrix, MATRIX)


@pytest.mark.parametrize("dtype", ["str", "string", "object", "category"])
def test_pandas_series(dtype):
    pd = pytest.importorskip("pandas")
    matrix = metrics.open_set_confusion_matrix(
        pd.Series(TRUTH, dtype=dtype, index=range(10, 20)),
        pd.Series(PREDICTION, dtype=dtype),
        known=pd.Index(KNOWN),
        unknown_label="U",
    )
    np.testing.assert_array_equal(matrix, MATRIX)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float32])
def test_numeric_arrays_of_different_dtype(dtype):
    y_true = np.array([0, 1, 2, 5], dtype=dtype)
    matrix = metrics.open_set_confusion_matrix(
        y_true, np.array([0, 1, -1, -1]), known=[0, 1, 2], unknown_label=-1
    )
    np.testing.assert_array_equal(matrix.diagonal(), [1, 1, 0, 1])


def test_a_string_is_never_taken_for_a_number():
    assert metrics.accuracy_unknown(["1", "2"], [-1, -1], known=[1, 2], unknown_label=-1) == 1
    with pytest.raises(ValueError, match="'1'"):
        metrics.accuracy_known([1], ["1"], known=[1, 2], unknown_label=-1)


def test_true_labels_may_already_be_the_unknown_label():
    relabelled = [c if c in KNOWN else "U" for c in TRUTH]
    for measure in PREDICTION_MEASURES:
        got = measure(relabelled, PREDICTION, known=KNOWN, unknown_label="U")
        expected = measure(TRUTH, PREDICTION, known=KNOWN, unknown_label="U")
        np.testing.assert_equal(got, expected)


@pytest.mark.parametrize("measure", PREDICTION_MEASURES)
@pytest.mark.parametrize(
    ("y_true", "y_pred", "known", "unknown_label", "message"),
    [
        ("ab", "aq", "ab", "?", "'q', which is neither in known nor unknown_label='\\?'"),
        ("ab", "ab", "ab", "a", "unknown_label='a' is also in known"),
        ("ab", "aba", "ab", "?", "same length; got 2 and 3"),
        ("", "", "ab", "?", "y_true is empty"),
        ("a", "", "ab", "?", "y_pred is empty"),
        ("ab", "ab", "", "?", "known is empty"),
        ("ab", "ab", "aba", "?", "known contains a class twice"),
        (["a", float("nan")], "aa", "ab", "?", "y_true contains missing values"),
        ("ab", "aa", ["a", float("nan")], "?", "known contains a missing value"),
        ("ab", ["a", float("nan")], "ab", "?", "y_pred contains nan"),
        ("ab", "aa", "ab", float("nan"), "unknown_label must be a label"),
        ("ab", "aa", "ab", ["?"], "unknown_label must be a label"),
        ([["a"], ["b"]], "ab", "ab", "?", "y_true must be a 1-D sequence"),
        (np.array([["a"], ["b"]]), "ab", "ab", "?", "1-D .* got shape \\(2, 1\\).*ravel"),
        (3, "ab", "ab", "?", "y_true must be a 1-D sequence"),
        ("ab", "ab", {"a", "b"}, "?", "known is a set, which has no order; pass a list"),
        ("ab", [["a"], ["b"]], "ab", "?", "y_pred must be a 1-D sequence"),
        ("ab", "ab", [["a"], ["b"]], "?", "known must be a 1-D sequence"),
    ],
)
def test_bad_labels(measure, y_true, y_pred, known, unknown_label, message):
    y_true, y_pred, known = (list(v) if isinstance(v, str) else v for v in (y_true, y_pred, known))
    with pytest.raises(ValueError, match=message):
        measure(y_true, y_pred, known=known, unknown_label=unknown_label)


@pytest.mark.parametrize("measure", PREDICTION_MEASURES)
def test_a_bare_string_is_no_sequence_of_labels(measure):
    with pytest.raises(ValueError, match="y_true must be a 1-D sequence"):
        measure("ab", ["a", "b"], known=["a", "b"], unknown_label="?")


@pytest.mark.parametrize("measure", SCORE_MEASURES)
@pytest.mark.parametrize(
    ("y_true", "known", "message"),
    [
        ([], ["a", "b"], "y_true is empty"),
        (["a", "b"], [], "known is empty"),
        (["a", "b"], ["a", "a"], "known contains a class twice"),
        (["a", float("nan")], ["a", "b"], "y_true contains missing values"),
    ],
)
def test_bad_labels_with_scores(measure, y_true, known, message):
    with pytest.raises(ValueError, match=message):
        measure(y_true, [0.0, 1.0], known=known)


def test_pandas_missing_values_are_refused():
    pd = pytest.importorskip("pandas")
    for missing in (pd.NA, pd.NaT):
        with pytest.raises(ValueError, match="missing"):
            metrics.accuracy_known(["a", missing], ["a", "?"], known=["a"], unknown_label="?")


def test_a_data_frame_is_no_sequence_of_labels():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="y_true must be a 1-D sequence"):
        metrics.accuracy_known(pd.DataFrame({"a": [1]}), ["a"], known=["a"], unknown_label="?")


def test_encode_labels_gives_the_number_of_classes_to_unknown_labels():
    codes = metrics.encode_labels(TRUTH, KNOWN)
    np.testing.assert_array_equal(codes, [0, 0, 0, 0, 1, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(metrics.encode_labels(["1", 1], [1, 2]), [2, 0])


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        (["a", float("nan")], ["a"], "y contains missing values"),
        ("ab", ["a"], "y must be a 1-D sequence"),
        (["a"], ["a", "a"], "classes contains a class twice"),
        (["a"], [], "classes is empty"),
    ],
)
def test_encode_labels_names_its_arguments(y, classes, message):
    with pytest.raises(ValueError, match=message):
        metrics.encode_labels(y, classes)


def test_harmonic_mean_of_zero_and_of_nan():
    mean = metrics.harmonic_mean([0.5, 0.0, 1.0, np.nan], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(mean, [2 / 3, 0, 0, np.nan])
