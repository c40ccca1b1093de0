"""How many scores the Weibull models of an SVM are fitted to."""

import pytest

from openset.evt._svm import tail_size

N_SCORES = 40


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
    assert tail_size(n_support, N_SCORES, factor) == size


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
    assert tail_size(n_support, N_SCORES, 1.5, n_others) == size


@pytest.mark.parametrize(("n_support", "size"), [(10, 15), (27, 27), (2, 3), (1, 3)])
def test_abating(n_support, size):
    assert tail_size(n_support, N_SCORES, 1.5, fewest=0) == size
