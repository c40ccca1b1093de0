"""Measures of a prediction: worked numbers, independent implementations, identities, edges."""

from fractions import Fraction
from math import isnan

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from openset import metrics
from openset.metrics._counts import Counts

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


def close(a, b):
    return abs(a - b) <= 1e-14


def test_identities_on_random_labels():
    rng = np.random.default_rng(1)
    for _ in range(10_000):
        y_true, y_pred, names = problem(rng)
        report = metrics.open_set_report(y_true, y_pred, **names)
        aks, aus = report["accuracy_known"], report["accuracy_unknown"]
        is_known = np.isin(y_true, names["known"])
        n_known, n_unknown = np.count_nonzero(is_known), np.count_nonzero(~is_known)
        osfm = report["open_set_f1_macro"], report["open_set_f1_micro"]
        fm = report["f1_with_unknown_macro"], report["f1_with_unknown_micro"]
        assert all(0 <= f <= 1 for f in (*osfm, *fm))
        pooled = np.nansum([aks * n_known, aus * n_unknown]) / len(y_true)
        assert close(fm[1], pooled)
        assert isnan(aks) == (n_known == 0)
        assert isnan(aus) == (n_unknown == 0)
        if n_known:
            errors = report["false_unknown_rate"] + report["misclassification_rate"]
            assert close(aks + errors, 1)
            # R_micro = AKS = hits / N_k and P_micro = hits / accepted
            accepted = np.count_nonzero(y_pred != -1)
            hits = aks * n_known
            assert close(osfm[1], 2 * hits / (accepted + n_known))
        if n_known and n_unknown:
            na, hna = report["normalized_accuracy"], report["harmonic_normalized_accuracy"]
            assert close(na, (aks + aus) / 2)
            assert min(aks, aus) - 1e-14 <= hna <= na + 1e-14
            assert (hna == 0) == (aks == 0 or aus == 0)
        else:
            assert isnan(report["normalized_accuracy"])
            assert isnan(report["harmonic_normalized_accuracy"])
        if not aus > 0:  # unknown adds a class of precision and recall 0 to the means
            k = len(names["known"])
            assert close(fm[0], k / (k + 1) * osfm[0])


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
    together = Counts.from_codes(true, pred, 3)
    for cell in np.ndindex(5, 2):
        alone = Counts.from_codes(true, pred[cell], 3)
        for measure in (
            Counts.accuracy_known,
            Counts.accuracy_unknown,
            Counts.normalized_accuracy,
            Counts.harmonic_normalized_accuracy,
            Counts.false_unknown_rate,
            Counts.misclassification_rate,
            Counts.open_set_f1,
            Counts.f1_with_unknown,
        ):
            assert measure(together)[cell] == measure(alone)
        for measure in (Counts.open_set_f1, Counts.f1_with_unknown):
            assert measure(together, "micro")[cell] == measure(alone, "micro")
