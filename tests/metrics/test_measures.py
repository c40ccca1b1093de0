"""Measures of a prediction: worked numbers, independent implementations, identities, edges."""

from fractions import Fraction
from functools import partial
from math import isnan

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from openset import metrics
from openset.metrics import OpenSetCounts

ABC = {"known": list("ABC"), "unknown_label": "U"}
TRUTH, PREDICTION = list("AAAABBCUUU"), list("AAUBBUUUAB")


@pytest.mark.parametrize(
    ("measure", "options", "expected"),
    [
        ("accuracy_known", {}, 3 / 7),
        ("accuracy_unknown", {}, 1 / 3),
        ("normalized_accuracy", {}, 8 / 21),
        ("normalized_accuracy", {"weight": 1.0}, 3 / 7),
        ("normalized_accuracy", {"weight": 0.0}, 1 / 3),
        ("harmonic_normalized_accuracy", {}, 0.375),
        ("false_unknown_rate", {}, 3 / 7),
        ("misclassification_rate", {}, 1 / 7),
        ("open_set_f1", {}, 1 / 3),
        ("open_set_f1", {"average": "macro"}, 1 / 3),
        ("open_set_f1", {"average": "micro"}, 6 / 13),
        ("f1_with_unknown", {"average": "macro"}, 10 / 31),
        ("f1_with_unknown", {"average": "micro"}, 0.4),
    ],
)
def test_worked_example(measure, options, expected):
    got = getattr(metrics, measure)(TRUTH, PREDICTION, **ABC, **options)
    assert type(got) is float
    assert got == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("n_train", "n_test", "expected"),
    [(3, 26, 0.545141), (6, 26, 0.387628), (12, 26, 0.205281), (3, 10, 0.320634)],
)
def test_openness(n_train, n_test, expected):
    assert metrics.openness(n_train, n_test) == pytest.approx(expected, abs=5e-7)
    assert metrics.openness(n_train, n_test, n_train) == metrics.openness(n_train, n_test)


def test_openness_limits():
    assert metrics.openness(7, 7) == 0
    assert metrics.openness(np.int64(2), 4, n_target=4) == pytest.approx(1 - 0.5**0.5)
    assert metrics.openness(1, 10**6) > 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 3), "n_train=0"),
        ((2.5, 3), "n_train=2.5"),
        ((2, "3"), "n_test='3'"),
        ((2, 3, -1), "n_target=-1"),
        ((4, 3), "n_train=4 exceeds n_test=3"),
        ((2, 3, 4), "n_target=4 exceeds n_test=3"),
    ],
)
def test_openness_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.openness(*arguments)


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan"), "0.5", None])
def test_normalized_accuracy_bad_weight(weight):
    with pytest.raises(ValueError, match="weight="):
        metrics.normalized_accuracy(TRUTH, PREDICTION, **ABC, weight=weight)


@pytest.mark.parametrize("measure", [metrics.open_set_f1, metrics.f1_with_unknown])
def test_f_measure_bad_average(measure):
    with pytest.raises(ValueError, match="average='weighted'"):
        measure(TRUTH, PREDICTION, **ABC, average="weighted")


def problem(rng, n=None):
    """Random labels: classes 0..K-1 known, -1 the prediction unknown, others only in the truth."""
    n_known = int(rng.integers(1, 6))
    n = int(rng.integers(1, 25)) if n is None else n
    y_true = rng.integers(0, n_known + rng.integers(0, 4), n)
    y_pred = np.where(rng.random(n) < rng.random(), y_true, rng.integers(-1, n_known, n))
    y_pred[y_pred >= n_known] = -1
    return y_true, y_pred, {"known": np.arange(n_known), "unknown_label": -1}


