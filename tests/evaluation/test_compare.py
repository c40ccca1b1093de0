"""Several methods on the same splits: what the harness finds is what its parts give."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import OSNN, CalibratedRejector, ExtremeValueMachine, OpenSetSVC
from openset.evaluation import (
    ComparedMethod,
    compare_methods,
    comparison_splits,
    confidence_interval,
    fit_method,
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


def test_what_has_no_default_grid_is_fitted_as_it_is(data):
    """A search of scikit-learn, a calibrated method; on the pairs of rows of a splitter."""
    X, y = data
    methods = {
        "calibrated": CalibratedRejector(OpenSetSVC(lam=0.1), alpha=0.2),
        "grid": GridSearchCV(OpenSetSVC(), {"lam": [0.1, 0.3]}, cv=3),
    }
    splits = list(OpenSetSplit(2, random_state=0).split(X, y))
    compared = compare_methods(methods, X, y, splits, random_state=7)
    assert {method.error for method in compared} == {""}
    for method in compared:
        for k, (train, test) in enumerate(splits):
            model = clone(methods[method.name])
            if method.name == "calibrated":
                model.set_params(random_state=7 + k)
            scores = model.fit(X[train], y[train]).decision_function(X[test])
            np.testing.assert_array_equal(method.results[k].evaluation.scores, scores)


def test_rows_for_tuning_of_a_search_without_a_seed(data):
    grid = GridSearchCV(OpenSetSVC(), {"lam": [0.1, 0.3]}, cv=2)
    assert fit_method(grid, *data, max_tuning_rows=60).n_tuning_rows == 60
    grid.set_params(scoring=["accuracy", "f1_macro"], refit="f1_macro")
    assert fit_method(grid, *data).params["lam"] in (0.1, 0.3)


def test_bad_measure_and_no_splits(data):
    X, y = data
    pairs = OpenSetSplit(1, random_state=0).split(X, y)
    with pytest.raises(ValueError, match=r"measure='NA' is not one of .*'normalized_accuracy'"):
        compare_methods({"OSNN": _osnn()}, X, y, pairs, measure="NA")
    with pytest.raises(ValueError, match="splits is empty"):
        compare_methods({"OSNN": _osnn()}, X, y, pairs)
