"""The planes of a 1-vs-Set machine, against the reference and an exhaustive search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from openset.svm import OneVsSetMachine
from openset.svm._planes import find_slab, risk, slab_scores


def risk_of(scores, positive, near, far, weight=None):
    weight = np.ones(len(scores)) if weight is None else weight
    inside = (scores >= near) & (scores <= far)
    spread = max(np.ptp(scores[positive]), 1e-4)
    found, retrieved = weight[inside & positive].sum(), weight[inside].sum()
    return risk(far - near, spread, found, retrieved, weight[positive].sum())


def test_worked_risk():
    assert_allclose(risk(1.7, 1.2, 8.0, 10.0, 9.0), 1.416667 + 1 + 2.375, atol=1e-6)
    assert risk(1.0, 1.0, 0.0, 5.0, 9.0) == 1e99
    assert risk(0.0, 1.0, 1.0, 1.0, 1.0) == risk(1e-4, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("name", ["onevset_1", "onevset_2"])
def test_reference_scores_with_the_planes_of_the_file(baselines, name):
    problem, methods, X, y, train, test = baselines
    expected = methods[name]["tight"]
    model = OneVsSetMachine(tol=1e-8).fit(X[train], y[train])
    order = np.searchsorted(model.classes_, expected["label_order"])
    assert_allclose(-model.intercept_[order], expected["rho"], atol=1e-4)
    near, far = np.array(expected["alpha_near_plane"]), np.array(expected["omega_far_plane"])
    scores = slab_scores(model.raw_scores(X[test])[:, order], near, far)
    assert_allclose(scores[:50], expected["first50"]["scores"], atol=1e-4)
    labels = np.array(expected["label_order"])[scores.argmax(axis=1)]
    answers = np.where(scores.max(axis=1) >= 0, labels, -1)
    assert_array_equal(answers[:50], expected["first50"]["label_with_rejection"])
    known = np.isin(y[test], problem["known_classes"])
    counts = expected["all_test_rows"]
    assert (answers == y[test])[known].sum() == counts["known_correct"]
    assert (answers == -1)[known].sum() == counts["known_rejected"]
    assert (answers == -1)[~known].sum() == counts["unknown_rejected"]


@pytest.mark.parametrize("search", ["exhaustive", "greedy"])
@pytest.mark.parametrize("name", ["onevset_1", "onevset_2"])
def test_the_risk_is_no_larger_than_in_the_reference(baselines, name, search):
    _, methods, X, y, train, _ = baselines
    expected = methods[name]["tight"]
    model = OneVsSetMachine(search=search, tol=1e-8).fit(X[train], y[train])
    scores = model.raw_scores(X[train])
    for label, near, far in zip(
        expected["label_order"],
        expected["alpha_near_plane"],
        expected["omega_far_plane"],
        strict=True,
    ):
        c = np.flatnonzero(model.classes_ == label)[0]
        f, own = scores[:, c], y[train] == label
        # A sample that lies on a plane must not fall out by rounding.
        ours = risk_of(f, own, model.near_[c] - 1e-5, model.far_[c] + 1e-5)
        theirs = risk_of(f, own, near - 1e-5, far + 1e-5)
        assert ours <= theirs + 1e-5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_no_pair_of_planes_is_better(seed, weighted):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 50)
    positive = np.append([True, False], rng.random(n - 2) < 0.4)
    scores = np.where(positive, rng.normal(0.3, 1, n), rng.normal(-1, 0.8, n)).round(1)  # ties
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    values = np.unique(scores)
    best = min(
        risk_of(scores, positive, near, far, weight)
        for i, near in enumerate(values)
        for far in values[i:]
    )
    slab = find_slab(scores, positive, weight, 1e-5, greedy=False)
    assert_allclose(risk_of(scores, positive, slab.near, slab.far, weight), best, rtol=1e-12)
    local = find_slab(scores, positive, weight, 1e-5, greedy=True)
    assert risk_of(scores, positive, local.near, local.far, weight) >= best - 1e-12


@pytest.mark.parametrize(
    ("scores", "signs", "slab"),
    [
        # negative below, positive at the planes, nothing above
        ([-1.0, 0.5, 1.5], [-1, 1, 1], (0.5, 1.5, -0.75, 0.5)),
        # nothing below either: the near plane moves by half the spread
        ([0.5, 1.5], [1, 1], (0.5, 1.5, -0.5, 0.5)),
        # a negative just above the slab: the far plane stays
        ([-1.0, 0.5, 1.5, 9.0], [-1, 1, 1, -1], (0.5, 1.5, -0.75, 0.0)),
    ],
)
def test_pressure_slopes(scores, signs, slab):
    found = find_slab(np.array(scores), np.array(signs) > 0, np.ones(len(signs)), 1e-5, False)
    assert_allclose([found.near, found.far, found.near_slope, found.far_slope], slab)


def test_slab_scores():
    f = np.array([[-2.0], [0.0], [0.5], [1.0], [1.5], [2.0], [3.0]])
    expected = [-1.0, 0.0, 0.25, 0.5, 0.25, 0.0, -0.5]
    assert_allclose(slab_scores(f, np.array([0.0]), np.array([2.0]))[:, 0], expected)
    for far in (0.0, -1.0):  # planes that coincide or have crossed
        assert_array_equal(slab_scores(f, np.array([0.0]), np.array([far])), -1.0)