def reference(y_true, y_pred, n_known):
    """Return the measures straight from their definitions, in exact arithmetic."""
    pairs = [(t if t < n_known else -1, p) for t, p in zip(y_true, y_pred, strict=True)]

    def share(part, whole):
        return Fraction(part, whole) if whole else None

    known = [(t, p) for t, p in pairs if t >= 0]
    unknown = [(t, p) for t, p in pairs if t < 0]
    aks = share(sum(t == p for t, p in known), len(known))
    aus = share(sum(t == p for t, p in unknown), len(unknown))
    out = {
        "accuracy_known": aks,
        "accuracy_unknown": aus,
        "false_unknown_rate": share(sum(p < 0 for _, p in known), len(known)),
        "misclassification_rate": share(sum(p >= 0 and p != t for t, p in known), len(known)),
    }
    if aks is None or aus is None:
        out |= {"normalized_accuracy": None, "harmonic_normalized_accuracy": None}
    else:
        out["normalized_accuracy"] = (aks + aus) / 2
        out["harmonic_normalized_accuracy"] = 2 / (1 / aks + 1 / aus) if aks * aus else 0
    for name, classes in (
        ("open_set_f1", range(n_known)),
        ("f1_with_unknown", [-1, *range(n_known)]),
    ):
        tp = [sum(t == p == c for t, p in pairs) for c in classes]
        fp = [sum(t != c == p for t, p in pairs) for c in classes]
        fn = [sum(t == c != p for t, p in pairs) for c in classes]
        precision = sum(share(a, a + b) or 0 for a, b in zip(tp, fp, strict=True)) / len(tp)
        recall = sum(share(a, a + b) or 0 for a, b in zip(tp, fn, strict=True)) / len(tp)
        total = precision + recall
        out[name, "macro"] = 2 * precision * recall / total if total else 0
        out[name, "micro"] = share(2 * sum(tp), 2 * sum(tp) + sum(fp) + sum(fn)) or 0
    return out


def test_definitions_on_random_labels():
    rng = np.random.default_rng(0)
    for _ in range(500):
        y_true, y_pred, names = problem(rng)
        expected = reference(y_true.tolist(), y_pred.tolist(), len(names["known"]))
        for key, value in expected.items():
            name, options = (key, {}) if isinstance(key, str) else (key[0], {"average": key[1]})
            got = getattr(metrics, name)(y_true, y_pred, **names, **options)
            if value is None:
                assert isnan(got), key
            else:
                assert got == pytest.approx(float(value), abs=1e-14), key


def test_identities_on_random_labels():
    """Ten thousand label vectors: ten predictions of each of a thousand truths."""
    rng = np.random.default_rng(1)
    close = partial(np.testing.assert_allclose, rtol=0, atol=1e-14)
    for _ in range(1000):
        k, n = rng.integers(1, 6), rng.integers(1, 25)
        # only knowns, only unknowns, or both
        true = rng.integers(*rng.choice([(0, k), (k, k + 1), (0, k + 1), (0, k + 1)]), n)
        pred = np.where(rng.random((10, n)) < 0.5, true, rng.integers(0, k + 1, (10, n)))
        counts = OpenSetCounts.from_codes(true, pred, k)
        aks, aus = counts.accuracy_known(), counts.accuracy_unknown()
        na, hna = counts.normalized_accuracy(), counts.harmonic_normalized_accuracy()
        osfm, fm = counts.open_set_f1("micro"), counts.f1_with_unknown("micro")
        n_unknown = np.count_nonzero(true == k)
        n_known = n - n_unknown
        assert np.isnan(aks).all() == (n_known == 0)
        assert np.isnan(aus).all() == (n_unknown == 0)

        close(fm, np.nansum([aks * n_known, aus * n_unknown], axis=0) / n)
        if n_known:
            close(aks + counts.false_unknown_rate() + counts.misclassification_rate(), 1)
            # R_micro = AKS = hits / N_k and P_micro = hits / accepted
            close(osfm, 2 * aks * n_known / (np.count_nonzero(pred < k, axis=1) + n_known))
        if n_known and n_unknown:
            close(na, (aks + aus) / 2)
            close(hna * (aks + aus), 2 * aks * aus)
            np.testing.assert_array_equal(hna == 0, (aks == 0) | (aus == 0))
        else:
            assert np.isnan([na, hna]).all()
        # With AUS = 0, unknown adds a class of precision and recall 0 to the means.
        refused = ~(aus > 0)
        close(
            counts.f1_with_unknown("macro")[refused],
            counts.open_set_f1("macro")[refused] * k / (k + 1),
        )


def test_agreement_with_scikit_learn():
    rng = np.random.default_rng(2)
    for _ in range(50):
        y_true, y_pred, names = problem(rng, n=200)
        known = names["known"]
        relabelled = np.where(np.isin(y_true, known), y_true, -1)
        accuracy = metrics.f1_with_unknown(y_true, y_pred, **names, average="micro")
        assert accuracy == pytest.approx(accuracy_score(relabelled, y_pred), abs=1e-14)

        matrix = metrics.open_set_confusion_matrix(y_true, y_pred, **names)
        labels = [*known, -1]
        np.testing.assert_array_equal(matrix, confusion_matrix(relabelled, y_pred, labels=labels))

        precision, recall, f1, support = precision_recall_fscore_support(
            relabelled, y_pred, labels=labels, zero_division=0
        )
        rows = metrics.open_set_report(y_true, y_pred, **names)["per_class"].values()
        np.testing.assert_allclose([row["precision"] for row in rows], precision)
        np.testing.assert_allclose([row["recall"] for row in rows], recall)
        np.testing.assert_allclose([row["f1"] for row in rows], f1)
        np.testing.assert_array_equal([row["support"] for row in rows], support)

        *_, micro, _ = precision_recall_fscore_support(
            relabelled, y_pred, labels=known, average="micro", zero_division=0
        )
        got = metrics.open_set_f1(y_true, y_pred, **names, average="micro")
        assert got == pytest.approx(micro, abs=1e-14)


