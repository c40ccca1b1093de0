"""ThresholdRejector against the classifiers it wraps."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from openset.wrappers import ThresholdRejector


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("threshold", [0.0, 0.6, 0.99])
def test_probabilities_are_compared(iris, threshold):
    X, y = iris
    model = ThresholdRejector(GaussianNB(), threshold).fit(X, y)
    p = GaussianNB().fit(X, y).predict_proba(X)
    assert_array_equal(model.raw_scores(X), p)
    assert_array_equal(model.decision_function(X), p - threshold)
    expected = np.where(p.max(axis=1) >= threshold, p.argmax(axis=1), -1)
    assert_array_equal(model.predict(X), expected)
    assert_array_equal(model.predict_known(X), p.argmax(axis=1))
    assert (-1 in expected) == (threshold > 0)
    assert model.bounded_.tolist() == [False] * 3


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5])
def test_decision_functions_are_compared(iris, threshold):
    X, y = iris
    model = ThresholdRejector(RidgeClassifier(), threshold).fit(X, y)
    f = RidgeClassifier().fit(X, y).decision_function(X)
    assert_array_equal(model.decision_function(X), f - threshold)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.99])
def test_ratio_of_the_two_highest(iris, threshold):
    X, y = iris
    model = ThresholdRejector(GaussianNB(), threshold, confidence="ratio").fit(X, y)
    p = GaussianNB().fit(X, y).predict_proba(X)
    ordered = np.sort(p, axis=1)
    confident = ordered[:, -2] <= (1 - threshold) * ordered[:, -1] + 1e-15
    assert_array_equal(model.predict(X), np.where(confident, p.argmax(axis=1), -1))
    assert_array_equal(model.predict_known(X), p.argmax(axis=1))
    assert_allclose(model.known_score(X), 1 - ordered[:, -2] / ordered[:, -1] - threshold)


def test_ratio_of_votes():
    """Ties, votes for one class alone, and one known class."""
    X, y = [[0.0], [0.1], [1.0], [1.1]], ["a", "a", "b", "b"]
    votes = KNeighborsClassifier(n_neighbors=2)
    model = ThresholdRejector(votes, 0.5, confidence="ratio").fit(X, y)
    assert model.predict([[0.05], [0.55], [1.05]]).tolist() == ["a", "unknown", "b"]
    assert_allclose(model.raw_scores([[0.05], [0.55]]), [[1.0, -1.0], [0.0, 0.0]])
    one = ThresholdRejector(votes, 0.5, confidence="ratio").fit(X[:2], y[:2])
    assert one.predict([[9.0]]).tolist() == ["a"]


def test_ratio_needs_scores_that_are_not_negative(iris):
    X, y = iris
    model = ThresholdRejector(RidgeClassifier(), confidence="ratio").fit(X, y)
    with pytest.raises(ValueError, match=r'confidence="ratio" needs .* RidgeClassifier gave -'):
        model.predict(X)
    with pytest.raises(ValueError, match="'confidence' parameter"):
        ThresholdRejector(GaussianNB(), confidence="margin").fit(X, y)


def test_two_classes_have_two_columns(iris):
    X, y = iris[0][:100], np.array(["no", "yes"])[iris[1][:100]]
    f = LinearSVC(C=0.01).fit(X, y).decision_function(X)
    model = ThresholdRejector(LinearSVC(C=0.01), 0.5).fit(X, y)
    assert_allclose(model.decision_function(X), np.column_stack([-f, f]) - 0.5)
    expected = np.where(f >= 0.5, "yes", np.where(-f >= 0.5, "no", "unknown"))
    assert_array_equal(model.predict(X), expected)
    assert set(expected) == {"no", "yes", "unknown"}


def test_response_method(iris):
    X, y = iris
    logistic = LogisticRegression(max_iter=1000).fit(X, y)
    for method in ("predict_proba", "decision_function"):
        model = ThresholdRejector(LogisticRegression(max_iter=1000), response_method=method)
        assert_array_equal(model.fit(X, y).raw_scores(X), getattr(logistic, method)(X))


def test_threshold_needs_no_fit(iris):
    X, y = iris
    model = ThresholdRejector(GaussianNB()).fit(X, y)
    assert model.search_spec.after_fit == ("threshold",)
    model.set_params(threshold=0.9)
    assert_array_equal(model.decision_function(X), model.raw_scores(X) - 0.9)


def test_conventions_of_meta_estimators(iris):
    X, y = iris
    inner = LogisticRegression(C=3.0)
    model = ThresholdRejector(inner, 0.7).fit(X, y)
    assert not hasattr(inner, "classes_")
    assert model.estimator_ is not inner
    assert model.get_params()["estimator__C"] == 3.0
    assert clone(model).set_params(estimator__C=5.0).estimator.C == 5.0
    assert model.n_features_in_ == 4
    pickled = pickle.loads(pickle.dumps(model))
    assert_array_equal(pickled.predict(X), model.predict(X))
    pipeline = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
    assert np.mean(pipeline.predict(X) == y) > 0.8


def test_fitted_estimators_can_be_kept(iris):
    X, y = iris
    inner = GaussianNB().fit(X, y)
    model = ThresholdRejector(FrozenEstimator(inner), 0.9).fit(X[:3], y[:3])
    assert model.classes_.tolist() == [0, 1, 2]
    assert_array_equal(model.raw_scores(X), inner.predict_proba(X))


def test_x_is_left_to_the_estimator():
    texts = ["red apple", "green apple", "old car", "fast car"] * 3
    labels = ["fruit", "fruit", "vehicle", "vehicle"] * 3
    model = ThresholdRejector(make_pipeline(TfidfVectorizer(), LogisticRegression()), 0.6)
    answers = model.fit(texts, labels).predict(["apple", "car", "nothing of this"])
    assert answers.tolist() == ["fruit", "vehicle", "unknown"]


def test_sparse_and_tables(iris):
    X, y = iris
    # At its own tolerance lbfgs stops 2e-3 away from the optimum, and elsewhere for sparse rows.
    model = ThresholdRejector(LogisticRegression(tol=1e-8, max_iter=1000)).fit(X, y)
    same = clone(model).fit(sparse.csr_matrix(X), y)
    assert_allclose(same.raw_scores(sparse.csr_matrix(X)), model.raw_scores(X), atol=1e-4)
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcd"))
    named = clone(model).fit(table, pandas.Series(y))
    assert named.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        named.predict(table[list("dcba")])
    assert not hasattr(named.fit(X, y), "feature_names_in_")


def test_weights(iris):
    X, y = iris
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    model = ThresholdRejector(GaussianNB()).fit(X, y, sample_weight=weight)
    copies = GaussianNB().fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert_allclose(model.raw_scores(X), copies.predict_proba(X), atol=1e-9)
    known = clone(model).fit(X, y, sample_weight=1.0 * (y != 1))
    assert known.classes_.tolist() == [0, 2]
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no weights"):
        ThresholdRejector(KNeighborsClassifier()).fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match=r"(?i)weight.*zero"):
        clone(model).fit(X, y, sample_weight=np.zeros(len(X)))
    with pytest.raises(ValueError, match="sample_weight"):
        clone(model).fit(X, y, sample_weight=weight[:-1])


class Broken(ClassifierMixin, BaseEstimator):
    """Scores that are not finite."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.tile([np.nan, np.inf, -np.inf], (len(X), 1))


