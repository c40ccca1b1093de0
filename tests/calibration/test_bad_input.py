"""Bad input of the calibrated rejector."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset.base import OpenSetClassifier
from openset.calibration import (
    Accuracy,
    CalibratedRejector,
    KnownRejected,
    UnknownRejected,
    calibrate,
)
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OSNN
from openset.svm import OpenSetSVC


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def frozen(iris):
    X, y = iris
    return FrozenEstimator(OpenSetSVC(lam=0.2).fit(X[::2], y[::2]))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0.0}, "'alpha' parameter"),
        ({"alpha": 1.0}, "'alpha' parameter"),
        ({"alpha": -0.1}, "'alpha' parameter"),
        ({"alpha": np.nan}, "'alpha' parameter"),
        ({"alpha": "5%"}, "'alpha' parameter"),
        ({"criterion": 5}, "'criterion' parameter"),
        ({"prefer": "both"}, "'prefer' parameter"),
        ({"calibration_size": 1.0}, "'calibration_size' parameter"),
        ({"calibration_size": 30}, "'calibration_size' parameter"),
        ({"random_state": "seed"}, "'random_state' parameter"),
        ({"unknown_label": 1}, "is also a class"),
        ({"estimator": 5}, "'estimator' parameter"),
        ({"estimator": LinearRegression()}, "'estimator' parameter"),
        ({"criterion": UnknownRejected()}, "needs X_unknown"),
        ({"criterion": Accuracy()}, "needs X_unknown"),
        ({"criterion": "hna"}, r"criterion='hna' use Accuracy\(\)"),
        ({"criterion": "aus"}, r"criterion='aus' use UnknownRejected\(share\)"),
        ({"criterion": Accuracy(), "alpha": 0.1}, "alpha=0.1 is for criterion=None"),
    ],
)
def test_bad_parameters(iris, frozen, params, message):
    with pytest.raises(ValueError, match=message):
        CalibratedRejector(frozen).set_params(**params).fit(*iris)


@pytest.mark.parametrize("name", ["per_class", "by", "precision", "confidence", "costs"])
def test_old_arguments_name_the_new_spelling(frozen, name):
    with pytest.raises(TypeError, match=f"no parameter '{name}'; use criterion="):
        CalibratedRejector(frozen, **{name: 1})
    with pytest.raises(TypeError, match=f"no parameter '{name}'; use criterion="):
        CalibratedRejector(frozen).set_params(**{name: 1})
    with pytest.raises(TypeError, match="unexpected keyword argument 'alpa'"):
        CalibratedRejector(frozen, alpa=0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KnownRejected(0), "alpha must be more than 0 and less than 1"),
        (lambda: KnownRejected(1), "alpha must be"),
        (lambda: KnownRejected(np.nan), "alpha must be"),
        (lambda: KnownRejected("5%"), "alpha must be"),
        (lambda: KnownRejected(True), "alpha must be"),
        (lambda: KnownRejected(confidence=1), "confidence must be"),
        (lambda: KnownRejected(within="classes"), "None, 'class' or"),
        (lambda: KnownRejected(own_class="yes"), "True or False"),
        (lambda: KnownRejected(aggregate="max"), "None or one of mean, median, votes"),
        (lambda: UnknownRejected(1.0), "share must be"),
        (lambda: Accuracy(balanced="no"), "balanced must be a bool"),
    ],
)
def test_bad_criteria(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_closed_set_estimator(iris):
    with pytest.raises(TypeError, match="LogisticRegression is not an open-set estimator"):
        CalibratedRejector(LogisticRegression()).fit(*iris)
    with pytest.raises(TypeError, match="not an open-set estimator"):
        CalibratedRejector(make_pipeline(StandardScaler(), LogisticRegression())).fit(*iris)


def test_too_few_samples(iris, frozen):
    X, y = iris
    with pytest.raises(ValueError, match=r"alpha=0.05 needs at least 19 .* there are 18.*0.0526"):
        CalibratedRejector(frozen).fit(X[:18], y[:18])
    with pytest.raises(ValueError, match="at least 999"):
        CalibratedRejector(frozen, alpha=0.001).fit(X, y)
    with pytest.raises(
        ValueError, match="at least 99 calibration samples of class 0; there are 50"
    ):
        CalibratedRejector(frozen, criterion=KnownRejected(0.01, within="class")).fit(X, y)
    with pytest.raises(ValueError, match="of class 2; there are 0"):
        CalibratedRejector(frozen, criterion=KnownRejected(0.1, within="class")).fit(
            X[:100], y[:100]
        )
    # Before a fit, not after it.
    with pytest.raises(ValueError, match="at least 99"):
        CalibratedRejector(NeverFit(), alpha=0.01).fit(X, y)


class NeverFit(OpenSetClassifier):
    """Fails when fitted."""

    def __init__(self, unknown_label="auto"):
        self.unknown_label = unknown_label

    def fit(self, X, y):
        raise AssertionError("was fitted")


def test_classes_too_small_for_both_parts(iris):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = CalibratedRejector(NeverFit(), criterion=KnownRejected(0.3, within="class"))
    with pytest.raises(ValueError, match=r"y has 1 sample of \['virginica'\]. Give more"):
        model.fit(X[:101], names[:101])
    rows = np.r_[0:3, 50:53, 100:103]
    with pytest.raises(ValueError, match=r"calibration_size=0.25 takes 3 of 9 .* another size"):
        model.fit(X[rows], list("aabbccddd"))
    with pytest.raises(ValueError, match=r"each of the 3 classes.*calibration_size=0.8 takes 8 of"):
        model.set_params(calibration_size=0.8).fit(X[rows], names[rows])


def test_enough_samples_is_enough(iris, frozen):
    X, y = iris
    CalibratedRejector(frozen, alpha=0.05).fit(X[1:39:2], y[1:39:2])


def test_strange_classes(iris, frozen):
    X, y = iris
    with pytest.raises(ValueError, match=r"does not know: \[7\] .*classes \[0, 1, 2\].*X_unknown"):
        CalibratedRejector(frozen).fit(X, np.where(y == 1, 7, y))
    with pytest.raises(ValueError, match="does not know"):
        CalibratedRejector(frozen).fit(X, np.where(y == 1, -1, y))
    with pytest.raises(ValueError, match="does not know"):
        CalibratedRejector(frozen).fit(X, y.astype(str))


def test_bad_unknowns(iris, frozen):
    X, y = iris
    model = CalibratedRejector(frozen, criterion=Accuracy())
    with pytest.raises(ValueError, match="3 features"):
        model.fit(X, y, X_unknown=X[:, :3])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, y, X_unknown=X * np.nan)
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(X, y, X_unknown=X[:0])


def test_bad_samples(iris, frozen):
    X, y = iris
    for estimator in (frozen, OpenSetSVC()):
        model = CalibratedRejector(estimator)
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X * np.nan, y)
        with pytest.raises(ValueError, match="inconsistent"):
            model.fit(X, y[:-1])
        with pytest.raises(ValueError, match="label"):
            model.fit(X, np.linspace(0, 1, len(X)))
        with pytest.raises(ValueError, match="requires y"):
            model.fit(X, None)
    with pytest.raises(ValueError, match="3 features"):
        CalibratedRejector(frozen).fit(X[:, :3], y)


def test_calibrate_refuses_arrays_of_different_lengths(iris, frozen):
    X, y = iris
    model = frozen.estimator
    with pytest.raises(ValueError, match="inconsistent"):
        calibrate(model, X, y[:-1])
    with pytest.raises(ValueError, match="inconsistent"):
        calibrate(model, X, y, groups=np.arange(4))
    with pytest.raises(ValueError, match="inconsistent"):
        calibrate(model, X, y, categories=np.arange(4))


def test_not_fitted(iris):
    X, y = iris
    with pytest.raises(NotFittedError):
        CalibratedRejector(OpenSetSVC()).predict(X)
    for unfitted in (OpenSetSVC(), OpenSetSearchCV(OpenSetSVC())):
        with pytest.raises(NotFittedError):
            CalibratedRejector(FrozenEstimator(unfitted)).fit(X, y)


def test_a_class_without_samples_to_fit(iris):
    X, y = iris
    few = np.r_[0:50, 50:100, 100]
    with pytest.raises(ValueError, match=r"All samples of \[2\] were drawn for calibration"):
        for seed in range(50):
            model = CalibratedRejector(OSNN(), alpha=0.3, random_state=seed)
            model.fit(X[few], y[few])
    with pytest.raises(ValueError, match=r"y has 1 sample of \[2\]"):
        CalibratedRejector(OSNN(), criterion=KnownRejected(0.3, within="class")).fit(X[few], y[few])


class Broken(OpenSetSVC):
    """Scores that are not finite."""

    def decision_function(self, X):
        return np.full((len(X), len(self.classes_)), np.nan)


def test_scores_that_are_not_finite(iris):
    X, y = iris
    broken = FrozenEstimator(Broken().fit(X, y))
    with pytest.raises(ValueError, match="decision_function of Broken gives scores"):
        CalibratedRejector(broken).fit(X, y)
    with pytest.raises(ValueError, match="decision_function of Broken gives scores"):
        CalibratedRejector(broken, criterion=Accuracy()).fit(X, y, X_unknown=X)


def test_conventions(iris, frozen):
    X, y = iris
    model = CalibratedRejector(frozen, alpha=0.2).fit(X, y)
    pickled = pickle.loads(pickle.dumps(model))
    assert_array_equal(pickled.decision_function(X), model.decision_function(X))
    assert clone(model).estimator is frozen  # a frozen estimator survives cloning
    assert (
        clone(CalibratedRejector(OpenSetSVC(C=3.0))).set_params(estimator__C=5.0).estimator.C == 5
    )
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcd"))
    named = CalibratedRejector(OpenSetSVC(), alpha=0.2, random_state=0).fit(table, y)
    assert named.feature_names_in_.tolist() == list("abcd")
    assert not hasattr(named.fit(X, y), "feature_names_in_")


def test_fitted_estimator_is_not_trained_again(iris):
    fitted = OpenSetSVC().fit(*iris)
    for estimator in (fitted, make_pipeline(StandardScaler(), fitted)):
        with pytest.raises(ValueError, match=r"fitted already.*FrozenEstimator.*unfitted"):
            CalibratedRejector(estimator).fit(*iris)
