"""Discoveries learned from the batch: exchanged rows, copies of rows, the promise, bad input."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset import CalibratedRejector, MulticlassSVDD, OpenSetSVC
from openset.calibration import find_unknowns
from openset.traffic import LearnedScore

CENTRES = np.array([[0.0, 0, 0], [5, 0, 0], [0, 5, 0], [4, 4, 1.0]])  # the last is unknown


def known(rng, n, step=None):
    y = rng.integers(3, size=n)
    X = CENTRES[y] + rng.normal(size=(n, 3))
    return (X if step is None else np.round(X / step) * step), y


def unknown(rng, n, step=None):
    X = CENTRES[3] + 0.7 * rng.normal(size=(n, 3))
    return X if step is None else np.round(X / step) * step


@pytest.mark.parametrize("step", [None, 1.0], ids=["distinct", "copies"])
def test_exchanging_rows_changes_no_p_value(step):
    """Equal, not close: what decides is the set of rows, not where a row comes from."""
    rng = np.random.default_rng(0)
    X, y = known(rng, 300, step)
    score = LearnedScore(OpenSetSVC(gamma=0.2), random_state=0).fit(X, y)
    batch = np.vstack([known(rng, 100, step)[0], unknown(rng, 40, step)])
    calibration, scores = score.batch_scores(batch)
    everything = np.concatenate([calibration, scores])
    order = rng.permutation(len(everything))
    mixed = np.vstack([score._Z_rest, batch])[order]
    n = score.n_calibration_
    score._Z_rest = mixed[:n]
    exchanged = np.concatenate(score.batch_scores(mixed[n:]))
    np.testing.assert_array_equal(exchanged, everything[order])


def test_sparse_rows_give_the_same_order_of_known():
    rng = np.random.default_rng(1)
    X, y = known(rng, 200)
    batch = np.vstack([known(rng, 60)[0], unknown(rng, 30)])
    dense, other = (
        LearnedScore(OpenSetSVC(gamma=0.2), random_state=0)
        .fit(kind(X), y)
        .batch_scores(kind(batch))
        for kind in (np.asarray, sparse.csr_matrix)
    )
    assert np.corrcoef(dense[1], other[1])[0, 1] > 0.9  # the folds differ
    first = np.concatenate([other[0], other[1]])
    assert len(first) == 100 + 90


@pytest.mark.parametrize("step", [None, 1.0], ids=["distinct", "copies"])
def test_false_discovery_rate(step):
    proportions, found = [], []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X, y = known(rng, 240, step)
        batch = np.vstack([known(rng, 80, step)[0], unknown(rng, 40, step)])
        score = LearnedScore(OpenSetSVC(gamma=0.2), random_state=seed).fit(X, y)
        reported = find_unknowns(score, batch, q=0.2, learn=True)
        proportions.append(reported[:80].sum() / max(1, reported.sum()))
        found.append(reported[80:].mean())
    assert np.mean(proportions) <= 0.2 + 3 * np.std(proportions) / 5
    assert np.mean(found) > 0.3


def test_it_finds_more_than_without_learning():
    rng = np.random.default_rng(3)
    X, y = known(rng, 400)
    batch = np.vstack([known(rng, 200)[0], unknown(rng, 60)])
    model = make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.5))
    learned = find_unknowns(LearnedScore(model, random_state=0).fit(X, y), batch, q=0.1, learn=True)
    plain = CalibratedRejector(model, calibration_size=0.5, random_state=0).fit(X, y)
    assert learned[200:].sum() > find_unknowns(plain, batch, q=0.1)[200:].sum()


def test_known_unknowns_train_and_never_calibrate():
    rng = np.random.default_rng(4)
    X, y = known(rng, 200)
    X = np.vstack([X, unknown(rng, 20)])
    y = np.append(y, np.full(20, -1))
    score = LearnedScore(OpenSetSVC(gamma=0.2, unknown_label=-1), random_state=0).fit(X, y)
    assert score.n_calibration_ == 100
    assert score.model_.n_known_unknowns_ == 20


def test_bad_input():
    rng = np.random.default_rng(5)
    X, y = known(rng, 60)
    score = LearnedScore(OpenSetSVC(gamma=0.2), random_state=0).fit(X, y)
    plain = CalibratedRejector(OpenSetSVC(gamma=0.2), calibration_size=0.5).fit(X, y)
    with pytest.raises(TypeError, match="model is a LearnedScore and learn=False"):
        find_unknowns(score, X)
    with pytest.raises(TypeError, match=r"takes a fitted openset\.traffic\.LearnedScore"):
        find_unknowns(plain, X, learn=True)
    with pytest.raises(ValueError, match="groups cannot be combined with learn=True"):
        find_unknowns(score, X, learn=True, groups=np.zeros(60))
    with pytest.raises(ValueError, match=r"q=0\.01 needs at least 99 calibration samples"):
        find_unknowns(score, X, q=0.01, learn=True)
    with pytest.raises(ValueError, match="have 3 features"):
        find_unknowns(score, X[:, :2], learn=True)
    with pytest.raises(ValueError, match="MulticlassSVDD cannot learn from weighted known"):
        LearnedScore(MulticlassSVDD()).fit(X, y)
    with pytest.raises(ValueError, match="calibration_size"):
        LearnedScore(OpenSetSVC(), calibration_size=1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"leaves no row of \[9\] to fit"):
        LearnedScore(OpenSetSVC(), calibration_size=0.9, random_state=0).fit(
            np.vstack([X, [[9, 9, 9]]]), np.append(y, 9)
        )
    with pytest.raises(ValueError, match="'estimator' parameter of LearnedScore must be"):
        LearnedScore(StandardScaler()).fit(X, y)