def test_scores_are_finite(iris):
    X, y = iris
    model = ThresholdRejector(Broken()).fit(X, y)
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert_array_equal(model.predict(X), 1)
    assert_array_equal(model.predict_set(X[:1]), [[False, True, False]])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ThresholdRejector(LinearRegression()), "'estimator' parameter"),
        (ThresholdRejector(5), "'estimator' parameter"),
        (ThresholdRejector(GaussianNB(), np.nan), "'threshold' parameter"),
        (ThresholdRejector(GaussianNB(), "high"), "'threshold' parameter"),
        (ThresholdRejector(GaussianNB(), response_method="predict"), "'response_method' parameter"),
        (
            ThresholdRejector(GaussianNB(), response_method="decision_function"),
            "GaussianNB has no such method",
        ),
        (ThresholdRejector(GaussianNB(), unknown_label=2), "cannot learn"),
    ],
)
def test_bad_parameters(iris, model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*iris)


def test_bad_input(iris):
    X, y = iris
    with pytest.raises(NotFittedError):
        ThresholdRejector(GaussianNB()).predict(X)
    with pytest.raises(ValueError, match="NaN"):
        ThresholdRejector(GaussianNB()).fit(X * np.nan, y)
    with pytest.raises(ValueError, match="inconsistent"):
        ThresholdRejector(GaussianNB()).fit(X, y[:-1])
    with pytest.raises(ValueError, match="label"):
        ThresholdRejector(GaussianNB()).fit(X, np.linspace(0, 1, len(X)))
    with pytest.raises(ValueError, match="label"):
        ThresholdRejector(GaussianNB()).fit(X, [1] * 149 + ["one"])
    four = np.r_[y[:-9], [3] * 9]
    pairs = ThresholdRejector(SVC(decision_function_shape="ovo")).fit(X, four)
    with pytest.raises(ValueError, match="6 columns for 4 classes"):
        pairs.predict(X)
