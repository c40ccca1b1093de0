"""The 1-vs-Set machine against its authors' program, a search by brute force and its own facts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from openset.svm import OneVsRestSVC, OneVsSetMachine
from openset.svm._one_vs_set import slab_scores
from openset.svm._planes import find_slab, risk


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


def risk_of(scores, positive, near, far, weight=None):
    weight = np.ones(len(scores)) if weight is None else weight
    inside = (scores >= near) & (scores <= far)
    spread = max(np.ptp(scores[positive]), 1e-4)
    found, retrieved = weight[inside & positive].sum(), weight[inside].sum()
    return risk(far - near, spread, found, retrieved, weight[positive].sum())


def test_worked_risk():
    assert_allclose(risk(1.7, 1.2, 8.0, 10.0, 9.0), 1.416667 + 1 + 2.375, atol=1e-6)
    assert risk(1.0, 1.0, 0.0, 5.0, 9.0) == 1e99
    assert risk(0.0, 1.0, 1.0, 1.0, 1.0) == risk(1e-4, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("name", ["onevset_1", "onevset_2"])
def test_reference_scores_with_the_planes_of_the_file(baselines, name):
    problem, methods, X, y, train, test = baselines
    expected = methods[name]["tight"]
    model = OneVsSetMachine(tol=1e-8).fit(X[train], y[train])
    order = np.searchsorted(model.classes_, expected["label_order"])
    assert_allclose(-model.intercept_[order], expected["rho"], atol=1e-4)
    near, far = np.array(expected["alpha_near_plane"]), np.array(expected["omega_far_plane"])
    scores = slab_scores(model.raw_scores(X[test])[:, order], near, far)
    assert_allclose(scores[:50], expected["first50"]["scores"], atol=1e-4)
    labels = np.array(expected["label_order"])[scores.argmax(axis=1)]
    answers = np.where(scores.max(axis=1) >= 0, labels, -1)
    assert_array_equal(answers[:50], expected["first50"]["label_with_rejection"])
    known = np.isin(y[test], problem["known_classes"])
    counts = expected["all_test_rows"]
    assert (answers == y[test])[known].sum() == counts["known_correct"]
    assert (answers == -1)[known].sum() == counts["known_rejected"]
    assert (answers == -1)[~known].sum() == counts["unknown_rejected"]


@pytest.mark.parametrize("search", ["exhaustive", "greedy"])
@pytest.mark.parametrize("name", ["onevset_1", "onevset_2"])
def test_the_risk_is_no_larger_than_in_the_reference(baselines, name, search):
    _, methods, X, y, train, _ = baselines
    expected = methods[name]["tight"]
    model = OneVsSetMachine(search=search, tol=1e-8).fit(X[train], y[train])
    scores = model.raw_scores(X[train])
    for label, near, far in zip(
        expected["label_order"],
        expected["alpha_near_plane"],
        expected["omega_far_plane"],
        strict=True,
    ):
        c = np.flatnonzero(model.classes_ == label)[0]
        f, own = scores[:, c], y[train] == label
        # A sample that lies on a plane must not fall out by rounding.
        ours = risk_of(f, own, model.near_[c] - 1e-5, model.far_[c] + 1e-5)
        theirs = risk_of(f, own, near - 1e-5, far + 1e-5)
        assert ours <= theirs + 1e-5


def test_pressures_act_as_in_the_reference(baselines):
    """Where both found the same planes, both move them to the same place."""
    _, methods, X, y, train, _ = baselines
    free, pressed = methods["onevset_1"]["tight"], methods["onevset_2"]["tight"]
    assert "-G 0.5 1 " in pressed["train_options"]
    model = OneVsSetMachine(tol=1e-8).fit(X[train], y[train])
    order = np.searchsorted(model.classes_, free["label_order"])
    for plane, key, least in (
        ("near_", "alpha_near_plane", 2),
        ("far_", "omega_far_plane", 4),
    ):
        model.set_params(p_near=0.0, p_far=0.0)
        same = np.abs(getattr(model, plane)[order] - free[key]) < 1e-4
        assert same.sum() >= least
        model.set_params(p_near=0.5, p_far=1.0)
        moved = getattr(model, plane)[order]
        assert_allclose(moved[same], np.array(pressed[key])[same], atol=1e-4)
        assert np.abs(moved - free[key])[same].min() > 1e-3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_no_pair_of_planes_is_better(seed, weighted):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 50)
    positive = np.append([True, False], rng.random(n - 2) < 0.4)
    scores = np.where(positive, rng.normal(0.3, 1, n), rng.normal(-1, 0.8, n)).round(1)  # ties
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    values = np.unique(scores)
    best = min(
        risk_of(scores, positive, near, far, weight)
        for i, near in enumerate(values)
        for far in values[i:]
    )
    slab = find_slab(scores, positive, weight, 1e-5, greedy=False)
    assert_allclose(risk_of(scores, positive, slab.near, slab.far, weight), best, rtol=1e-12)
    local = find_slab(scores, positive, weight, 1e-5, greedy=True)
    assert risk_of(scores, positive, local.near, local.far, weight) >= best - 1e-12


@pytest.mark.parametrize(
    ("scores", "signs", "slab"),
    [
        # negative below, positive at the planes, nothing above
        ([-1.0, 0.5, 1.5], [-1, 1, 1], (0.5, 1.5, -0.75, 0.5)),
        # nothing below either: the near plane moves by half the spread
        ([0.5, 1.5], [1, 1], (0.5, 1.5, -0.5, 0.5)),
        # a negative just above the slab: the far plane stays
        ([-1.0, 0.5, 1.5, 9.0], [-1, 1, 1, -1], (0.5, 1.5, -0.75, 0.0)),
    ],
)
def test_pressure_slopes(scores, signs, slab):
    found = find_slab(np.array(scores), np.array(signs) > 0, np.ones(len(signs)), 1e-5, False)
    assert_allclose([found.near, found.far, found.near_slope, found.far_slope], slab)


def test_slab_scores():
    f = np.array([[-2.0], [0.0], [0.5], [1.0], [1.5], [2.0], [3.0]])
    expected = [-1.0, 0.0, 0.25, 0.5, 0.25, 0.0, -0.5]
    assert_allclose(slab_scores(f, np.array([0.0]), np.array([2.0]))[:, 0], expected)
    for far in (0.0, -1.0):  # planes that coincide or have crossed
        assert_array_equal(slab_scores(f, np.array([0.0]), np.array([far])), -1.0)


def test_the_machine_is_a_linear_svm(iris):
    X, y = iris
    model = OneVsSetMachine(C=0.5, tol=1e-7).fit(X, y)
    plain = OneVsRestSVC(C=0.5, kernel="linear", tol=1e-7).fit(X, y)
    assert_allclose(model.raw_scores(X), plain.decision_function(X))
    for c, label in enumerate(model.classes_):
        svm = SVC(C=0.5, kernel="linear", tol=1e-8).fit(X, y == label)
        assert_allclose(model.raw_scores(X)[:, c], svm.decision_function(X), atol=1e-3)


def test_pressures_act_without_a_new_fit(iris):
    X, y = iris
    model = OneVsSetMachine().fit(X, y)
    near, far = model.near_, model.far_
    for p_near, p_far in [(0.125, 4.0), (2.0, 0.0), (-0.3, -0.2)]:
        fresh = OneVsSetMachine(p_near=p_near, p_far=p_far).fit(X, y)
        model.set_params(p_near=p_near, p_far=p_far)
        assert_array_equal(model.decision_function(X), fresh.decision_function(X))
        assert np.all(np.sign(near - model.near_) * np.sign(p_near) >= 0)
        assert np.all(np.sign(model.far_ - far) * np.sign(p_far) >= 0)


def test_a_slab_is_not_bounded_but_less_than_a_half_space(iris):
    X, y = iris
    model = OneVsSetMachine(p_near=0.1, p_far=0.1).fit(X, y)
    assert not model.bounded_.any()
    w = model.dual_coef_ @ model.support_vectors_
    inside = np.array([X[(model.predict_set(X)[:, c])][0] for c in range(3)])
    rng = np.random.default_rng(0)
    for c in range(3):
        along = rng.normal(size=(20, 4))
        along -= np.outer(along @ w[c] / (w[c] @ w[c]), w[c])  # parallel to the planes
        assert model.predict_set(inside[c] + 1e4 * along)[:, c].all()
        across = inside[c] + np.outer([-1e4, 1e4], w[c])
        assert not model.predict_set(across)[:, c].any()


def test_in_one_dimension_a_slab_is_bounded():
    X = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]])
    model = OneVsSetMachine(p_far=1.0).fit(X, [0, 0, 0, 1, 1, 1])
    assert model.bounded_.all()
    assert not model.predict_set([[-1e6], [1e6]]).any()
    assert model.predict([[1.0]])[0] == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"search": "random"}, "'search' parameter"),
        ({"p_near": np.inf}, "'p_near' parameter"),
        ({"p_far": "high"}, "'p_far' parameter"),
        ({"C": 0.0}, "'C' parameter"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        OneVsSetMachine(**parameters).fit(*iris)


def test_it_needs_two_classes_and_has_no_kernel(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least 2 classes"):
        OneVsSetMachine().fit(X[:50], y[:50])
    with pytest.raises(TypeError, match="kernel"):
        OneVsSetMachine(kernel="rbf")
