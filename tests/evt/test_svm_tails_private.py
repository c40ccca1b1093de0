"""How many scores the Weibull models of an SVM are fitted to."""

import numpy as np
import pytest

from openset.evt._svm import abating_tail, exclusion_tail, inclusion_tail


def tail_size(tail, scores):
    """The location of a model is the innermost of the scores it was fitted to."""
    ranked = np.sort(scores)[:: -tail.sign]
    return int(np.flatnonzero(ranked == tail.location[0])[0]) + 1


SCORES = np.random.default_rng(0).permutation(np.arange(40.0))


@pytest.mark.parametrize(
    ("n_support", "factor", "size"),
    [
        (10, 1.5, 15),  # 1.5 times the support vectors
        (11, 1.5, 16),  # rounded down
        (26, 1.5, 39),
        (27, 1.5, 27),  # 40 of 40 scores would be no tail
        (2, 1.5, 3),  # not more than 3: the number of support vectors, but at least 3
        (1, 1.5, 3),
        (10, 0.5, 5),
        (6, 0.5, 6),
    ],
)
def test_inclusion(n_support, factor, size):
    assert tail_size(inclusion_tail(SCORES, n_support, factor, 1e-3), SCORES) == size


@pytest.mark.parametrize(
    ("n_support", "n_others", "size"),
    [
        (12, 1, 18),
        (12, 3, 6),
        (30, 1, 30),  # 45 would be all
        (8, 3, 4),
        (7, 3, 7),  # not more than 3: all support vectors
        (1, 3, 3),
    ],
)
def test_exclusion(n_support, n_others, size):
    tail = exclusion_tail(SCORES, n_support, n_others, 1.5, 1e-3)
    assert tail_size(tail, SCORES) == size


@pytest.mark.parametrize(("n_support", "size"), [(10, 15), (27, 27), (2, 3), (1, 3)])
def test_abating(n_support, size):
    assert tail_size(abating_tail(SCORES, n_support, 1.5, 1e-3), SCORES) == size


def test_no_more_scores_than_there_are():
    scores = np.array([0.0, 1.0])
    assert tail_size(inclusion_tail(scores, 2, 1.5, 1e-3), scores) == 2
