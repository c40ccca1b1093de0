"""Inside scikit-learn's own Pipeline and ensembles, which do not know the answer unknown."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import openset
from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC
from openset.base import OpenSetPipeline
from openset.neighbors import OSNN, OpenSetKNN
from openset.wrappers import CascadeRejector, ThresholdRejector

X, y = load_iris(return_X_y=True)
FAR = np.full((3, 4), 50.0)
PAIR = [("a", GaussianNB()), ("b", OpenSetSVC())]


@pytest.mark.parametrize(
    "ensemble",
    [
        BaggingClassifier(OpenSetSVC(), 3),
        BaggingClassifier(openset.make_pipeline(StandardScaler(), OpenSetKNN()), 3),
        BaggingClassifier(make_pipeline(StandardScaler(), OSNN()), 3),
        BaggingClassifier(ThresholdRejector(GaussianNB()), 3),
        BaggingClassifier(OpenSetSearchCV(OpenSetSVC()), 3),
        BaggingClassifier(CalibratedRejector(OpenSetSVC()), 3),
        VotingClassifier(PAIR),
        VotingClassifier(PAIR, voting="soft"),
        StackingClassifier(PAIR),
        StackingClassifier(PAIR[:1], final_estimator=OpenSetSVC()),
        AdaBoostClassifier(OpenSetSVC(), n_estimators=3),
        CalibratedClassifierCV(OpenSetSVC()),
        OneVsRestClassifier(OpenSetSVC()),
        OneVsOneClassifier(OpenSetSVC()),
        OutputCodeClassifier(OpenSetSVC()),
    ],
    ids=str,
)
def test_an_ensemble_that_knows_no_unknown_is_refused(ensemble):
    with pytest.raises(TypeError, match="would turn unknown into one of them"):
        ensemble.fit(X, y)


FITTED = [
    OpenSetSVC().fit(X, y),
    openset.make_pipeline(StandardScaler(), OpenSetKNN()).fit(X, y),
    ThresholdRejector(GaussianNB()).fit(X, y),
    CascadeRejector(OneClassSVM(), GaussianNB()).fit(X, y),
    CalibratedRejector(FrozenEstimator(OSNN().fit(X, y)), alpha=0.2).fit(X, y),
]


@pytest.mark.parametrize("model", FITTED, ids=str)
def test_an_ensemble_of_fitted_models_is_refused(model):
    frozen = FrozenEstimator(model)
    for ensemble in (
        CalibratedClassifierCV(frozen),
        VotingClassifier([("a", frozen), ("b", frozen)]),
        StackingClassifier([("a", model)], cv="prefit"),
    ):
        with pytest.raises(TypeError, match="would turn unknown into one of them"):
            ensemble.fit(X, y).predict(FAR)


def test_a_threshold_on_one_score_per_sample_is_refused():
    with pytest.raises(TypeError, match="would turn unknown into one of them"):
        FixedThresholdClassifier(OpenSetSVC()).fit(X, y == 1)


def test_an_ensemble_inside_is_allowed():
    inside = ThresholdRejector(BaggingClassifier(LogisticRegression(max_iter=1000), 3))
    assert set(inside.fit(X, y).predict(X)) <= {-1, 0, 1, 2}
    voting = VotingClassifier(
        [("a", GaussianNB()), ("b", LogisticRegression(max_iter=1000))], voting="soft"
    )
    assert ThresholdRejector(voting).fit(X, y).score(X, y) > 0.9


def test_searches_and_cross_validation_are_allowed():
    assert cross_val_score(OpenSetSVC(), X, y, error_score="raise").min() > 0.8
    search = GridSearchCV(OpenSetSVC(), {"C": [1, 8]}, error_score="raise").fit(X, y)
    assert (search.predict(FAR) == -1).all()


class _Closed(ClassifierMixin, BaseEstimator):
    """A user's own wrapper, which answers a class always."""

    def fit(self, X, y):
        self.model_ = OpenSetSVC().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        return self.model_.predict_known(X)


def test_who_answers_classes_only_may_be_in_an_ensemble():
    assert BaggingClassifier(_Closed(), 3, random_state=0).fit(X, y).score(X, y) > 0.9


def test_pipeline_of_scikit_learn_names_the_one_that_passes_on():
    model = make_pipeline(StandardScaler(), OpenSetSVC()).fit(X, y)
    for name in ("known_score", "predict_set", "explain", "unknown_label_", "bounded_"):
        with pytest.raises(
            AttributeError, match=rf"'{name}' of OpenSetSVC\. openset\.make_pipeline"
        ):
            getattr(model, name)
    taken = OpenSetPipeline(model.steps)
    assert taken.known_score(FAR).max() < 0
    for other in (clone(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert not hasattr(other, "known_score")


def test_other_names_of_a_pipeline_raise_what_they_raised():
    model = make_pipeline(StandardScaler(), OpenSetSVC()).fit(X, y)
    with pytest.raises(AttributeError, match=r"^'Pipeline' object has no attribute 'nothing'$"):
        _ = model.nothing
    with pytest.raises(AttributeError, match="This 'Pipeline' has no attribute 'transform'"):
        _ = model.transform
    closed = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    with pytest.raises(AttributeError, match=r"^'Pipeline' object has no attribute 'known_score'$"):
        _ = closed.known_score
    assert not hasattr(Pipeline.__new__(Pipeline), "known_score")
