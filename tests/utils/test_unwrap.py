"""The estimator behind a Pipeline or a search."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from openset.svm import OpenSetSVC
from openset.utils import layers, split_fitted, unwrap
from openset.wrappers import OpenSetWrapper, ThresholdRejector

X = np.array([[0.0], [0.1], [0.2], [0.3], [5.0], [5.1], [5.2], [5.3]])
Y = np.array([0, 0, 0, 0, 1, 1, 1, 1])


def test_an_open_set_estimator_is_itself():
    model = OpenSetSVC()
    assert unwrap(model) is model


def test_pipelines_however_deep():
    model = OpenSetSVC()
    pipeline = make_pipeline(MinMaxScaler(), make_pipeline(MinMaxScaler(), model))
    assert unwrap(pipeline) is model
    pipeline.fit(X, Y)
    assert unwrap(pipeline).unknown_label_ == -1


def test_search_before_and_after_fit():
    pipeline = make_pipeline(MinMaxScaler(), OpenSetSVC())
    search = GridSearchCV(pipeline, {"opensetsvc__gamma": [1.0, 10.0]}, cv=2)
    assert unwrap(search) is pipeline[-1]
    search.fit(X, Y)
    assert unwrap(search) is search.best_estimator_[-1]
    assert unwrap(search).bounded_.shape == (2,)
    assert unwrap(make_pipeline(MinMaxScaler(), search)) is search.best_estimator_[-1]


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        make_pipeline(MinMaxScaler(), LogisticRegression()),
        GridSearchCV(LogisticRegression(), {"C": [1.0]}),
    ],
)
def test_a_closed_set_estimator_is_refused(estimator):
    with pytest.raises(TypeError, match="LogisticRegression is not an open-set estimator"):
        unwrap(estimator)


@pytest.mark.parametrize("through", [(), (OpenSetWrapper,)])
def test_layers_of_a_frozen_rejector(through):
    # A frozen estimator lends the attributes of what is inside, also `estimator_`.
    inner = make_pipeline(MinMaxScaler(), LogisticRegression())
    rejector = ThresholdRejector(inner).fit(X, Y)
    model = make_pipeline(StandardScaler(), FrozenEstimator(rejector)).fit(X, Y)
    found = [(type(layer).__name__, len(heads)) for layer, heads in layers(model, through)]
    expected = [("Pipeline", 0), ("FrozenEstimator", 1), ("ThresholdRejector", 1)]
    expected += [("Pipeline", 1), ("LogisticRegression", 2)] if through else []
    assert found == expected
    assert split_fitted(model)[1] is rejector


def test_taken_apart_it_answers_the_same():
    search = GridSearchCV(make_pipeline(MinMaxScaler(), OpenSetSVC()), {}, cv=2)
    search.fit(StandardScaler().fit_transform(X), Y)
    whole = make_pipeline(StandardScaler(), FrozenEstimator(search)).fit(X, Y)
    transform, final = split_fitted(whole)
    assert final is search.best_estimator_[-1]
    np.testing.assert_array_equal(final.decision_function(transform(X)), whole.decision_function(X))
    transform, final = split_fitted(FrozenEstimator(final))
    assert transform(X) is X and final is search.best_estimator_[-1]


def test_nothing_to_split_fitted_before_fit():
    with pytest.raises(NotFittedError, match="GridSearchCV is not fitted"):
        split_fitted(GridSearchCV(OpenSetSVC(), {}))
    with pytest.raises(TypeError, match="not an open-set estimator"):
        split_fitted(LogisticRegression())


def test_a_frozen_rejector_is_not_looked_into():
    """FrozenEstimator passes on attributes, also ``estimator_`` of a wrapper that it freezes."""
    rejector = ThresholdRejector(LogisticRegression()).fit(X, Y)
    assert split_fitted(FrozenEstimator(rejector))[1] is rejector
    assert unwrap(FrozenEstimator(FrozenEstimator(rejector))) is rejector
