"""PI-SVM against the authors' program, another SVM with another Weibull fit, and its own facts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import weibull_min
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from openset.evt import PISVM


def mixed():
    """A few samples of class 0 among many of class 1, whose bias is positive."""
    rng = np.random.default_rng(0)
    X = np.append(3.0 * rng.normal(size=60), 1.5 * rng.normal(size=8))
    return X[:, None], np.repeat([1, 0], [60, 8])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.parametrize(("name", "gamma"), [("pisvm_1", 2.0), ("pisvm_2", 0.5)])
def test_reference(baselines, name, gamma):
    problem, methods, X, y, train, test = baselines
    expected, check = methods[name]["tight"], methods[name]["independent_check"]["per_class"]
    assert f"-g {gamma} " in expected["train_options"] and expected["predict_options"] == "-P 0.1"
    model = PISVM(gamma=gamma, threshold=0.1, tol=1e-9).fit(X[train], y[train])
    order = np.searchsorted(model.classes_, expected["label_order"])
    assert_allclose(-model.intercept_[order], expected["rho"], atol=1e-4)
    for tail, ours, other in zip(
        expected["weibull_positive_tail"], model.weibull_[order], check, strict=True
    ):
        assert other["positive_tail"]["spread"] > 1e-3
        assert_allclose([ours.scale, ours.shape], [tail["scale"], tail["shape"]], rtol=1e-4)
        assert_allclose(ours.location, -tail["small_score"], atol=1e-5)

    first = X[test[:50]]
    scores = model.inclusion_proba(first)[:, order]
    assert_allclose(scores, expected["first50"]["scores"], atol=1e-5)
    assert_array_equal(model.predict_known(first), expected["first50"]["argmax_label"])
    assert_array_equal(model.predict(first), expected["first50"]["label_with_rejection"])
    known = np.isin(y[test], problem["known_classes"])
    answers, counts = model.predict(X[test]), expected["all_test_rows"]
    assert (answers == y[test])[known].sum() == counts["known_correct"]
    assert (answers == -1)[known].sum() == counts["known_rejected"]
    assert (answers == -1)[~known].sum() == counts["unknown_rejected"]


def test_against_another_svm_and_another_fit(iris):
    X, y = iris
    Z = np.random.default_rng(0).uniform(X.min(axis=0), X.max(axis=0), size=(60, 4))
    model = PISVM(C=2.0, gamma=0.4, tail_size=12, tol=1e-8).fit(X, y)
    for c, label in enumerate(model.classes_):
        svm = SVC(C=2.0, gamma=0.4, tol=1e-8).fit(X, y == label)
        tail = np.sort(svm.decision_function(X[y == label]))[:12]
        shape, _, scale = weibull_min.fit(1 + tail[-1] - tail, floc=0)
        z = np.maximum(0, 1 + tail[-1] - svm.decision_function(Z))
        expected = weibull_min.sf(z, shape, scale=scale)
        assert_allclose(model.inclusion_proba(Z)[:, c], expected, atol=1e-4)


def test_the_threshold_acts_without_a_new_fit(iris):
    X, y = iris
    model = PISVM(gamma=0.4, threshold=0.0).fit(X, y)
    P = model.inclusion_proba(X)
    far = X + 1e3
    assert np.all(model.predict(far) != model.unknown_label_)  # 0 never rejects
    assert not model.bounded_.any()
    for threshold in (0.2, 0.9):
        model.set_params(threshold=threshold)
        assert_array_equal(model.predict(X) == model.unknown_label_, P.max(axis=1) < threshold)
        assert_allclose(model.decision_function(X), P - threshold)


def test_priors_multiply(iris):
    X, y = iris
    plain = PISVM(gamma=0.4).fit(X, y)
    prior = {"setosa": 0.5, "versicolor": 1.0, "virginica": 0.1}
    model = PISVM(gamma=0.4, class_prior=prior).fit(X, y)
    assert_allclose(model.prior_, [0.5, 1.0, 0.1])
    assert_allclose(model.inclusion_proba(X), plain.inclusion_proba(X) * model.prior_)
    far = plain.weibull_.probability(plain.intercept_)
    threshold = 0.5 * far[2]
    assert not plain.set_params(threshold=threshold).bounded_[2]
    assert model.set_params(threshold=threshold).bounded_[2]


@pytest.mark.parametrize("threshold", [1e-4, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("gamma", [0.01, 1.0, 10.0])
def test_bounded_is_what_a_walk_far_away_finds(gamma, threshold):
    model = PISVM(gamma=gamma, threshold=threshold).fit(*mixed())
    walk = np.array([[-1e5], [-1e3], [1e3], [1e5]])
    assert_array_equal(model.predict_set(walk), np.tile(~model.bounded_, (4, 1)))


def test_bounded_depends_on_the_threshold():
    model = PISVM(gamma=10.0).fit(*mixed())
    far = model.weibull_.probability(model.intercept_)
    assert np.all((far > 1e-6) & (far < 0.998)) and model.intercept_[1] > 0
    for c in (0, 1):
        assert not model.set_params(threshold=far[c] * 0.999).bounded_[c]
        assert not model.set_params(threshold=far[c]).bounded_[c]
        assert model.set_params(threshold=far[c] * 1.001).bounded_[c]


def test_the_linear_kernel_is_never_bounded(iris):
    assert not PISVM(kernel="linear", threshold=1.0).fit(*iris).bounded_.any()


def test_scores_that_are_all_on_the_margin_give_a_step():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 1000])
    y = np.repeat([0, 1], 30)
    model = PISVM(gamma=5.0, C=100.0, tail_size=5).fit(X, y)
    assert np.all(np.isinf(model.weibull_.shape))
    assert_array_equal(model.predict(X), y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"threshold": 1.1}, "'threshold' parameter"),
        ({"threshold": -0.1}, "'threshold' parameter"),
        ({"tail_size": 1}, "'tail_size' parameter"),
        ({"tail_factor": 0.0}, "'tail_factor' parameter"),
        ({"class_prior": {"setosa": 0.5}}, "class_prior is a dict for the classes"),
        (
            {"class_prior": {"setosa": 0.5, "versicolor": 0.0, "virginica": 0.5}},
            r"class_prior\['versicolor'\] must be",
        ),
        ({"C": 0}, "'C' parameter"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        PISVM(**parameters).fit(*iris)


def test_it_needs_two_classes_and_takes_no_weights(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least 2 classes"):
        PISVM().fit(X[:50], y[:50])
    with pytest.raises(TypeError, match="sample_weight"):
        PISVM().fit(X, y, sample_weight=np.ones(len(X)))
