"""The Extreme Value Machine against the reference solutions, a plain version and invariants."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.stats import weibull_min
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset.evt import ExtremeValueMachine
from openset.solver import points as engine
from openset.utils.estimator_checks import check_open_set_estimator


class FileOrder(ExtremeValueMachine):
    """The reference takes the first row of the file among points that cover equally many."""

    def _order(self, X, radius):
        return np.arange(len(X))


def reference_machine(entry, **changes):
    parameters = entry["parameters"]
    return FileOrder(
        tail_size=parameters["tailsize"],
        cover_threshold=parameters["cover_threshold"],
        n_fused=parameters["num_to_fuse"],
        margin_factor=parameters["margin_scale"],
        metric=parameters["distance"],
    ).set_params(**changes)


@pytest.mark.parametrize("n_features", [2, 80])
def test_the_order_of_the_rows_does_not_matter(n_features):
    # Integers: many distances are equal, and many points cover equally many others.
    rng = np.random.default_rng(n_features)
    X, y = rng.integers(0, 4, size=(80, n_features)).astype(float), rng.integers(0, 3, 80)
    scores = ExtremeValueMachine(tail_size=20).fit(X, y).decision_function(X)
    for _ in range(5):
        order = rng.permutation(80)
        permuted = ExtremeValueMachine(tail_size=20).fit(X[order], y[order])
        assert_allclose(permuted.decision_function(X), scores, atol=1e-9)


def test_the_estimator_checks_pass_with_defaults():
    check_open_set_estimator(ExtremeValueMachine())


@pytest.mark.parametrize("name", ["evm_1", "evm_2"])
def test_reference_weibull_models(baselines, name):
    _, methods, X, y, train, _ = baselines
    entry = methods[name]
    machine = reference_machine(entry, cover_threshold=1.0).fit(X[train], y[train])
    position = {int(row): i for i, row in enumerate(train[machine.extreme_index_])}
    for models in entry["weibull_first5_training_points_of_each_class"].values():
        for model in models:
            ours = machine.weibull_[position[model["file_row"]]]
            assert_allclose(ours.scale, model["scale"], rtol=1e-4)
            assert_allclose(ours.shape, model["shape"], rtol=1e-4)
            assert_allclose(ours.location, -model["small_score"], rtol=1e-9)


@pytest.mark.parametrize("name", ["evm_1", "evm_2"])
def test_reference_answers(baselines, name):
    problem, methods, X, y, train, test = baselines
    entry = methods[name]
    machine = reference_machine(entry).fit(X[train], y[train])
    assert machine.classes_.tolist() == entry["label_order"]
    assert machine.n_extreme_.tolist() == list(entry["n_extreme_vectors_per_class"].values())
    if entry["kept_file_rows_in_model_order"] is not None:
        assert train[machine.extreme_index_].tolist() == entry["kept_file_rows_in_model_order"]

    first = X[test[:50]]
    probabilities = np.array(entry["first50"]["probabilities"])
    assert_allclose(machine.inclusion_proba(first), probabilities, atol=1e-5)
    assert machine.predict_known(first).tolist() == entry["first50"]["argmax_label"]
    for threshold in (0.05, 0.5, 0.95):
        rejected = probabilities.max(axis=1) < threshold
        expected = np.where(rejected, -1, entry["first50"]["argmax_label"])
        assert_array_equal(machine.set_params(threshold=threshold).predict(first), expected)

    counts = entry["all_test_rows"]
    known = np.isin(y[test], problem["known_classes"])
    correct = machine.predict_known(X[test]) == y[test]
    assert correct[known].sum() == counts["argmax_correct_on_known"]
    answers = machine.set_params(threshold=0.5).predict(X[test])
    assert (answers == y[test])[known].sum() == counts["at_threshold_0_5"]["known_correct"]
    assert (answers == -1)[~known].sum() == counts["at_threshold_0_5"]["unknown_rejected"]


def plain_survivor_proba(X, y, Z, tail_size, n_fused, margin_factor):
    """The form of the article, fitted by SciPy, without model reduction."""
    columns = []
    for label in np.unique(y):
        points = []
        for x in X[y == label]:
            margins = np.sort(margin_factor * cdist([x], X[y != label])[0])[:tail_size]
            shape, _, scale = weibull_min.fit(margins, floc=0)
            points.append(weibull_min.sf(cdist([x], Z)[0], shape, scale=scale))
        largest = np.sort(points, axis=0)[::-1]
        columns.append(largest[:n_fused].mean(axis=0))
    return np.column_stack(columns)


def test_survivor_form_against_scipy():
    X, y = load_iris(return_X_y=True)
    X, y = X[::4], y[::4]
    Z = np.random.default_rng(0).uniform(X.min(axis=0), X.max(axis=0), size=(30, 4))
    machine = ExtremeValueMachine(
        tail_size=8, cover_threshold=1, n_fused=3, weibull="survivor", margin_factor=0.6
    )
    expected = plain_survivor_proba(X, y, Z, tail_size=8, n_fused=3, margin_factor=0.6)
    assert_allclose(machine.fit(X, y).inclusion_proba(Z), expected, atol=1e-4)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return MinMaxScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.parametrize("weibull", ["libmr", "survivor"])
def test_extreme_vectors_cover_their_class(iris, weibull):
    X, y = iris
    machine = ExtremeValueMachine(tail_size=20, cover_threshold=0.3, n_fused=1, weibull=weibull)
    machine.fit(X, y)
    everything = clone(machine).set_params(cover_threshold=1).fit(X, y)
    assert machine.n_extreme_.sum() < everything.n_extreme_.sum() == len(X)
    assert_array_equal(X[machine.extreme_index_], machine.extreme_vectors_)
    stops = np.cumsum(machine.n_extreme_)
    for c, (start, stop) in enumerate(pairwise(np.r_[0, stops])):
        assert np.all(y[machine.extreme_index_[start:stop]] == machine.classes_[c])
    own = machine.classes_ == y[:, None]
    covered = machine.inclusion_proba(X)[own] >= 0.3 - 1e-12
    kept = np.isin(np.arange(len(X)), machine.extreme_index_)
    assert np.all(covered | kept)


@pytest.mark.parametrize("weibull", ["libmr", "survivor"])
def test_bounded(iris, weibull):
    X, y = iris
    machine = ExtremeValueMachine(weibull=weibull, threshold=0.01).fit(X, y)
    assert machine.bounded_.all()
    directions = np.random.default_rng(0).normal(size=(200, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for radius in (1e2, 1e6, 1e12, 1e200):
        far = X.mean(axis=0) + radius * directions
        assert not machine.predict_set(far).any()
        assert np.all(np.isfinite(machine.decision_function(far)))
    assert not machine.set_params(threshold=0).bounded_.any()
    assert machine.predict_set(far).all()
    assert not clone(machine).set_params(threshold=0.5, metric="cosine").fit(X, y).bounded_.any()


def test_probability_is_zero_beyond_one_plus_the_tail(iris):
    X, y = iris
    machine = ExtremeValueMachine(n_fused=1).fit(X, y)
    reach = 1 + machine.weibull_.location
    Z = np.random.default_rng(1).uniform(-4, 5, size=(500, 4))
    beyond = np.all(cdist(Z, machine.extreme_vectors_) > reach, axis=1)
    assert beyond.any()
    assert_array_equal(machine.inclusion_proba(Z[beyond]), 0.0)


def test_cosine_does_not_see_lengths(iris):
    X, y = iris
    X = X + 0.1
    machine = ExtremeValueMachine(metric="cosine").fit(X, y)
    lengths = np.random.default_rng(0).uniform(0.1, 1e3, size=(len(X), 1))
    assert_allclose(machine.inclusion_proba(lengths * X), machine.inclusion_proba(X), atol=1e-9)
    same = clone(machine).fit(lengths * X, y)
    assert_allclose(same.inclusion_proba(X), machine.inclusion_proba(X), atol=1e-6)


def test_blocks_and_threads_change_nothing(iris, monkeypatch):
    X, y = iris
    expected = ExtremeValueMachine(tail_size=10).fit(X, y).inclusion_proba(X)
    threaded = ExtremeValueMachine(tail_size=10, n_jobs=2).fit(X, y).inclusion_proba(X)
    assert_array_equal(threaded, expected)
    monkeypatch.setattr(engine, "BLOCK", 500)
    blocks = ExtremeValueMachine(tail_size=10, n_jobs=2).fit(X, y).inclusion_proba(X)
    assert_array_equal(blocks, expected)


def test_duplicates_and_ties():
    """Equal points in two classes, and tails of equal margins, as on binary features."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(120, 5)).astype(float)
    y = rng.integers(0, 3, size=120)
    for weibull in ("libmr", "survivor"):
        machine = ExtremeValueMachine(tail_size=3, weibull=weibull).fit(X, y)
        p = machine.inclusion_proba(np.vstack([X, X + 0.3, 0 * X + 9]))
        assert np.all((p >= 0) & (p <= 1))
        assert np.all(machine.inclusion_proba(0 * X + 9) < 1e-6)


