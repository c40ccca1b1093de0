"""W-SVM against the authors' program, a plain version of other parts, and its own facts."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import weibull_min
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.svm import SVC, OneClassSVM

from openset.evt import PISVM, WSVM


def mixed():
    """A few samples of class 0 among many of class 1, whose bias is positive."""
    rng = np.random.default_rng(0)
    X = np.append(3.0 * rng.normal(size=60), 1.5 * rng.normal(size=8))
    return X[:, None], np.repeat([1, 0], [60, 8])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.mark.parametrize(("name", "gamma", "nu"), [("wsvm_1", 2.0, 0.5), ("wsvm_2", 0.5, 0.1)])
def test_reference(baselines, name, gamma, nu):
    problem, methods, X, y, train, test = baselines
    expected, check = methods[name]["tight"], methods[name]["independent_check"]["per_class"]
    assert f"-g {gamma} -a {gamma} -o 1 -n {nu}" in expected["train_options"]
    assert expected["predict_options"] == "-P 0.1 -C 0.001"
    model = WSVM(gamma=gamma, nu=nu, delta_tau=0.001, delta_R=0.1, tol=1e-9)
    model.fit(X[train], y[train])
    order = np.searchsorted(model.classes_, expected["label_order"])
    assert expected["cap_label_order"] == expected["label_order"]
    assert_allclose(-model.intercept_[order], expected["rho"], atol=1e-4)
    assert_allclose(-model.cap_intercept_[order], expected["cap_rho"], atol=1e-4)
    assert_array_equal((model.cap_dual_coef_ != 0).sum(axis=1)[order], expected["cap_n_sv"])
    for key, other, tails in (
        ("weibull_positive_tail", "positive_tail", model.inclusion_weibull_),
        ("weibull_complement_tail", "complement_tail", model.exclusion_weibull_),
        ("weibull_cap_one_class", "cap_one_class", model.cap_weibull_),
    ):
        for theirs, also, c in zip(expected[key], check, order, strict=True):
            assert_allclose(-tails.sign * theirs["small_score"], -tails.location[c], atol=1e-5)
            if also[other]["spread"] > 1e-3:  # else the shape is noise
                assert_allclose(tails.scale[c], theirs["scale"], rtol=1e-4)
                assert_allclose(tails.shape[c], theirs["shape"], rtol=1e-4)
            else:
                assert np.isinf(tails.shape[c])

    first = X[test[:50]]
    scores = model.inclusion_proba(first)[:, order]
    assert_allclose(scores, expected["first50"]["scores"], atol=1e-5)
    some = scores.max(axis=1) > 1e-6  # below, their argmax is an accident
    assert_array_equal(
        model.predict_known(first)[some], np.array(expected["first50"]["argmax_label"])[some]
    )
    assert_array_equal(model.predict(first), expected["first50"]["label_with_rejection"])
    known = np.isin(y[test], problem["known_classes"])
    answers, counts = model.predict(X[test]), expected["all_test_rows"]
    assert (answers == y[test])[known].sum() == counts["known_correct"]
    assert (answers == -1)[known].sum() == counts["known_rejected"]
    assert (answers == -1)[~known].sum() == counts["unknown_rejected"]


def low_tail(scores, size, at):
    tail = np.sort(scores)[:size]
    shape, _, scale = weibull_min.fit(1 + tail[-1] - tail, floc=0)
    return weibull_min.sf(np.maximum(0, 1 + tail[-1] - at), shape, scale=scale)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # in SciPy
def test_against_plain_parts(iris):
    X, y = iris
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 0.5, X.max(axis=0) + 0.5, size=(60, 4))
    model = WSVM(C=2.0, gamma=0.4, nu=0.3, delta_tau=0.05, tol=1e-8).fit(X, y)
    for c, label in enumerate(model.classes_):
        own = y == label
        svm = SVC(C=2.0, gamma=0.4, tol=1e-8).fit(X, own)
        one = OneClassSVM(gamma=0.4, nu=0.3, tol=1e-8).fit(X[own])
        n_negative, n_positive = svm.n_support_
        f, at = svm.decision_function(X), svm.decision_function(Z)
        size = int(1.5 * n_positive)
        included = low_tail(f[own], n_positive if size >= 50 or size <= 3 else size, at)
        size = int(1.5 * n_negative / 2)
        tail = np.sort(f[~own])[::-1][: size if size > 3 else n_negative]
        shape, _, scale = weibull_min.fit(1 + tail - tail[-1], floc=0)
        excluded = weibull_min.cdf(np.maximum(0, 1 + at - tail[-1]), shape, scale=scale)
        n_support = len(one.support_)
        cap = low_tail(
            one.decision_function(X[own]),
            n_support if 1.5 * n_support >= 50 else int(1.5 * n_support),
            one.decision_function(Z),
        )
        expected = np.where(cap > 0.05, included * excluded, 0.0)
        assert_allclose(model.inclusion_proba(Z)[:, c], expected, atol=2e-4)


def test_the_thresholds_act_without_a_new_fit(iris):
    X, y = iris
    rng = np.random.default_rng(1)
    Z = rng.uniform(X.min(axis=0) - 2, X.max(axis=0) + 2, size=(300, 4))
    model = WSVM(gamma=0.4).fit(X, y)
    for delta_tau, delta_R in [(0.0, 0.0), (0.001, 0.5), (0.3, 0.01), (0.9, 0.0)]:
        model.set_params(delta_tau=delta_tau, delta_R=delta_R)
        fresh = WSVM(gamma=0.4, delta_tau=delta_tau, delta_R=delta_R).fit(X, y)
        assert_array_equal(model.decision_function(Z), fresh.decision_function(Z))
        scores, P = model.decision_function(Z), model.inclusion_proba(Z)
        refused = scores == -1
        assert np.all(P[refused] == 0)
        assert_allclose(scores[~refused], P[~refused] - delta_R)
    # Even a threshold of zero accepts nothing that every CAP refused.
    assert refused.all(axis=1).any()
    assert_array_equal(model.predict(Z) == model.unknown_label_, refused.all(axis=1))


@pytest.mark.parametrize("delta_tau", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("delta_R", [1e-3, 0.1, 0.9])
@pytest.mark.parametrize("gamma", [0.01, 0.1, 10.0])
def test_bounded_is_what_a_walk_far_away_finds(gamma, delta_tau, delta_R):
    model = WSVM(gamma=gamma, delta_tau=delta_tau, delta_R=delta_R).fit(*mixed())
    walk = np.array([[-1e5], [-1e3], [1e3], [1e5]])
    assert_array_equal(model.predict_set(walk), np.tile(~model.bounded_, (4, 1)))


def test_a_cap_that_does_not_abate_enough_leaves_a_class_unbounded():
    model = WSVM(gamma=0.1, delta_tau=1e-9, delta_R=0.9).fit(*mixed())
    assert model.cap_weibull_.probability(model.cap_intercept_)[1] > 1e-9
    assert model.intercept_[1] > 0
    assert_array_equal(model.bounded_, [True, False])
    assert model.set_params(delta_tau=1e-3).bounded_.all()


def test_own_parameters_for_each_class(iris):
    X, y = iris
    nu = {"setosa": 0.1, "versicolor": 0.5, "virginica": 0.3}
    gamma = {"setosa": 0.3, "versicolor": 2.0, "virginica": 1.0}
    model = WSVM(nu=nu, gamma=gamma, delta_tau=0.2, tol=1e-6).fit(X, y)
    for c, label in enumerate(model.classes_):
        alone = WSVM(nu=nu[label], gamma=gamma[label], delta_tau=0.2, tol=1e-6).fit(X, y)
        assert_allclose(model.inclusion_proba(X)[:, c], alone.inclusion_proba(X)[:, c], atol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nu": 0.0}, "'nu' parameter"),
        ({"nu": {"setosa": 0.5, "versicolor": 1.5, "virginica": 0.5}}, r"nu\['versicolor'\]"),
        ({"delta_tau": -0.1}, "'delta_tau' parameter"),
        ({"delta_R": 2.0}, "'delta_R' parameter"),
        ({"tail_factor": 0.0}, "'tail_factor' parameter"),
    ],
)
def test_bad_parameters(iris, parameters, message):
    with pytest.raises(ValueError, match=message):
        WSVM(**parameters).fit(*iris)


def test_it_needs_two_classes_and_takes_no_weights(iris):
    X, y = iris
    with pytest.raises(ValueError, match="at least 2 classes"):
        WSVM().fit(X[:50], y[:50])
    with pytest.raises(TypeError, match="sample_weight"):
        WSVM().fit(X, y, sample_weight=np.ones(len(X)))


@pytest.mark.parametrize("model", [WSVM(), PISVM()])
def test_separated_classes_in_another_order_have_the_same_tails(model):
    # Their tails are about as narrow as tol: the machines have to be more exact than that.
    moved = []
    for seed in (23, 82, 103):
        rng = np.random.default_rng(seed)
        y = np.arange(60) % 3
        X = 4 * rng.normal(size=(3, 3))[y] + rng.normal(size=(60, 3))
        scores = clone(model).fit(X, y).inclusion_proba(X)
        order = rng.permutation(60)
        moved.append(np.abs(clone(model).fit(X[order], y[order]).inclusion_proba(X) - scores).max())
    assert max(moved) < 0.02


@pytest.mark.parametrize("model", [WSVM(), PISVM()])
def test_copies_in_another_order_have_the_same_tails(model):
    # Which of two copies has the multiplier depends on the order of the rows.
    rng = np.random.default_rng(5)
    y = np.arange(44) % 3
    X = np.repeat(8 * np.eye(3)[y[:22]] + rng.normal(size=(22, 3)), 2, axis=0)
    y = np.repeat(y[:22], 2)
    scores = model.fit(X, y).inclusion_proba(X)
    for _ in range(5):
        order = rng.permutation(44)
        permuted = clone(model).fit(X[order], y[order]).inclusion_proba(X)
        assert np.abs(permuted - scores).max() < 0.05
