"""Draws: what they hold, and that they are always the same."""

import numpy as np
import pytest

from openset.datasets import load_dataset
from openset.evaluation import draw_split
from openset.study import make_split

COUNTS = [7, 20, 35, 4, 11]
Y = np.repeat(np.arange(5), COUNTS)


@pytest.mark.parametrize("run", range(5))
def test_halves_of_the_known_and_all_of_the_unknown(run):
    known, train, test = make_split(Y, "made", 3, run)
    assert len(known) == 3
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(Y)))
    for c, count in enumerate(COUNTS):
        assert np.sum(Y[train] == c) == (count // 2 if c in known else 0)
        assert np.sum(Y[test] == c) == (count - count // 2 if c in known else count)


def _rows(split):
    return tuple(split.train)


def test_a_draw_depends_on_each_of_its_arguments_and_on_nothing_else():
    first = make_split(Y, "made", 3, 0, 0)
    again = make_split(Y, "made", 3, 0, 0)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    others = [("Made", 3, 0, 0), ("made", 4, 0, 0), ("made", 3, 1, 0), ("made", 3, 0, 1)]
    assert len({_rows(make_split(Y, *args)) for args in [("made", 3, 0, 0), *others]}) == 5


def test_the_seed_of_a_draw_is_the_hash_of_its_name():
    # From `printf 0/yeast/3/0 | sha256sum`, the words in little-endian order.
    digest = "6f4fb8fef0ecf0487b28e4c4af50cfc3abe0d72219474f4a9bcb4f623a948a3d"
    expected = draw_split(Y, 3, random_state=np.frombuffer(bytes.fromhex(digest), "<u4"))
    assert _rows(make_split(Y, "yeast", 3, 0, 0)) == _rows(expected)


def test_all_classes_are_drawn_equally_often():
    drawn = np.concatenate([make_split(Y, "made", 2, run).known for run in range(500)])
    # Binomial, 500 draws with probability 2/5: five deviations.
    assert np.all(np.abs(np.bincount(drawn) - 200) < 5 * np.sqrt(500 * 0.24))


@pytest.mark.parametrize("n_known", [0, 5, 6])
def test_one_class_at_least_is_unknown(n_known):
    with pytest.raises(ValueError, match=f"n_known={n_known} must be from 1 to 4"):
        make_split(Y, "made", n_known, 0)


def test_counts_of_the_published_experiments(data_home):
    # In every experiment on yeast ceil(n_c / 2) of each known class and all others were tested.
    _, y = load_dataset("yeast", data_home, return_X_y=True)
    counts = np.bincount(y)
    for run in range(3):
        known, _, test = make_split(y, "yeast", 6, run)
        is_known = np.isin(y[test], known)
        assert is_known.sum() == np.sum((counts[known] + 1) // 2)
        assert (~is_known).sum() == len(y) - counts[known].sum()
