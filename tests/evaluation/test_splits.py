"""Draws: what they hold, and that a seed always gives the same one."""

import numpy as np
import pytest

from openset.evaluation import draw_split, stratified_rows

COUNTS = [7, 20, 35, 4, 11]
Y = np.repeat(np.arange(5), COUNTS)


@pytest.mark.parametrize("seed", range(5))
def test_halves_of_the_known_and_all_of_the_unknown(seed):
    known, train, test = draw_split(Y, 3, random_state=seed)
    assert len(known) == 3
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(Y)))
    for c, count in enumerate(COUNTS):
        assert np.sum(Y[train] == c) == (count // 2 if c in known else 0)
        assert np.sum(Y[test] == c) == (count - count // 2 if c in known else count)


def test_a_draw_is_the_same_for_ever():
    # By hand from NumPy's legacy generator, whose numbers never change.
    rng = np.random.RandomState([3, 1, 4])
    known = np.sort(rng.permutation(5)[:2])
    rows = [rng.permutation(np.flatnonzero(Y == c))[: COUNTS[c] // 2] for c in known]
    split = draw_split(Y, 2, random_state=[3, 1, 4])
    np.testing.assert_array_equal(split.known, known)
    np.testing.assert_array_equal(split.train, np.sort(np.concatenate(rows)))


@pytest.mark.parametrize("n_known", [0, 5, 6])
def test_one_class_at_least_is_unknown(n_known):
    with pytest.raises(ValueError, match=f"n_known={n_known} must be from 1 to 4"):
        draw_split(Y, n_known)


def test_stratified_rows_keep_the_proportions():
    y = np.repeat(["a", "b", "c"], [1000, 100, 1])
    rows = stratified_rows(y, 110, random_state=0)
    labels, counts = np.unique(y[rows], return_counts=True)
    assert dict(zip(labels, counts, strict=True)) == {"a": 100, "b": 10, "c": 1}
    assert np.all(np.diff(rows) > 0)


def test_stratified_rows_of_small_classes():
    y = np.repeat(["big", "middle", "small"], [1000, 300, 6])
    rows = stratified_rows(y, 200, min_per_class=4, random_state=0)
    assert np.all(np.diff(rows) > 0)
    classes, counts = np.unique(y[rows], return_counts=True)
    # 1000 x 200 / 1306, ...
    assert dict(zip(classes, counts, strict=True)) == {"big": 153, "middle": 46, "small": 4}
    assert len(stratified_rows(y, 10_000)) == 1306
