"""The Pipeline with the whole contract."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from openset import WSVM, OpenSetSearchCV, OpenSetSVC, make_pipeline
from openset.calibration import calibrate
from openset.model_selection import OpenSetSplit, get_scorer
from openset.persistence import load_model, save_model

X, y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def model():
    return make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.5)).fit(X, y)


def test_contract_equals_that_of_the_last_step(model):
    Z, last = model[:-1].transform(X), model[-1]
    for name in ("decision_function", "predict", "predict_known", "predict_set", "known_score"):
        np.testing.assert_array_equal(getattr(model, name)(X), getattr(last, name)(Z))
    assert model.explain(X[:5]).equals(last.explain(Z[:5]))
    for name in ("classes_", "unknown_label_", "bounded_", "known_radius_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(last, name))
    assert model.score(X, y) == last.score(Z, y)
    assert model.n_features_in_ == 4


def test_it_is_a_pipeline_of_scikit_learn(model):
    assert isinstance(model, Pipeline)
    assert type(model[:-1]) is Pipeline  # transformers have no contract
    assert not hasattr(clone(model), "classes_")
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.known_score(X), model.known_score(X))
    assert clone(model).set_params(opensetsvc__gamma=2.0)[-1].gamma == 2.0


def test_methods_that_only_some_estimators_have():
    assert not hasattr(make_pipeline(OpenSetSVC()), "inclusion_proba")
    model = make_pipeline(StandardScaler(), WSVM()).fit(X, y)
    assert model.inclusion_proba(X[:3]).shape == (3, 3)
    assert not hasattr(model, "known_radius_")


@pytest.mark.parametrize("searched", [False, True])
def test_classes_are_those_of_the_last_step(searched):
    """Old and new classes, behind the transformers that were fitted to the old ones."""
    old, gamma = y < 2, OpenSetSVC().fit(StandardScaler().fit_transform(X[y < 2]), y[y < 2]).gamma_
    model = make_pipeline(StandardScaler(), OpenSetSVC())
    if searched:
        model = OpenSetSearchCV(model, {"opensetsvc__lam": [0.1, 0.3]}, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two classes: the search is closed-set
        model.fit(X[old], y[old])
    lam = model.best_params_["opensetsvc__lam"] if searched else 0.0
    Z = StandardScaler().fit(X[old]).transform(X)
    assert model.add_classes(X, y) is model
    expected = OpenSetSVC(gamma=gamma[0], lam=lam).fit(Z, y)
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(Z), rtol=0, atol=2e-2
    )
    scores = model.decision_function(X)
    assert model.rename_classes({1: 7}).remove_classes([0]) is model
    assert model.classes_.tolist() == [2, 7]
    np.testing.assert_allclose(model.decision_function(X), scores[:, [2, 1]], atol=1e-5)
    assert set(model.predict(X)) <= {-1, 2, 7}


def test_a_calibrated_pipeline_keeps_the_contract(model):
    calibrated = calibrate(model, X[::2], y[::2], alpha=0.1)
    assert type(calibrated) is type(model)
    np.testing.assert_array_equal(calibrated.unknown_label_, -1)
    shift = calibrated[-1].thresholds_[0]
    np.testing.assert_allclose(calibrated.known_score(X), model.known_score(X) - shift, atol=1e-6)


def test_search_and_file(model, tmp_path):
    search = OpenSetSearchCV(model, {"opensetsvc__gamma": [0.5]}, n_repeats=1, random_state=0)
    assert search.fit(X, y).best_estimator_.unknown_label_ == -1
    save_model(model, tmp_path / "iris.skops")
    loaded = load_model(tmp_path / "iris.skops")
    np.testing.assert_array_equal(loaded.known_score(X), model.known_score(X))


def test_wrong_steps():
    with pytest.raises(TypeError, match="LogisticRegression is not an open-set estimator"):
        make_pipeline(StandardScaler(), LogisticRegression())
    with pytest.raises(ValueError, match="at least one step"):
        make_pipeline()
    with pytest.raises(ValueError, match="not fitted"):
        make_pipeline(StandardScaler(), OpenSetSVC()).known_score(X)


def test_score_counts_labels_outside_the_classes_as_unknown():
    known = y < 2
    model = OpenSetSVC(gamma=2.0).fit(X[known], y[known])
    relabelled = np.where(known, y, model.unknown_label_)
    by_hand = np.mean(model.predict(X) == relabelled)
    assert model.score(X, y) == model.score(X, relabelled) == by_hand > 0.6
    weight = known.astype(float)
    assert model.score(X, y, weight) == np.mean(model.predict(X[known]) == y[known])


def test_scorers_in_a_search_of_scikit_learn():
    grid, cv = {"opensetsvc__lam": [0.0, 0.5]}, OpenSetSplit(2, random_state=0)
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC())
    named = GridSearchCV(pipeline, grid, cv=cv, scoring=get_scorer("normalized_accuracy"))
    assert np.isfinite(named.fit(X, y).cv_results_["mean_test_score"]).all()
    # Without `scoring` a search uses `score`, in which withheld classes are unknown.
    plain = GridSearchCV(pipeline, grid, cv=cv).fit(X, y)
    accuracy = GridSearchCV(pipeline, grid, cv=cv, scoring=get_scorer("accuracy")).fit(X, y)
    np.testing.assert_allclose(
        plain.cv_results_["mean_test_score"], accuracy.cv_results_["mean_test_score"]
    )
