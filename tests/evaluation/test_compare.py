"""Several methods on the same splits: what the harness finds is what its parts give."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import OSNN, ExtremeValueMachine, OpenSetSVC
from openset.evaluation import (
    ComparedMethod,
    compare_methods,
    comparison_splits,
    confidence_interval,
    paired_differences,
    rows_within,
)
from openset.metrics import normalized_accuracy
from openset.model_selection import OpenSetSearchCV, OpenSetSplit


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs(120, n_features=3, centers=6, cluster_std=2.0, random_state=0)
    return X, np.array(list("UVWXYZ"))[y]


def _osnn():
    return make_pipeline(MinMaxScaler(), OSNN())


@pytest.fixture(scope="module")
def compared(data):
    methods = {
        "OSNN": _osnn(),
        "twin": OpenSetSearchCV(_osnn(), n_repeats=3),
        "EVM": make_pipeline(MinMaxScaler(), ExtremeValueMachine()),
        "broken": make_pipeline(MinMaxScaler(), OpenSetSVC(kernel="nonsense")),
    }
    splits = comparison_splits(data[1], 3, random_state=5)
    return compare_methods(methods, *data, splits, random_state=5)


def _named(compared, name):
    return next(method for method in compared if method.name == name)


def test_the_seed_decides(data):
    one, two, other = (
        compare_methods(
            {"OSNN": _osnn()},
            *data,
            comparison_splits(data[1], 2, random_state=seed),
            random_state=seed,
        )[0].values("oscr_area")
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, two)
    assert np.all(one != other)


def test_results_are_what_the_parts_give(data, compared):
    # The protocol once more, by hand.
    X, y = data
    splits = OpenSetSplit(3, n_known=3, random_state=5).simulate(y)
    expected = []
    for repeat, split in enumerate(splits):
        search = OpenSetSearchCV(_osnn(), n_repeats=3, random_state=5 + repeat)
        search.fit(X[split.fit], y[split.fit])
        labels = {"known": search.classes_, "unknown_label": search.unknown_label_}
        answers = search.predict(X[split.validation])
        expected.append(normalized_accuracy(y[split.validation], answers, **labels))
    osnn = _named(compared, "OSNN")
    np.testing.assert_allclose(osnn.values("normalized_accuracy"), expected)
    # The model of the first split is kept.
    first, *others = osnn.results
    assert set(first.fitted.model.classes_) == set(splits[0].known)
    assert all(result.fitted.model is None for result in others)


def test_methods_get_the_same_splits(compared):
    for measure in ("normalized_accuracy", "oscr_area", "auroc_known"):
        np.testing.assert_array_equal(
            _named(compared, "OSNN").values(measure), _named(compared, "twin").values(measure)
        )


def test_order_and_failures(compared):
    *ranked, last = compared
    assert last.name == "broken" and "nonsense" in last.error and not last.results
    means = [method.values("normalized_accuracy").mean() for method in ranked]
    assert means == sorted(means, reverse=True)


def test_curves_have_the_area_of_the_measure(compared):
    grid = np.linspace(0.0, 1.0, 201)
    for method in compared[:3]:
        for result in method.results:
            for named, area in ((True, "oscr_area"), (False, "auroc_known")):
                curve = result.evaluation.curve_at(grid, named=named)
                assert np.all(np.diff(curve) >= 0)
                np.testing.assert_allclose(
                    np.trapezoid(curve, grid), result.measures[area], atol=0.01
                )


def method(name, *accuracies):
    """A compared method with these normalized accuracies, and answers that depend on its name."""
    scores = np.array([[1.0 if ord(name) >> bit & 1 else -1.0] for bit in range(7)])
    evaluation = SimpleNamespace(scores=scores)
    return ComparedMethod(
        name,
        [
            SimpleNamespace(measures={"normalized_accuracy": value}, evaluation=evaluation)
            for value in accuracies
        ],
    )


def test_rows_follow_the_time(data):
    X, y = data
    how = {"pilot_rows": 40, "n_repeats": 1}

    def rows(seconds):
        return rows_within(
            {"OSNN": _osnn()},
            X,
            y,
            lambda y: comparison_splits(y, 2, random_state=0),
            seconds,
            **how,
        )

    assert rows(1e-9) == 40
    assert rows(1e9) == len(y) > 40


def test_intervals_hold_for_all_methods_at_once():
    others = [method("B", 0.8, 0.4, 0.5), method("C", 0.7, 0.5, 0.2)]
    first = method("A", 0.9, 0.5, 0.7)
    alone = paired_differences([first, others[0]])["B"][1]
    assert paired_differences([first, *others])["B"][1] > alone


def test_intervals():
    # Three values, t = 4.3027 for two degrees of freedom (a printed table).
    mean, half = confidence_interval(np.array([1.0, 2.0, 3.0]))
    assert mean == 2.0
    np.testing.assert_allclose(half, 4.3027 / np.sqrt(3), rtol=1e-4)


def test_differences_are_paired():
    # B is behind by 0.1 on every split, however much the splits differ among themselves.
    gap, half = paired_differences([method("A", 0.9, 0.5, 0.7), method("B", 0.8, 0.4, 0.6)])["B"]
    np.testing.assert_allclose([gap, half], [0.1, 0.0], atol=1e-12)


@pytest.mark.parametrize("n_classes, n_known", [(3, 2), (4, 3), (5, 3), (6, 3), (7, 4), (26, 13)])
def test_number_of_known_classes(n_classes, n_known):
    (split,) = comparison_splits(np.repeat(np.arange(n_classes), 4), 1, random_state=0)
    assert len(split.known) == n_known


def test_two_classes_are_too_few():
    with pytest.raises(ValueError, match="needs at least 3"):
        comparison_splits(np.repeat([0, 1], 9))
