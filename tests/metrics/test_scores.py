"""Measures of scores, against scikit-learn and against counting pairs."""

from math import isnan

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from openset import metrics

KNOWN = ["a", "b", "c"]


def problem(seed, n=200, ties=False):
    rng = np.random.default_rng(seed)
    y_true = rng.choice(["a", "b", "c", "x", "y"], n)
    scores = rng.normal(size=(n, 3))
    for k, label in enumerate(KNOWN):
        scores[y_true == label, k] += 1
    if ties:
        scores = np.round(scores)
    return y_true, scores, np.isin(y_true, KNOWN)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_auroc_agrees_with_scikit_learn(seed, ties):
    y_true, scores, is_known = problem(seed, ties=ties)
    got = metrics.auroc_known(y_true, scores.max(axis=1), known=KNOWN)
    assert type(got) is float
    assert got == pytest.approx(roc_auc_score(is_known, scores.max(axis=1)), abs=1e-13)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("tpr", [0.05, 0.5, 0.95, 1.0])
def test_fpr_agrees_with_the_roc_curve(tpr, ties):
    y_true, scores, is_known = problem(0, ties=ties)
    score = scores.max(axis=1)
    fpr, true_positive_rate, _ = roc_curve(is_known, score, drop_intermediate=False)
    expected = fpr[true_positive_rate >= tpr].min()
    assert metrics.fpr_at_tpr(y_true, score, known=KNOWN, tpr=tpr) == pytest.approx(expected)


def test_fpr_at_a_tpr_that_rounds_up():
    # 0.07 * 100 is above 7 in floating point, yet 7 of 100 knowns are enough.
    y_true = ["a"] * 100 + ["x"]
    scores = [*range(100, 0, -1), 93.5]
    assert metrics.fpr_at_tpr(y_true, scores, known=["a"], tpr=0.07) == 0
    assert metrics.fpr_at_tpr(y_true, scores, known=["a"], tpr=0.08) == 1


def test_fpr_at_95_by_hand():
    y_true = ["a"] * 20 + ["x"] * 4
    scores = [*range(20), 0.5, 1.0, 0.9, 30.0]
    # 19 of 20 knowns score 1 or more, and so do two of four unknowns.
    assert metrics.fpr_at_tpr(y_true, scores, known=["a"]) == 0.5


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_oscr_area_counts_pairs(seed, ties):
    y_true, scores, is_known = problem(seed, ties=ties)
    score = scores.max(axis=1)
    right = np.array([KNOWN[k] for k in scores.argmax(axis=1)]) == y_true
    gaps = score[is_known][:, np.newaxis] - score[~is_known]
    wins = np.where(gaps > 0, 1.0, np.where(gaps == 0, 0.5, 0.0)) * right[is_known][:, np.newaxis]
    assert metrics.oscr_area(y_true, scores, known=KNOWN) == pytest.approx(wins.mean(), abs=1e-13)


def test_oscr_curve_follows_its_definition():
    y_true, scores, is_known = problem(3, ties=True)
    score = scores.max(axis=1)
    right = np.array([KNOWN[k] for k in scores.argmax(axis=1)]) == y_true
    fpr, ccr, thresholds = metrics.oscr_curve(y_true, scores, known=KNOWN)
    assert thresholds[0] == np.inf
    np.testing.assert_array_equal(thresholds[1:], np.unique(score)[::-1])
    for threshold, a, b in zip(thresholds, fpr, ccr, strict=True):
        assert a == pytest.approx(np.mean(score[~is_known] >= threshold))
        assert b == pytest.approx(np.mean((right & (score >= threshold))[is_known]))
    assert (fpr[0], ccr[0], fpr[-1]) == (0, 0, 1)
    assert ccr[-1] == pytest.approx(np.mean(right[is_known]))


def test_oscr_area_is_the_auroc_when_the_classes_are_never_confused():
    y_true, scores, is_known = problem(4)
    codes = np.array([KNOWN.index(label) if label in KNOWN else 0 for label in y_true])
    level = scores.max(axis=1)
    scores = np.where(np.arange(3) == codes[:, np.newaxis], level[:, np.newaxis], -9)
    area = metrics.oscr_area(y_true, scores, known=KNOWN)
    assert area == pytest.approx(roc_auc_score(is_known, level), abs=1e-13)


def test_oscr_columns_follow_the_order_of_known():
    y_true, scores, _ = problem(5)
    area = metrics.oscr_area(y_true, scores, known=KNOWN)
    assert metrics.oscr_area(y_true, scores[:, ::-1], known=KNOWN[::-1]) == area
    assert metrics.oscr_area(y_true, scores[:, ::-1], known=KNOWN) < area


def test_oscr_with_one_class():
    assert metrics.oscr_area(["a", "a", "x"], [[2.0], [0.0], [1.0]], known=["a"]) == 0.5


def test_monotone_maps_change_nothing():
    y_true, scores, _ = problem(6)
    for measure, given in (
        (metrics.auroc_known, scores.max(axis=1)),
        (metrics.fpr_at_tpr, scores.max(axis=1)),
        (metrics.oscr_area, scores),
    ):
        assert measure(y_true, np.exp(given), known=KNOWN) == measure(y_true, given, known=KNOWN)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("y_true", [["a", "b"], ["x", "y"]], ids=["no unknown", "no known"])
def test_undefined(y_true):
    matrix = np.eye(2, 3)
    assert isnan(metrics.auroc_known(y_true, [1, 2], known=KNOWN))
    assert isnan(metrics.fpr_at_tpr(y_true, [1, 2], known=KNOWN))
    assert isnan(metrics.oscr_area(y_true, matrix, known=KNOWN))
    fpr, ccr, _ = metrics.oscr_curve(y_true, matrix, known=KNOWN)
    assert np.isnan(fpr).all() == (y_true == ["a", "b"])
    assert np.isnan(ccr).all() == (y_true == ["x", "y"])


@pytest.mark.parametrize("measure", [metrics.auroc_known, metrics.fpr_at_tpr])
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0], r"shape \(1,\), expected \(2,\)"),
        ([[1.0, 2.0], [1.0, 2.0]], "one known_score per sample"),
        ([1.0, float("nan")], "NaN or infinity"),
        ([1.0, float("inf")], "NaN or infinity"),
        (["p", "q"], "scores must be numbers"),
        (None, "scores"),
    ],
)
def test_bad_scores(measure, scores, message):
    with pytest.raises(ValueError, match=message):
        measure(["a", "x"], scores, known=KNOWN)


@pytest.mark.parametrize("measure", [metrics.oscr_curve, metrics.oscr_area])
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0, 2.0], r"shape \(2,\), expected \(2, 3\)"),
        ([[1.0, 2.0], [1.0, 2.0]], "one column per class"),
        ([[1.0, 2.0, float("nan")]] * 2, "NaN or infinity"),
        ([[1.0, 2.0, 3.0], [1.0]], "scores must be numbers"),
    ],
)
def test_bad_oscr_scores(measure, scores, message):
    with pytest.raises(ValueError, match=message):
        measure(["a", "x"], scores, known=KNOWN)


@pytest.mark.parametrize("tpr", [0, -0.5, 1.5, float("nan"), "0.95"])
def test_bad_tpr(tpr):
    with pytest.raises(ValueError, match="tpr="):
        metrics.fpr_at_tpr(["a", "x"], [1.0, 0.0], known=KNOWN, tpr=tpr)
