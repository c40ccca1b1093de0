"""Explanations: the nearest class, what it lacked, the most similar sample, the gap."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from openset.base import explain
from openset.datasets import make_four_gauss
from openset.evt import PISVM, WSVM, ExtremeValueMachine
from openset.gaussian import SIMCA, OpenSetCentroids, OpenSetLDA, ViM
from openset.model_selection import OpenSetSearchCV
from openset.neighbors import OSNN, OpenSetKNN
from openset.svm import (
    DecisionBoundaryCarving,
    FixedBiasSVC,
    MulticlassOneClassSVM,
    MulticlassSVDD,
    OneVsRestSVC,
    OneVsSetMachine,
    OpenSetSVC,
)
from openset.wrappers import CascadeRejector, ThresholdRejector

pd = pytest.importorskip("pandas")

COLUMNS = (
    "answer nearest_class score deficit similar distance region_gap runner_up margin reason".split()
)

KEEPING = [
    OpenSetSVC(gamma=0.5),
    OpenSetSVC(gamma=0.5, lam=0.3),
    MulticlassOneClassSVM(gamma=0.5, nu=0.1),
    MulticlassSVDD(nu=0.1),
    DecisionBoundaryCarving(gamma=2.0),
    FixedBiasSVC(gamma=1.0),
    OneVsRestSVC(gamma=1.0),
    OneVsSetMachine(),
    PISVM(),
    WSVM(),
    ExtremeValueMachine(),
    ExtremeValueMachine(metric="cosine", cover_threshold=1.0),
    OSNN(),
    OSNN(metric="cosine"),
    OpenSetKNN(),
]
KEEPING_NOTHING = [
    OpenSetLDA(),
    OpenSetCentroids(),
    SIMCA(),
    ViM(),
    ThresholdRejector(GaussianNB()),
    CascadeRejector(OneClassSVM(), LogisticRegression()),
]
CERTIFIED = KEEPING[:7]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    names = np.array(["setosa", "versicolor", "virginica"])
    return X[order], names[y[order]]


def _probes(X, n=60, seed=1):
    rng = np.random.default_rng(seed)
    low, high = X.min(axis=0), X.max(axis=0)
    return rng.uniform(low - (high - low), high + (high - low), size=(n, X.shape[1]))


def _kept(model):
    """Rows of the training set that a method keeps."""
    for name in ("support_", "extreme_index_"):
        if hasattr(model, name):
            return getattr(model, name)
    return np.arange(len(model._X))


@pytest.mark.parametrize("estimator", KEEPING + KEEPING_NOTHING, ids=repr)
def test_answers_and_scores(iris, estimator):
    X, y = iris
    model = estimator.fit(X[:100], y[:100])
    Z = np.vstack([X[100:], _probes(X)])
    table = model.explain(Z)
    scores = model.decision_function(Z)
    assert table.columns.tolist() == COLUMNS
    assert_array_equal(table.answer, model.predict(Z))
    assert_array_equal(table.nearest_class, model.predict_known(Z))
    assert_allclose(table.score, scores.max(axis=1), atol=1e-6)
    assert_array_equal(table.deficit == 0, model.predict(Z) != "unknown")
    assert_allclose(table.deficit, np.maximum(0, -table.score))
    ranked = np.sort(scores, axis=1)
    assert_allclose(table.margin, ranked[:, -1] - ranked[:, -2], atol=1e-6)
    rows = np.arange(len(Z))
    second = np.searchsorted(model.classes_, table.runner_up.astype(str))
    assert_allclose(scores[rows, second], ranked[:, -2], atol=1e-6)
    for row, n in zip(table.itertuples(), (scores >= 0).sum(axis=1), strict=True):
        words = {0: f"none accepts; nearest is {row.nearest_class}; missed by "}
        words |= {1: f"accepted by {row.answer}"}
        words |= {2: f"two classes accept: {row.answer} before {row.runner_up}"}
        assert row.reason.startswith(words.get(n, f"{n} classes accept: {row.answer} before "))


@pytest.mark.parametrize("estimator", KEEPING, ids=repr)
def test_most_similar_sample_by_brute_force(iris, estimator):
    X, y = iris
    model = estimator.fit(X[:100], y[:100])
    Z = np.vstack([X[:20], X[100:], _probes(X)])
    table = model.explain(Z)
    kept = _kept(model)
    metric = getattr(model, "metric", "euclidean")
    distances = cdist(Z, X[kept], metric)
    assert_allclose(table.distance, distances.min(axis=1), atol=1e-7)
    own = cdist(Z, X, metric)[np.arange(len(Z)), table.similar.to_numpy(dtype=int)]
    assert_allclose(own, table.distance, atol=1e-7)  # whichever of equal ones it names
    assert set(table.similar) <= set(kept)


@pytest.mark.parametrize("estimator", KEEPING_NOTHING, ids=repr)
def test_nothing_kept(iris, estimator):
    X, y = iris
    table = estimator.fit(X, y).explain(X[:5])
    assert table.similar.isna().all() and table.distance.isna().all()
    assert table.region_gap.isna().all()


def test_dropped_rows_keep_their_numbers(iris):
    X, y = iris
    weight = (np.arange(len(X)) % 3 > 0).astype(float)
    model = OpenSetSVC().fit(X, y, sample_weight=weight)
    similar = model.explain(X[::3]).similar.to_numpy(dtype=int)
    assert np.all(similar % 3 > 0)
    kept = model.support_
    expected = kept[cdist(X[::3], X[kept]).argmin(axis=1)]
    assert_allclose(np.linalg.norm(X[::3] - X[similar], axis=1), cdist(X[::3], X[kept]).min(axis=1))
    assert np.mean(similar == expected) > 0.9


@pytest.mark.parametrize("estimator", CERTIFIED, ids=repr)
def test_gap_is_a_lower_bound_of_the_way_to_what_is_accepted(estimator):
    X, y = make_four_gauss(random_state=0)
    model = estimator.fit(X, y)
    span = X.max() - X.min()
    cloud = np.random.default_rng(2).uniform(X.min() - span, X.max() + span, size=(40_000, 2))
    accepted = cloud[model.predict(cloud) != model.unknown_label_]
    assert len(accepted) > 100
    Z = np.vstack([_probes(X, 150), X[:20], 20 * _probes(X, 20)])
    gap = model.explain(Z).region_gap.to_numpy()
    assert np.all(gap >= 0)
    assert np.all(gap <= cdist(Z, accepted).min(axis=1) + 1e-9)
    assert np.all(gap[model.predict(Z) != model.unknown_label_] == 0)
    if model.bounded_.all():
        assert np.all(gap[-20:][np.abs(Z[-20:]).max(axis=1) > 10 * span] > 0)
    else:
        assert np.all(gap == 0)


def test_gap_by_the_formula(iris):
    X, y = iris
    model = OpenSetSVC(gamma={"setosa": 0.3, "versicolor": 1.0, "virginica": 4.0}).fit(X, y)
    Z = 3 * _probes(X)
    gaps = [
        np.maximum(0, cdist(Z, model.support_vectors_[row > 0]).min(axis=1) - radius)
        for row, radius in zip(model.dual_coef_, model.known_radius_, strict=True)
    ]
    assert_allclose(model.explain(Z).region_gap, np.min(gaps, axis=0), atol=1e-9)


def test_classes_that_accept_nothing_are_infinitely_far(iris):
    X, y = iris
    model = OpenSetSVC(gamma=0.5).fit(X, y)
    model.dual_coef_ = np.minimum(model.dual_coef_, 0.0)
    model.intercept_ = np.full(3, -0.1)
    model.known_radius_ = np.zeros(3)
    assert np.all(model.explain(X[:3]).region_gap == np.inf)


def test_wide_and_sparse_samples():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(120, 90)) * (rng.uniform(size=(120, 90)) < 0.3)
    y = np.repeat([0, 1, 2], 40)
    X[np.arange(120), y] += 4
    dense = OpenSetSVC().fit(X, y)
    Z = X[::5] + 0.1
    table = dense.explain(Z)
    assert_allclose(table.distance, cdist(Z, dense.support_vectors_).min(axis=1), atol=1e-6)
    model = OpenSetSVC().fit(sparse.csr_matrix(X), y)
    for samples in (sparse.csr_matrix(Z), Z):
        same = model.explain(samples)
        assert_array_equal(same.similar, table.similar)
        assert_allclose(same.region_gap, table.region_gap, atol=1e-4)


def test_pipeline_and_search_speak_of_the_transformed_space(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.5)).fit(X, y)
    scaled = pipeline[0].transform(X)
    expected = pipeline[-1].explain(scaled[:9])
    pd.testing.assert_frame_equal(explain(pipeline, X[:9]), expected)
    search = OpenSetSearchCV(
        clone_of(pipeline), {"opensetsvc__lam": [0.1, 0.2]}, n_repeats=1, random_state=0
    ).fit(X, y)
    best = search.best_estimator_
    expected = best[-1].explain(best[0].transform(X[:9]))
    pd.testing.assert_frame_equal(search.explain(X[:9]), expected)
    pd.testing.assert_frame_equal(explain(FrozenEstimator(search), X[:9]), expected)
    search = OpenSetSearchCV(OpenSetSVC(), {"lam": [0.1]}, n_repeats=1, refit=False).fit(X, y)
    with pytest.raises(NotFittedError, match="refit=False"):
        search.explain(X)


def clone_of(pipeline):
    return make_pipeline(StandardScaler(), OpenSetSVC(gamma=pipeline[-1].gamma))


def test_tables_keep_their_index(iris):
    X, y = iris
    table = pd.DataFrame(X, columns=list("abcd"), index=np.arange(len(X)) + 1000)
    model = OpenSetSVC().fit(table, y)
    assert_array_equal(model.explain(table[:7]).index, np.arange(1000, 1007))
    assert_array_equal(model.explain(table[:7]).nearest_class, model.predict_known(table[:7]))
    model = OpenSetSVC().fit(X, y)
    pd.testing.assert_frame_equal(model.explain(X[:7].tolist()), model.explain(X[:7]))


def test_bad_input(iris):
    X, y = iris
    for estimator in (OpenSetSVC(), OSNN(), ExtremeValueMachine()):
        with pytest.raises(NotFittedError):
            estimator.explain(X)
        model = estimator.fit(X, y)
        with pytest.raises(ValueError, match="features"):
            model.explain(X[:, :2])
        with pytest.raises(ValueError, match="NaN"):
            model.explain(X * np.nan)
        with pytest.raises(ValueError, match="sample"):
            model.explain(X[:0])
    with pytest.raises(NotFittedError):
        explain(OpenSetSearchCV(OpenSetSVC()), X)
    with pytest.raises(TypeError, match="not an open-set estimator"):
        explain(LogisticRegression().fit(X, y), X)


def test_without_pandas(iris, monkeypatch):
    model = OSNN().fit(*iris)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'needs pandas; run: pip install "openset\[data\]"'):
        model.explain(iris[0])
