"""The estimator behind a Pipeline or a search."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset.svm import OpenSetSVC
from openset.utils import unwrap

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