def test_tails_of_one_and_of_all():
    X = np.array([[0.0], [1.0], [5.0]])
    machine = ExtremeValueMachine(tail_size=1000).fit(X, [0, 0, 1])
    # The points of class 0 see one margin each, the extreme vector at 0 one of 2.5: a step there.
    assert_array_equal(np.isinf(machine.weibull_.shape), [True, False])
    assert machine.predict([[0.5], [2.5], [-2.6], [4.0], [9.0]]).tolist() == [0, 0, -1, 1, -1]


def test_threshold_is_subtracted_and_needs_no_fit(iris):
    X, y = iris
    machine = ExtremeValueMachine(threshold=0.2).fit(X, y)
    assert_array_equal(machine.raw_scores(X), machine.inclusion_proba(X))
    assert machine.search_spec.after_fit == ("threshold",)
    for threshold in (0.0, 0.4):
        machine.set_params(threshold=threshold)
        assert_array_equal(machine.decision_function(X), machine.raw_scores(X) - threshold)


def test_pickle_and_pipeline(iris):
    X, y = iris
    pipeline = make_pipeline(MinMaxScaler(), ExtremeValueMachine(n_fused=1)).fit(X, y)
    loaded = pickle.loads(pickle.dumps(pipeline))
    assert_array_equal(loaded.decision_function(X), pipeline.decision_function(X))
    answers = pipeline.predict(np.vstack([X, X + 40]))
    assert set(answers[len(X) :]) == {"unknown"}
    assert np.mean(answers[: len(X)] == y) > 0.9


@pytest.mark.parametrize(
    "bad",
    [
        {"tail_size": 0},
        {"tail_size": 2.5},
        {"cover_threshold": 0},
        {"cover_threshold": 1.5},
        {"n_fused": 0},
        {"threshold": -0.1},
        {"threshold": 1.1},
        {"metric": "manhattan"},
        {"weibull": "gumbel"},
        {"margin_factor": 0},
        {"n_jobs": 1.5},
    ],
)
def test_bad_parameters(iris, bad):
    X, y = iris
    with pytest.raises(ValueError, match=f"'{next(iter(bad))}' parameter"):
        ExtremeValueMachine(**bad).fit(X, y)


def test_bad_input(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least 2 classes"):
        ExtremeValueMachine().fit(X, ["one"] * len(X))
    with pytest.raises(ValueError, match="NaN"):
        ExtremeValueMachine().fit(np.full_like(X, np.nan), y)
    with pytest.raises(NotFittedError):
        ExtremeValueMachine().inclusion_proba(X)
    assert not hasattr(ExtremeValueMachine(), "bounded_")
    with pytest.raises(ValueError, match="features"):
        ExtremeValueMachine().fit(X, y).predict(X[:, :3])