def test_order_of_samples_and_classes_does_not_matter():
    rng = np.random.default_rng(3)
    y_true, y_pred, names = problem(rng, n=300)
    shuffled = rng.permutation(300)
    report = metrics.open_set_report(y_true, y_pred, **names)
    other = metrics.open_set_report(
        y_true[shuffled], y_pred[shuffled], known=names["known"][::-1], unknown_label=-1
    )
    # equal up to the order in which class precisions are summed
    assert report.pop("per_class") == other.pop("per_class")
    assert dict(report) == pytest.approx(dict(other), abs=1e-15, nan_ok=True)


@pytest.mark.filterwarnings("error")
def test_no_unknown_samples():
    y_true, y_pred, names = list("AABC"), list("AAUC"), ABC
    report = metrics.open_set_report(y_true, y_pred, **names)
    for name in ("accuracy_unknown", "normalized_accuracy", "harmonic_normalized_accuracy"):
        assert isnan(report[name])
    assert report["accuracy_known"] == 0.75
    assert report["open_set_f1_macro"] == pytest.approx(2 / 3)
    assert report["f1_with_unknown_micro"] == 0.75
    assert report["per_class"]["U"] == {"precision": 0, "recall": 0, "f1": 0, "support": 0}


@pytest.mark.filterwarnings("error")
def test_no_known_samples():
    report = metrics.open_set_report(list("XYZ"), list("UUA"), **ABC)
    undefined = {name for name, value in report.items() if value != value}
    assert undefined == {
        "accuracy_known",
        "normalized_accuracy",
        "harmonic_normalized_accuracy",
        "false_unknown_rate",
        "misclassification_rate",
    }
    assert report["accuracy_unknown"] == pytest.approx(2 / 3)
    assert report["open_set_f1_macro"] == report["open_set_f1_micro"] == 0
    assert report["f1_with_unknown_micro"] == pytest.approx(2 / 3)


@pytest.mark.filterwarnings("error")
def test_a_class_never_predicted_and_a_class_absent_from_the_truth():
    # C is never predicted (precision 0/0), B is absent from the truth (recall 0/0).
    y_true, y_pred = list("AACX"), list("ABUU")
    assert metrics.open_set_f1(y_true, y_pred, **ABC) == pytest.approx(
        2 * (1 / 3) * (1 / 6) / (1 / 3 + 1 / 6)
    )
    assert metrics.open_set_f1(y_true, y_pred, **ABC, average="micro") == pytest.approx(2 / 5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("answer", ["U", "A"])
def test_always_and_never_rejecting(answer):
    y_true = list("ABCX")
    report = metrics.open_set_report(y_true, [answer] * 4, **ABC)
    assert report["harmonic_normalized_accuracy"] == 0
    assert report["accuracy_unknown"] == (answer == "U")
    assert report["false_unknown_rate"] == (answer == "U")


def test_counts_of_many_predictions_at_once():
    rng = np.random.default_rng(4)
    true, pred = rng.integers(0, 4, 50), rng.integers(0, 4, (5, 2, 50))
    together = OpenSetCounts.from_codes(true, pred, 3)
    for cell in np.ndindex(5, 2):
        alone = OpenSetCounts.from_codes(true, pred[cell], 3)
        for measure in (
            OpenSetCounts.accuracy_known,
            OpenSetCounts.accuracy_unknown,
            OpenSetCounts.normalized_accuracy,
            OpenSetCounts.harmonic_normalized_accuracy,
            OpenSetCounts.false_unknown_rate,
            OpenSetCounts.misclassification_rate,
            OpenSetCounts.open_set_f1,
            OpenSetCounts.f1_with_unknown,
        ):
            assert measure(together)[cell] == measure(alone)
        for measure in (OpenSetCounts.open_set_f1, OpenSetCounts.f1_with_unknown):
            assert measure(together, "micro")[cell] == measure(alone, "micro")
