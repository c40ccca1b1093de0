"""``OpenSetSVC.add_classes`` is a refit to all data, with its own checks."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from openset import OpenSetSVC

TOL = 1e-3


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:700]
    return X[rows] / 16.0, y[rows]


def grown_and_refitted(X, y, n_old, **params):
    """A model of the first `n_old` classes that learnt the others, and a model of them all."""
    weight = params.pop("sample_weight", None)
    C = params.pop("C", 1.0)
    part = {c: v for c, v in C.items() if c < n_old} if isinstance(C, dict) else C
    old = np.flatnonzero(y < n_old)
    model = OpenSetSVC(C=part, **params)
    model.fit(X[old], y[old], sample_weight=None if weight is None else weight[old])
    gamma = model.gamma_[0]
    model.set_params(C=C).add_classes(X, y, sample_weight=weight)
    refitted = OpenSetSVC(**{**params, "C": C, "gamma": gamma}).fit(X, y, sample_weight=weight)
    return model, refitted


def assert_same(model, refitted, X):
    np.testing.assert_array_equal(model.classes_, refitted.classes_)
    difference = np.abs(model.decision_function(X) - refitted.decision_function(X))
    assert difference.max() <= 10 * TOL
    np.testing.assert_allclose(model.dual_objective_, refitted.dual_objective_, rtol=1e-4)
    np.testing.assert_allclose(model.lam_, refitted.lam_, atol=10 * TOL)
    np.testing.assert_array_equal(model.bounded_, refitted.bounded_)
    assert np.all(model.kkt_gap_ <= TOL)
    assert model.unknown_label_ == refitted.unknown_label_


SETTINGS = {
    "one new class": {"n_old": 9},
    "several new classes": {"n_old": 6, "C": 8.0},
    "one class before": {"n_old": 1, "lam": 0.3, "gamma": 0.5},
    "lam": {"n_old": 8, "lam": 0.4, "gamma": 0.3},
    "rational quadratic": {"n_old": 8, "kernel": "rational_quadratic"},
    "C by class": {"n_old": 9, "C": {c: 1.0 + c for c in range(10)}},
    "balanced": {"n_old": 9, "class_weight": "balanced"},
    "two threads": {"n_old": 7, "n_jobs": 2},
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_equals_refit(digits, setting):
    X, y = digits
    assert_same(*grown_and_refitted(X, y, **setting), X)


@pytest.mark.parametrize("ensure_bounded", [True, False])
def test_equals_refit_where_lam_is_raised(ensure_bounded):
    # A class that surrounds another has a positive bias: class 0 at first, later class 2.
    rng = np.random.default_rng(0)
    angle, y = rng.uniform(0, 2 * np.pi, size=210), np.repeat([0, 1, 2], 70)
    radius = np.choose(y, [2.0, 0.0, 4.0]) + rng.normal(scale=0.2, size=210)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    params = {"gamma": 0.3, "ensure_bounded": ensure_bounded}
    before = OpenSetSVC(**params).fit(X[:140], y[:140])
    model, refitted = grown_and_refitted(X, y, 2, **params)
    assert_same(model, refitted, X)
    assert (before.lam_[0] > 0, model.lam_[2] > 0) == (ensure_bounded, ensure_bounded)
    assert np.all(model.intercept_ < 0) == ensure_bounded


def test_equals_refit_with_weights(digits):
    X, y = digits
    weight = np.random.default_rng(1).integers(0, 4, size=len(y)) / 2.0
    assert_same(*grown_and_refitted(X, y, 8, sample_weight=weight), X)


def test_equals_refit_on_sparse_rows(digits):
    X, y = digits
    assert_same(*grown_and_refitted(sparse.csr_array(X), y, 8, gamma=0.05), X)


def test_order_of_rows_does_not_matter(digits):
    X, y = digits
    old = y < 8
    rows = np.random.default_rng(2).permutation(len(y))
    model = OpenSetSVC(gamma=0.1).fit(X[old], y[old])
    model.add_classes(X[rows], y[rows])
    refitted = OpenSetSVC(gamma=0.1).fit(X[rows], y[rows])
    assert_same(model, refitted, X)
    np.testing.assert_array_equal(model.support_vectors_, X[rows][model.support_])
    np.testing.assert_array_equal(model.dual_coef_, refitted.dual_coef_)


def test_nothing_new(digits):
    X, y = digits
    model = OpenSetSVC(gamma=0.1, lam=0.1).fit(X, y)
    coef = model.dual_coef_
    model.add_classes(X, y)
    np.testing.assert_array_equal(model.dual_coef_, coef)


def test_gamma_is_frozen(digits):
    X, y = digits
    old = y < 5
    model = OpenSetSVC().fit(X[old], y[old])
    gamma = model.gamma_[0]
    model.add_classes(X, y)
    assert model.gamma == "scale"
    np.testing.assert_array_equal(model.gamma_, np.full(10, gamma))


def test_duplicates_across_classes(digits):
    X, y = digits
    X, y = np.vstack([X, X[:200]]), np.append(y, (y[:200] + 1) % 10)
    assert_same(*grown_and_refitted(X, y, 8, gamma=0.1), X)


def test_string_labels():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(loc=c, scale=0.3, size=(20, 2)) for c in range(3)])
    y = np.repeat(np.array(["b", "a", "a long name"], dtype=object), 20)
    model = OpenSetSVC(gamma=1.0).fit(X[:40], y[:40]).add_classes(X, y)
    assert model.classes_.tolist() == ["a", "a long name", "b"]
    assert np.mean(model.predict(X) == y) > 0.9
    assert model.predict([[90.0, 90.0]])[0] == "unknown"
    assert pickle.loads(pickle.dumps(model)).predict(X[:1])[0] == model.predict(X[:1])[0]


def test_bad_input_leaves_the_model_alone(digits):
    X, y = digits
    old = y < 8
    model = OpenSetSVC(gamma=0.1).fit(X[old], y[old])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="support vectors of the model are not in X"):
        model.add_classes(X[y > 5], np.where(y[y > 5] == 8, 8, np.arange(np.sum(y > 5)) % 8))
    with pytest.raises(ValueError, match=r"no samples of \[7\].*Use fit"):
        model.add_classes(X[y != 7], y[y != 7])
    with pytest.raises(ValueError, match=r"are not in X.*scaled as before"):
        model.add_classes(X * 2, y)
    with pytest.raises(ValueError, match="63 features, but OpenSetSVC is expecting 64"):
        model.add_classes(X[:, 1:], y)
    with pytest.raises(ValueError, match="NaN"):
        model.add_classes(np.where(X == X[0, 3], np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.add_classes(X, y[:-1])
    with pytest.raises(ValueError, match="C is a dict for the classes"):
        model.set_params(C=dict.fromkeys(range(8), 1.0)).add_classes(X, y)
    assert pickle.dumps(model.set_params(C=1.0)) == before


def test_needs_a_fitted_model(digits):
    with pytest.raises(NotFittedError):
        OpenSetSVC().add_classes(*digits)


@pytest.mark.parametrize(
    "change", [{"gamma": 0.3}, {"kernel": "rational_quadratic"}, {"C": 4.0, "lam": 0.2}], ids=str
)
def test_parameters_that_were_changed_meanwhile(digits, change):
    X, y = digits
    model = OpenSetSVC(gamma=0.1).fit(X[y < 9], y[y < 9])
    model.set_params(**change).add_classes(X, y)
    assert_same(model, OpenSetSVC(**{"gamma": 0.1, **change}).fit(X, y), X)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_loaded_model_behaves_as_the_one_that_was_saved(digits, layout):
    X, y = layout(digits[0]), digits[1]
    old = np.flatnonzero(y < 9)
    model = OpenSetSVC(gamma=0.1).fit(X[old], y[old])
    loaded = pickle.loads(pickle.dumps(model))
    assert vars(loaded).keys() == vars(model).keys() - {"_prepared"}
    for each in (model, loaded):
        each.add_classes(X, y)
    np.testing.assert_array_equal(loaded.n_iter_, model.n_iter_)
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_wide_data_is_fitted_anew(layout):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = layout(rng.normal(size=(3, 80))[y] + rng.normal(size=(90, 80)))
    old = np.flatnonzero(y < 2)
    settings = {"gamma": 0.01, "C": 2.0}
    model = OpenSetSVC(**settings).fit(X[old], y[old]).add_classes(X, y)
    fitted = OpenSetSVC(**settings).fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_, fitted.dual_coef_)
    np.testing.assert_array_equal(model.n_iter_, fitted.n_iter_)
    with pytest.raises(ValueError, match="support vectors of the model are not in X"):
        OpenSetSVC(**settings).fit(X[old], y[old]).add_classes(X[old[0] + 1 :], y[old[0] + 1 :])
