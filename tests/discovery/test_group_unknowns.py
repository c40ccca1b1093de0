"""Groups of unknowns are the classes that were withheld, found in the space of the model."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset import (
    CalibratedRejector,
    ExtremeValueMachine,
    OpenSetSearchCV,
    OpenSetSVC,
    ThresholdRejector,
)
from openset.datasets import load_dataset
from openset.discovery import group_unknowns

KNOWN = 3


@pytest.fixture(scope="module")
def blobs():
    """Six blobs of sizes 20, ..., 45; the first three are known."""
    centers = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [0, 2]])
    X, y = make_blobs([20, 25, 30, 35, 40, 45], centers=centers, cluster_std=0.8, random_state=0)
    rows = np.random.default_rng(0).permutation(len(y))
    return X[rows], y[rows]


@pytest.fixture(scope="module")
def model(blobs):
    X, y = blobs
    return OpenSetSVC(gamma=0.2, C=8.0).fit(X[y < KNOWN], y[y < KNOWN])


def assert_classes_found(found, estimator, X, y):
    """Groups are classes 5, 4, 3, the largest first; the labels say the same."""
    unknown = estimator.decision_function(X).max(axis=1) < 0
    np.testing.assert_array_equal(found.unknown, np.flatnonzero(unknown))
    assert [set(y[group.members].tolist()) for group in found.groups] == [{5}, {4}, {3}]
    for k, group in enumerate(found.groups):
        np.testing.assert_array_equal(np.sort(group.members), np.flatnonzero(found.labels == k))
    assert np.all((found.labels == -2) == ~unknown)
    assert sum(map(len, found.groups)) >= 0.9 * np.sum(y >= KNOWN)


def test_finds_withheld_classes(blobs, model):
    X, y = blobs
    found = group_unknowns(model, X)
    assert_classes_found(found, model, X, y)
    assert [group.label for group in found.groups] == [3, 4, 5]
    assert all(group.nearest_class in (0, 1, 2) for group in found.groups)
    assert len(found) == 3
    assert "typical rows" in str(found)


def test_typical_members_come_first(blobs, model):
    X, _ = blobs
    for group in group_unknowns(model, X).groups:
        P = X[group.members]
        distance = np.sqrt(((P[:, None] - P) ** 2).sum(axis=-1)).sum(axis=1) / (len(P) - 1)
        np.testing.assert_allclose(group.distance, distance, rtol=1e-9)
        assert np.all(np.diff(group.distance) >= 0)
        centre = np.linalg.norm(P - P.mean(axis=0), axis=1)
        assert centre[0] < np.median(centre)


def test_order_of_rows_does_not_matter(blobs, model):
    X, _ = blobs
    rows = np.random.default_rng(1).permutation(len(X))
    one, other = group_unknowns(model, X), group_unknowns(model, X[rows])
    for a, b in zip(one.groups, other.groups, strict=True):
        assert set(a.members) == set(rows[b.members])
        assert a.members[0] == rows[b.members[0]]


def test_works_behind_a_pipeline_in_its_space(blobs):
    # The second feature would drown the first, and with it the groups, if it were not scaled.
    X, y = blobs
    X = X * [1.0, 1e-6]
    known = y < KNOWN
    pipe = make_pipeline(StandardScaler(), OpenSetSVC(gamma=4.0, C=8.0)).fit(X[known], y[known])
    assert_classes_found(group_unknowns(pipe, X), pipe, X, y)


def test_works_behind_searches_and_wrappers(blobs):
    X, y = blobs
    X = X * [1.0, 1e-6]
    known = y < KNOWN
    pipe = make_pipeline(StandardScaler(), OpenSetSVC())
    grid = {"opensetsvc__gamma": [4.0], "opensetsvc__C": [8.0]}
    threshold = ThresholdRejector(
        make_pipeline(StandardScaler(), KNeighborsClassifier(1)), threshold=0.5
    )
    for estimator in [
        OpenSetSearchCV(pipe, grid, n_repeats=1, random_state=0),
        GridSearchCV(pipe, grid, cv=2),
    ]:
        estimator.fit(X[known], y[known])
        assert_classes_found(group_unknowns(estimator, X), estimator, X, y)
    # A neighbour is always near enough for this one.
    assert len(group_unknowns(threshold.fit(X[known], y[known]), X)) == 0


def test_works_with_calibrated_thresholds(blobs):
    X, y = blobs
    X = X * [1.0, 1e-6]
    known = y < KNOWN
    pipe = make_pipeline(StandardScaler(), OpenSetSVC(gamma=4.0, C=8.0)).fit(X[known], y[known])
    calibrated = CalibratedRejector(FrozenEstimator(pipe), alpha=0.02).fit(X[known], y[known])
    assert_classes_found(group_unknowns(calibrated, X), calibrated, X, y)


def test_uses_the_metric_of_the_model():
    # Two directions, at all lengths: groups by angle, none by distance.
    rng = np.random.default_rng(0)
    angle = np.repeat([0.2, 1.4, 3.0, 4.5], 40) + rng.normal(scale=0.02, size=160)
    X = np.exp(rng.uniform(-3, 3, size=160))[:, None] * np.column_stack(
        [np.cos(angle), np.sin(angle)]
    )
    y = np.repeat([0, 1, 2, 3], 40)
    model = ExtremeValueMachine(metric="cosine", threshold=0.5).fit(X[:80], y[:80])
    found = group_unknowns(model, X[80:], min_size=10)
    assert [set(y[80:][group.members].tolist()) for group in found.groups] == [{2}, {3}]


def test_sparse_rows(blobs):
    X, y = blobs
    model = OpenSetSVC(gamma=0.2, C=8.0).fit(sparse.csr_array(X[y < KNOWN]), y[y < KNOWN])
    assert_classes_found(group_unknowns(model, sparse.csr_array(X)), model, X, y)


def test_one_group_only_if_allowed(blobs, model):
    X, y = blobs
    one = X[y == 5]
    assert len(group_unknowns(model, one, min_size=20)) == 0
    (group,) = group_unknowns(model, one, min_size=20, allow_single=True).groups
    assert len(group) >= 20


def test_nothing_turned_away(blobs, model):
    X, y = blobs
    accepted = X[(y < KNOWN) & (model.predict(X) == y)]
    found = group_unknowns(model, accepted)
    assert len(found) == 0
    assert found.unknown.size == 0
    np.testing.assert_array_equal(found.labels, np.full(len(accepted), -2))


def test_too_few_turned_away(blobs, model):
    X, y = blobs
    few = np.vstack([X[y == 0][:5], X[y == 5][:4]])
    found = group_unknowns(model, few, min_size=5)
    assert len(found) == 0
    np.testing.assert_array_equal(found.labels[-4:], [-1] * 4)


def test_labels_of_groups_are_new():
    X, y = make_blobs(120, centers=4, cluster_std=0.3, random_state=3)
    known = y < 2
    names = np.array(["group a", "group_b"])[y[known]]
    model = OpenSetSVC(gamma=1.0).fit(X[known], names)
    labels = [group.label for group in group_unknowns(model, X[~known]).groups]
    assert labels == ["group__1", "group__2"]
    model = OpenSetSVC(gamma=1.0, unknown_label=50).fit(X[known], y[known])
    assert [group.label for group in group_unknowns(model, X[~known]).groups] == [51, 52]


def test_groups_can_be_learnt(blobs, model):
    X, y = blobs
    known = y < KNOWN
    model = OpenSetSVC(gamma=0.2, C=8.0).fit(X[known], y[known])
    found = group_unknowns(model, X)
    rows = np.concatenate([group.members for group in found.groups])
    names = np.repeat([group.label for group in found.groups], [len(g) for g in found.groups])
    model.add_classes(np.vstack([X[known], X[rows]]), np.append(y[known], names))
    assert np.mean(model.predict(X[rows]) == names) > 0.95


@pytest.mark.parametrize("min_size", [1, 0, 2.5, "5", True, None])
def test_bad_min_size(blobs, model, min_size):
    with pytest.raises(ValueError, match=r"min_size=.*must be 'auto' or an integer"):
        group_unknowns(model, blobs[0], min_size=min_size)


def test_bad_estimator_and_samples(blobs, model):
    X, y = blobs
    with pytest.raises(NotFittedError):
        group_unknowns(OpenSetSVC(), X)
    with pytest.raises(TypeError, match="not an open-set estimator"):
        group_unknowns(KNeighborsClassifier().fit(X, y), X)
    with pytest.raises(ValueError, match="NaN"):
        group_unknowns(model, np.full((3, 2), np.nan))
    with pytest.raises(ValueError, match="3 features"):
        group_unknowns(model, np.zeros((3, 3)))


def test_proposes_nothing_where_there_is_no_group(blobs):
    # Rejected samples of one broad cloud in many dimensions, for several draws.
    X, y = make_blobs(120, n_features=40, centers=3, random_state=0)
    model = OpenSetSVC(gamma=0.01, C=8.0).fit(X, y)
    for seed in range(4):
        cloud = 30 * np.random.default_rng(seed).normal(size=(600, 40))
        found = group_unknowns(model, cloud)
        assert len(found.unknown) > 500
        assert len(found) <= 1


def test_finds_groups_in_a_cloud(blobs):
    rng = np.random.default_rng(0)
    X, y = make_blobs(120, n_features=40, centers=3, random_state=0)
    model = OpenSetSVC(gamma=0.01, C=8.0).fit(X, y)
    centers = 30 * rng.normal(size=(4, 40))
    groups = [center + 5 * rng.normal(size=(60, 40)) for center in centers]
    found = group_unknowns(model, np.vstack([30 * rng.normal(size=(400, 40)), *groups]))
    truth = np.r_[np.full(400, -1), np.repeat(range(4), 60)]
    assert len(found) == 4
    for group in found.groups:
        assert np.mean(truth[group.members] == truth[group.members[0]]) > 0.9


@pytest.mark.parametrize("n_features", [4, 20])
def test_members_are_those_of_the_true_mixture(n_features):
    """Three normal distributions in a background: members as the best classifier has them."""
    rng = np.random.default_rng(0)
    X, y = make_blobs(120, n_features=n_features, centers=3, random_state=0)
    model = OpenSetSVC(gamma=10.0, C=8.0).fit(X, y)
    wide, apart, narrow = (30, 20, 4) if n_features == 4 else (20, 15, 11)
    parts = [(400, np.zeros(n_features), wide)]
    parts += [(100, apart * rng.normal(size=n_features), narrow) for _ in range(3)]
    new = np.vstack([mean + s * rng.normal(size=(n, n_features)) for n, mean, s in parts])
    density = [n * multivariate_normal(m, s**2 * np.eye(n_features)).pdf(new) for n, m, s in parts]
    found = group_unknowns(model, new)
    assert len(found) == 3
    # Labels of the groups in the order of the distributions.
    order = [np.argmax(np.bincount(found.labels[400 + 100 * k :][:100] + 2)) - 2 for k in range(3)]
    expected = np.array([-1, *order])[np.argmax(density, axis=0)]
    assert np.mean(found.labels == expected) > 0.97


def test_duplicates_and_constant_features():
    X, y = make_blobs(120, n_features=3, centers=3, cluster_std=0.5, random_state=0)
    X[:, 2] = 1.0
    model = OpenSetSVC(gamma=1.0).fit(X, y)
    new = np.repeat([[40.0, 40.0, 1.0], [-40.0, 40.0, 1.0]], 30, axis=0)
    found = group_unknowns(model, new)
    assert [group.members.tolist() for group in found.groups] == [
        list(range(30)),
        list(range(30, 60)),
    ]


@pytest.mark.parametrize("draw", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_held_back_intents(data_home, draw):
    """A small version of benchmarks/groups.py: 40 intents, ten more, out-of-scope queries."""
    bunch = load_dataset("clinc150-minilm", data_home=data_home)
    X, y, split = bunch.data, bunch.target.astype(str), bunch.split.astype(str)
    names = np.random.default_rng(draw).permutation(np.unique(y[split == "train"]))
    held, known = names[:10], names[10:50]
    rows = (split == "train") & np.isin(y, known)
    model = OpenSetSVC(C=8.0, gamma=2.0).fit(X[rows], y[rows])
    oos = split == "oos_test"
    assert len(group_unknowns(model, X[oos])) <= 1
    stream = np.flatnonzero(oos | np.isin(y, held))
    found = group_unknowns(model, X[stream])
    pure = {
        y[stream][group.members[0]]
        for group in found.groups
        if np.mean(y[stream][group.members] == y[stream][group.members[0]]) >= 0.9
    }
    assert len(pure & set(held)) >= 6
