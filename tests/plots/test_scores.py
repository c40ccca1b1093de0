"""Curves, histograms and the confusion matrix, against the measures."""

import numpy as np
import pytest

from openset import metrics
from openset.calibration import KnownRejected, calibrate
from openset.plots import (
    KnownROCDisplay,
    OpenSetConfusionMatrixDisplay,
    OSCRDisplay,
    ScoreHistogramDisplay,
    TrafficDisplay,
)
from openset.traffic import estimate_traffic


@pytest.fixture(scope="module")
def test_set(boat):
    X, y = boat
    rng = np.random.RandomState(1)
    moved = X + rng.normal(0, 0.8, X.shape)  # so that some known samples are confused
    strange = rng.uniform(-9, 9, (60, 2))
    return np.vstack([moved, strange]), np.concatenate([y, np.full(60, 9)])


@pytest.fixture(scope="module")
def labels(bounded):
    return {"known": bounded.classes_, "unknown_label": bounded.unknown_label_}


def test_oscr(bounded, test_set, labels, ax):
    X, y = test_set
    display = OSCRDisplay.from_estimator(bounded, X, y, ax=ax)
    area = metrics.oscr_area(y, bounded.decision_function(X), known=bounded.classes_)
    assert display.area == pytest.approx(area)
    assert f"OpenSetSVC: OSCR area {area:.3f}" == display.legend_.get_texts()[0].get_text()
    y_pred = bounded.predict(X)
    fpr = 1 - metrics.accuracy_unknown(y, y_pred, **labels)
    assert display.operating_point == pytest.approx(
        (fpr, metrics.accuracy_known(y, y_pred, **labels))
    )
    np.testing.assert_allclose(display.point_.get_xydata()[0], display.operating_point)


def test_roc(bounded, test_set, labels, ax):
    X, y = test_set
    display = KnownROCDisplay.from_estimator(bounded, X, y, ax=ax)
    area = metrics.auroc_known(y, bounded.known_score(X), known=bounded.classes_)
    assert display.area == pytest.approx(area)
    y_pred = bounded.predict(X)
    tpr = 1 - metrics.false_unknown_rate(y, y_pred, **labels)
    fpr = 1 - metrics.accuracy_unknown(y, y_pred, **labels)
    assert display.operating_point == pytest.approx((fpr, tpr))


@pytest.mark.parametrize("display", [OSCRDisplay, KnownROCDisplay])
def test_curves_on_the_same_axes_differ(display, svm, bounded, test_set, ax):
    first = display.from_estimator(svm, *test_set, name="one", ax=ax)
    second = display.from_estimator(bounded, *test_set, name="two", ax=ax)
    assert first.ax_ is second.ax_
    assert not np.array_equal(first.line_.get_color(), second.line_.get_color())
    assert first.line_.get_linestyle() != second.line_.get_linestyle()
    names = [text.get_text().partition(":")[0] for text in ax.get_legend().get_texts()]
    assert names == ["one", "two"]


@pytest.mark.parametrize("display", [OSCRDisplay, KnownROCDisplay])
@pytest.mark.parametrize(("kept", "missing"), [([1, 2, 3], "unknown"), ([9], "known")])
def test_curves_need_both_kinds(display, kept, missing, bounded, test_set, ax):
    X, y = test_set
    rows = np.isin(y, kept)
    with pytest.raises(ValueError, match=f"y_true has no {missing} sample"):
        display.from_estimator(bounded, X[rows], y[rows], ax=ax)


@pytest.mark.parametrize("display", [KnownROCDisplay, ScoreHistogramDisplay])
@pytest.mark.parametrize("scores", [[0.1, 0.2], [[0.1, 0.2, 0.3]] * 3, [0.1, np.nan, 0.2]])
def test_bad_scores(display, scores, ax):
    with pytest.raises(ValueError, match="scores"):
        display.from_predictions(["a", "b", "x"], scores, known=["a", "b"], ax=ax)


def test_oscr_wants_a_score_for_each_class(ax):
    with pytest.raises(ValueError, match="one column per class"):
        OSCRDisplay.from_predictions(["a", "x"], [[0.1], [0.2]], known=["a", "b"], ax=ax)


