"""CascadeRejector against its two parts."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.covariance import EllipticEnvelope
from sklearn.datasets import load_iris
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import OneClassSVM
from sklearn.utils import get_tags

from openset import MulticlassOneClassSVM, MulticlassSVDD
from openset import make_pipeline as open_set_pipeline
from openset.wrappers import CascadeRejector


class Box(OutlierMixin, BaseEstimator):
    """Accept the box around the training samples; no score."""

    def fit(self, X, y=None):
        self.low_, self.high_ = np.min(X, axis=0), np.max(X, axis=0)
        return self

    def predict(self, X):
        return np.where(np.all((self.low_ <= X) & (self.high_ >= X), axis=1), 1, -1)


@pytest.fixture(scope="module")
def data():
    X, y = load_iris(return_X_y=True)
    Z = np.random.default_rng(0).uniform(X.min(axis=0) - 1, X.max(axis=0) + 1, size=(300, 4))
    return X, np.array(["setosa", "versicolor", "virginica"])[y], np.vstack([X, Z])


@pytest.mark.parametrize(
    "rejector",
    [
        OneClassSVM(nu=0.1),
        EllipticEnvelope(random_state=0),
        IsolationForest(n_estimators=20, random_state=0),
        LocalOutlierFactor(novelty=True),
        make_pipeline(MinMaxScaler(), OneClassSVM(nu=0.1)),
        Box(),
    ],
    ids=lambda rejector: type(rejector).__name__,
)
def test_two_stages_written_out(data, rejector):
    X, y, Z = data
    model = CascadeRejector(rejector, GaussianNB()).fit(X, y)
    accepted = clone(rejector).fit(X).predict(Z) == 1
    answers = GaussianNB().fit(X, y).predict(Z)
    assert_array_equal(model.predict(Z), np.where(accepted, answers, "unknown"))
    assert_array_equal(model.predict_known(Z), answers)
    assert 0 < accepted.sum() < len(Z)
    assert_array_equal(model.predict_set(Z).sum(axis=1), accepted)
    assert np.isfinite(model.decision_function(Z)).all()


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(
    "rejector",
    [
        MulticlassSVDD(nu=0.1, gamma=0.5),
        MulticlassOneClassSVM(nu=0.1, gamma=0.5),
        open_set_pipeline(MinMaxScaler(), MulticlassSVDD(nu=0.1, gamma=8.0)),
    ],
    ids=["SVDD", "OCSVM", "Pipeline"],
)
def test_one_class_models(data, rejector, per_class):
    """Pooled or one region per class: what no region accepts is unknown."""
    X, y, Z = data
    model = CascadeRejector(rejector, GaussianNB(), per_class=per_class).fit(X, y)
    region = clone(rejector).fit(X, y if per_class else np.zeros(len(X), dtype=int))
    accepted = region.predict(Z) != region.unknown_label_
    assert 0 < accepted.sum() < len(Z)
    answers = GaussianNB().fit(X, y).predict(Z)
    assert_array_equal(model.predict(Z), np.where(accepted, answers, "unknown"))
    assert model.bounded_.tolist() == [True] * 3


def test_pooled_svdd_is_the_one_class_svm(data):
    """methods.md 3.2: with an RBF kernel both have the same region."""
    X, y, Z = data
    svdd = CascadeRejector(MulticlassSVDD(nu=0.2, gamma=0.5, tol=1e-8), GaussianNB()).fit(X, y)
    other = CascadeRejector(OneClassSVM(nu=0.2, gamma=0.5, tol=1e-8), GaussianNB()).fit(X, y)
    ratio = 2 / (0.2 * len(X))
    assert_allclose(svdd.known_score(Z), ratio * other.known_score(Z), atol=1e-5)
    new = Z[len(X) :]  # a training sample may lie on the border
    assert_array_equal(svdd.predict(new), other.predict(new))


def test_region_that_is_not_bounded(data):
    X, y, _ = data
    model = CascadeRejector(MulticlassOneClassSVM(kernel="linear"), GaussianNB()).fit(X, y)
    assert model.bounded_.tolist() == [False] * 3


def test_scores(data):
    X, y, Z = data
    model = CascadeRejector(OneClassSVM(nu=0.1), GaussianNB()).fit(X, y)
    score = OneClassSVM(nu=0.1).fit(X).decision_function(Z)
    assert_allclose(model.known_score(Z), score)
    assert_array_equal(np.sort(model.decision_function(Z), axis=1)[:, 1], np.minimum(score, 0) - 1)


@pytest.mark.parametrize("nu", [0.01, 0.5, 0.9])
def test_bounded(data, nu):
    X, y, _ = data
    model = CascadeRejector(OneClassSVM(nu=nu), GaussianNB()).fit(X, y)
    assert model.bounded_.tolist() == [True] * 3
    directions = np.random.default_rng(0).normal(size=(200, 4))
    for radius in (1e2, 1e6, 1e12):
        assert not model.predict_set(X.mean(axis=0) + radius * directions).any()
    for rejector in (OneClassSVM(kernel="linear"), IsolationForest(n_estimators=5)):
        unproved = CascadeRejector(rejector, GaussianNB()).fit(X, y)
        assert unproved.bounded_.tolist() == [False] * 3


def test_conventions_of_meta_estimators(data):
    X, y, Z = data
    rejector, inner = OneClassSVM(nu=0.1), GaussianNB()
    model = CascadeRejector(rejector, inner).fit(X, y)
    assert not hasattr(rejector, "offset_") and not hasattr(inner, "classes_")
    assert model.get_params()["rejector__nu"] == 0.1
    assert clone(model).set_params(rejector__nu=0.3).rejector.nu == 0.3
    assert model.n_features_in_ == 4
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(Z), model.predict(Z))
    pipeline = make_pipeline(MinMaxScaler(), clone(model)).fit(X, y)
    assert np.mean(pipeline.predict(X) == y) > 0.8
    logistic = CascadeRejector(OneClassSVM(), LogisticRegression())
    assert get_tags(logistic).input_tags.sparse
    assert not get_tags(model).input_tags.sparse
    assert not get_tags(logistic.set_params(rejector=EllipticEnvelope())).input_tags.sparse


def test_weights_go_where_they_are_taken(data):
    X, y, Z = data
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    kept = weight > 0
    model = CascadeRejector(Box(), GaussianNB()).fit(X, y, sample_weight=weight)
    expected = GaussianNB().fit(X[kept], y[kept], sample_weight=weight[kept])
    assert_array_equal(model.predict_known(Z), expected.predict(Z))
    assert_array_equal(model.rejector_.predict(Z), Box().fit(X[kept]).predict(Z))
    model = CascadeRejector(OneClassSVM(nu=0.2), KNeighborsClassifier())
    expected = OneClassSVM(nu=0.2).fit(X[kept], sample_weight=weight[kept])
    model.fit(X, y, sample_weight=weight)
    assert_allclose(model.known_score(Z), expected.decision_function(Z))
    with pytest.raises(ValueError, match="neither Box nor KNeighborsClassifier takes weights"):
        CascadeRejector(Box(), KNeighborsClassifier()).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (CascadeRejector(GaussianNB(), GaussianNB()), "not an outlier detector"),
        (CascadeRejector(Box(), GaussianNB(), per_class=True), "knows no classes"),
        (CascadeRejector(Box(), LinearRegression()), "not a classifier"),
        (CascadeRejector(Box(), "nb"), "'estimator' parameter"),
        (CascadeRejector(None, GaussianNB()), "'rejector' parameter"),
        (CascadeRejector(LocalOutlierFactor(), GaussianNB()), "'rejector' parameter"),
        (CascadeRejector(Box(), GaussianNB(), unknown_label="setosa"), "cannot learn"),
        (CascadeRejector(Box(), GaussianNB(), unknown_label=-1), "different kinds"),
    ],
)
def test_bad_parameters(data, model, message):
    X, y, _ = data
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_bad_input(data):
    X, y, _ = data
    model = CascadeRejector(OneClassSVM(), GaussianNB())
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * np.nan, y)
    with pytest.raises(ValueError, match="y is None"):
        model.fit(X, None)
    with pytest.raises(ValueError, match="features"):
        model.fit(X, y).predict(X[:, :2])
