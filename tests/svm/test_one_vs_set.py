"""The 1-vs-Set machine against its authors' program, a search by brute force and its own facts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from openset.svm import OneVsRestSVC, OneVsSetMachine


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


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
