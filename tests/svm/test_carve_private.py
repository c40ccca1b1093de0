"""Where decision boundary carving puts a threshold: worked numbers, and no better place."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import balanced_accuracy_score

from openset.svm._planes import carve

WORKED = np.array([0.2, 0.5, 0.9, 1.1, -1.2, -0.9, -0.8, -0.3, 0.3, 0.4]), np.arange(10) < 4


@pytest.mark.parametrize(("position", "epsilon"), [(0.0, 0.4), (0.5, 0.45), (1.0, 0.5)])
def test_worked_numbers(position, epsilon):
    scores, positive = WORKED
    assert_allclose(carve(scores, positive, np.ones(10), position), epsilon)
    accepted = scores >= 0.45
    assert balanced_accuracy_score(positive, accepted) == 0.875


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_no_threshold_is_better(seed, weighted):
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 40)
    scores = rng.normal(size=n).round(1)  # with ties
    positive = np.append([True, False], rng.random(n - 2) < 0.4)
    weight = rng.integers(1, 4, size=n) if weighted else np.ones(n)

    def error(epsilon):
        accepted = scores >= epsilon
        missed = weight[positive & ~accepted].sum() / weight[positive].sum()
        return missed + weight[~positive & accepted].sum() / weight[~positive].sum()

    epsilon = carve(scores, positive, weight, 0.5)
    assert np.any(scores[positive] >= epsilon)
    others = np.linspace(scores.min() - 1, scores.max(), 500)
    assert error(epsilon) <= min(error(other) for other in others) + 1e-12
    if weighted:
        copies = np.repeat(np.arange(n), weight)
        same = carve(scores[copies], positive[copies], np.ones(len(copies)), 0.5)
        assert_allclose(epsilon, same)


def test_of_several_best_intervals_the_nearest_to_zero():
    # One mistake at -0.5 or at 2.5; nothing in between is better.
    scores = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
    positive = np.array([False, False, True, False, True, True])
    weight = np.ones(6)
    assert_allclose(carve(scores, positive, weight, 0.5), -1.5)
    assert_allclose(carve(scores + 0.4, positive, weight, 0.5), -1.1)
    assert_allclose(carve(scores - 0.6, positive, weight, 0.5), 0.9)


def test_useless_scores_reject_nothing():
    assert carve(np.array([-1.0, 2.0]), np.array([True, False]), np.ones(2), 0.5) < -1
    assert carve(np.ones(4), np.arange(4) < 2, np.ones(4), 0.99) < 1