def test_histogram(bounded, test_set, ax):
    X, y = test_set
    display = ScoreHistogramDisplay.from_estimator(bounded, X, y, bins=15, ax=ax)
    scores = bounded.known_score(X)
    np.testing.assert_allclose(display.known_scores, scores[y != 9])
    np.testing.assert_allclose(display.unknown_scores, scores[y == 9])
    for patch, values in zip(
        display.patches_, (display.known_scores, display.unknown_scores), strict=True
    ):
        x, height = patch.get_xy().T
        area = np.abs(np.sum(height[:-1] * np.diff(x)))
        assert area == pytest.approx(1)
        assert x.min() <= values.min() and values.max() <= x.max()
    np.testing.assert_array_equal(display.threshold_.get_xdata(), 0)
    texts = [text.get_text() for text in display.legend_.get_texts()]
    assert texts == ["known, 100 samples", "unknown, 60 samples"]


def test_histogram_of_one_kind(ax):
    display = ScoreHistogramDisplay.from_predictions(
        ["a", "b"], [1.0, 2.0], known=["a", "b"], ax=ax
    )
    assert len(display.patches_) == 1


def test_confusion_matrix(bounded, test_set, labels, ax):
    X, y = test_set
    display = OpenSetConfusionMatrixDisplay.from_estimator(bounded, X, y, ax=ax)
    expected = metrics.open_set_confusion_matrix(y, bounded.predict(X), **labels)
    np.testing.assert_array_equal(display.confusion_matrix, expected)
    written = [[int(text.get_text()) for text in row] for row in display.text_]
    np.testing.assert_array_equal(written, expected)
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert ticks == ["1", "2", "3", "unknown"]
    assert display.borders_[0].get_ydata()[0] == display.borders_[1].get_xdata()[0] == 2.5


def test_confusion_matrix_in_shares(bounded, test_set, ax):
    display = OpenSetConfusionMatrixDisplay.from_estimator(
        bounded, *test_set, normalize="true", ax=ax
    )
    np.testing.assert_allclose(display.confusion_matrix.sum(axis=1), 1)
    assert display.text_[0, 0].get_text() == f"{display.confusion_matrix[0, 0]:.2f}"


def test_confusion_matrix_of_an_empty_row(ax):
    display = OpenSetConfusionMatrixDisplay.from_predictions(
        ["a"], ["a"], known=["a", "b"], unknown_label="?", normalize="true", ax=ax
    )
    np.testing.assert_array_equal(display.confusion_matrix, [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


def test_confusion_matrix_of_many_classes_has_no_numbers(ax):
    display = OpenSetConfusionMatrixDisplay.from_predictions(
        range(15), range(15), known=range(15), unknown_label=-1, ax=ax
    )
    assert display.text_ is None


def test_bad_normalize(bounded, test_set, ax):
    with pytest.raises(ValueError, match="normalize='pred'"):
        OpenSetConfusionMatrixDisplay.from_estimator(bounded, *test_set, normalize="pred", ax=ax)


def test_traffic(bounded, test_set, ax):
    X, y = test_set
    is_known = np.isin(y, bounded.classes_)
    report = estimate_traffic(bounded, X, (X[is_known], y[is_known]))
    display = TrafficDisplay.from_report(report, bins=15, ax=ax)
    texts = [text.get_text() for text in display.legend_.get_texts()]
    n, n_known = len(X), int(is_known.sum())
    assert texts[0] == f"traffic, {n:,} rows" and texts[2] == "threshold"
    assert texts[1].endswith(f"({n_known:,} calibration rows)")
    assert f"about {report.unknown_share:.1%} unknown" in ax.get_title()
    assert f"at least {report.unknown_at_least:.1%}" in ax.get_title()
    # The areas are shares of the traffic; a step has its height twice.
    for patch, share in ((display.traffic_, 1), (display.known_, 1 - report.unknown_share)):
        heights = np.histogram(
            report.traffic_scores if share == 1 else report.calibration_scores,
            np.unique(patch.get_xy()[:, 0]),
        )[0]
        assert patch.get_xy()[:, 1].max() == pytest.approx(share * heights.max() / heights.sum())


def test_traffic_of_classes_with_different_thresholds(bounded, test_set, ax):
    X, y = test_set
    is_known = np.isin(y, bounded.classes_)
    point = KnownRejected(0.2, within="class")
    model = calibrate(bounded, X[is_known], y[is_known], criterion=point)
    display = TrafficDisplay.from_estimator(model, X, ax=ax)
    low, high = display.threshold_.get_x(), display.threshold_.get_width()
    assert low == pytest.approx(model.thresholds_.min())
    assert high == pytest.approx(np.ptp(model.thresholds_))
