"""The splitters: exact proportions, seeds, and no sample of a withheld class for fitting."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from openset.model_selection import ClosedSetSplit, OpenSetSplit
from openset.svm import OpenSetSVC


def labels(n_classes, seed=0):
    """Classes 0, 1, ... of 4, 5, 6, ... samples, shuffled."""
    y = np.repeat(np.arange(n_classes), np.arange(4, 4 + n_classes))
    return np.random.default_rng(seed).permutation(y)


def flat(splits):
    """Splits or simulations as nested lists, to compare."""
    return [[part.tolist() for part in split] for split in splits]


def check_halves(y, fit, validation, known):
    """Fitting holds floor(n_c / 2) samples of each known class and nothing else."""
    assert np.array_equal(np.sort(np.concatenate([fit, validation])), np.arange(len(y)))
    for part in (fit, validation):
        assert part.dtype.kind == "i"
        assert np.array_equal(part, np.sort(part))
    for c in np.unique(y):
        n_c = np.count_nonzero(y == c)
        assert np.count_nonzero(y[fit] == c) == (n_c // 2 if c in known else 0)
        assert np.count_nonzero(y[validation] == c) == (n_c - n_c // 2 if c in known else n_c)


@pytest.mark.parametrize(("n_classes", "n_known"), [(3, 2), (6, 3), (9, 5), (12, 6)])
def test_open_proportions(n_classes, n_known):
    y = labels(n_classes)
    splitter = OpenSetSplit(n_repeats=20, random_state=0)
    simulations = splitter.simulate(y)
    for simulation in simulations:
        assert np.array_equal(simulation.known, np.unique(y[simulation.fit]))
        assert len(simulation.known) == n_known
        check_halves(y, simulation.fit, simulation.validation, simulation.known)
    assert flat(splitter.split(np.zeros((len(y), 2)), y)) == flat(s[1:] for s in simulations)
    assert splitter.get_n_splits() == len(simulations) == 20


@pytest.mark.parametrize(("n_classes", "n_known"), [(3, 2), (6, 3), (9, 5), (12, 6)])
def test_proportions_for_the_machine_of_a_class(n_classes, n_known):
    y = labels(n_classes)
    for c in range(n_classes):
        for known, fit, validation in OpenSetSplit(random_state=0).simulate(y, positive=c):
            assert c in known
            assert len(known) == n_known
            assert np.array_equal(known, np.unique(y[fit]))
            check_halves(y, fit, validation, known)


@pytest.mark.parametrize("n_classes", [1, 2, 3, 12])
def test_closed_proportions(n_classes):
    y = labels(n_classes)
    splitter = ClosedSetSplit(n_repeats=4, random_state=0)
    for fit, validation in splitter.split(None, y):
        check_halves(y, fit, validation, range(n_classes))
    assert flat(splitter.simulate(y)) == flat(splitter.simulate(y, positive=0))
    assert ClosedSetSplit().get_n_splits() == 1


@pytest.mark.parametrize("n_known", [1, 2, 5])
def test_n_known(n_known):
    for known, fit, validation in OpenSetSplit(n_known=n_known, random_state=0).simulate(labels(6)):
        assert len(known) == n_known
        check_halves(labels(6), fit, validation, known)


@pytest.mark.parametrize(
    ("test_size", "n_fit"), [(0.07, 93), (0.25, 75), (0.9, 10), (0.999, 1), (1e-12, 99)]
)
def test_share_held_out_is_rounded_up_but_not_by_rounding_errors(test_size, n_fit):
    y = np.repeat(["a", "b", "c"], 100)
    for splitter in (OpenSetSplit(test_size=test_size), ClosedSetSplit(test_size=test_size)):
        for known, fit, _ in splitter.simulate(y):
            assert [np.count_nonzero(y[fit] == c) for c in known] == [n_fit] * len(known)


@pytest.mark.parametrize("Split", [OpenSetSplit, ClosedSetSplit])
class TestSeeds:
    def test_an_int_gives_the_same_splits_again(self, Split):
        splitter = Split(n_repeats=5, random_state=3)
        y = labels(6)
        assert flat(splitter.split(None, y)) == flat(splitter.split(None, y))
        for copy in (clone(splitter, safe=False), pickle.loads(pickle.dumps(splitter))):
            assert flat(copy.split(None, y)) == flat(splitter.split(None, y))
        assert flat(splitter.split(None, y)) != flat(Split(5, random_state=4).split(None, y))

    def test_a_repeat_does_not_depend_on_their_number(self, Split):
        y = labels(6)
        five = flat(Split(n_repeats=5, random_state=0).split(None, y))
        two = flat(Split(n_repeats=2, random_state=0).split(None, y))
        assert five[:2] == two

    def test_repeats_differ(self, Split):
        fits = {tuple(fit) for fit, _ in Split(n_repeats=20, random_state=0).split(None, labels(6))}
        assert len(fits) == 20

    def test_a_random_state_moves_on(self, Split):
        y = labels(6)
        splitter = Split(random_state=np.random.RandomState(0))
        first, second = flat(splitter.split(None, y)), flat(splitter.split(None, y))
        assert first != second
        assert flat(Split(random_state=np.random.RandomState(0)).split(None, y)) == first

    def test_none_is_random(self, Split):
        assert flat(Split().split(None, labels(12))) != flat(Split().split(None, labels(12)))

    def test_names_of_the_classes_do_not_matter(self, Split):
        y = labels(4)
        named = np.array(["a", "b", "c", "d"])[y]
        expected = flat(Split(random_state=0).split(None, y))
        for same in (
            named,
            named.tolist(),
            named.astype(object),
            pd.Series(named),
            pd.Series(named).astype("category"),
            pd.Series(named, index=np.arange(len(y))[::-1]),
        ):
            assert flat(Split(random_state=0).split(None, same)) == expected


def test_classes_and_samples_are_drawn_evenly():
    y = np.repeat(np.arange(4), 2)
    simulations = OpenSetSplit(n_repeats=1200, random_state=0).simulate(y)
    pairs, counts = np.unique([s.known for s in simulations], axis=0, return_counts=True)
    assert len(pairs) == 6
    assert np.all(np.abs(counts - 200) < 5 * np.sqrt(200 * 5 / 6))
    fitted = np.bincount(np.concatenate([s.fit for s in simulations]), minlength=len(y))
    assert np.all(np.abs(fitted - 300) < 5 * np.sqrt(300 * 3 / 4))


@pytest.mark.parametrize(
    ("n_classes", "n_known", "period"), [(3, None, 3), (6, None, 2), (9, None, 9), (6, 4, 3)]
)
def test_every_class_is_withheld_equally_often(n_classes, n_known, period):
    y = labels(n_classes)
    splitter = OpenSetSplit(4 * period, n_known=n_known, random_state=1)
    known = np.array([np.isin(np.arange(n_classes), s.known) for s in splitter.simulate(y)])
    for rounds in known.reshape(4, period, n_classes):
        assert len(set(rounds.sum(axis=0))) == 1
    # Rounds differ, and whatever the number of repeats, no class is withheld much more often.
    assert len({tuple(row) for row in known}) > min(period, 3) - 1
    counts = np.cumsum(~known, axis=0)
    assert np.max(counts.max(axis=1) - counts.min(axis=1)) <= 2


def test_the_negatives_of_a_machine_are_withheld_equally_often():
    y = labels(6)
    simulations = OpenSetSplit(10, random_state=0).simulate(y, positive=2)
    known = np.array([np.isin(np.arange(6), s.known) for s in simulations])
    assert known[:, 2].all()
    assert np.delete(known, 2, axis=1).sum(axis=0).tolist() == [4] * 5


def test_draws_of_the_machines_are_independent():
    y = np.repeat(np.arange(5), 4)
    splitter = OpenSetSplit(n_repeats=400, n_known=2, random_state=0)
    partner = {
        c: [int(s.known[s.known != c][0]) for s in splitter.simulate(y, positive=c)] for c in (0, 1)
    }
    assert np.all(np.abs(np.bincount(partner[0], minlength=5)[1:] - 100) < 45)
    agree = np.mean(np.array(partner[0]) == np.array(partner[1]))  # 3 / 16 if independent
    assert abs(agree - 3 / 16) < 0.1


def test_what_is_fitted_in_a_search_never_saw_a_withheld_class():
    seen = []

    class Spy(OpenSetSVC):
        def fit(self, X, y, sample_weight=None):
            seen.append((X[:, 0].astype(int), np.unique(y)))
            return super().fit(X, y, sample_weight)

    y = labels(5)
    X = np.column_stack([np.arange(len(y)), y])  # a row carries its index
    search = GridSearchCV(
        Spy(gamma=0.1),
        {"C": [1.0, 8.0]},
        scoring=lambda estimator, X, y: 0.0,
        cv=OpenSetSplit(random_state=0),
        refit=False,
    )
    search.fit(X, y)
    simulations = OpenSetSplit(random_state=0).simulate(y)
    assert len(seen) == 12
    for rows, classes in seen:
        assert any(
            np.array_equal(rows, s.fit) and np.array_equal(classes, s.known) for s in simulations
        )


@pytest.mark.parametrize("Split", [OpenSetSplit, ClosedSetSplit])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_repeats": 0}, "'n_repeats' parameter of .*Split must be an int.* Got 0"),
        ({"n_repeats": 2.5}, "'n_repeats' .* Got 2.5"),
        ({"test_size": 0}, "'test_size' .* Got 0"),
        ({"test_size": 1.0}, "'test_size' .* Got 1.0"),
        ({"test_size": 3}, "'test_size' .* Got 3"),
        ({"random_state": "seed"}, "'random_state' .* Got 'seed'"),
    ],
)
def test_bad_parameters(Split, parameters, message):
    with pytest.raises(ValueError, match=message):
        next(Split(**parameters).split(None, labels(4)))


@pytest.mark.parametrize("Split", [OpenSetSplit, ClosedSetSplit])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y is None"),
        (["a", "a", "b", "b", "c"], "1 sample of class 'c'.*at least 2"),
        ([0, 0, 1, 1, 7], "1 sample of class 7"),
        (["a", "a", 1, 1, "c", "c"], "objects of types"),
        ([0.5, 0.5, 1.5, 1.5, 2.5, 2.5], "Unknown label type"),
        (np.zeros((6, 2)), "1d array"),
        ([], "y is empty"),
    ],
)
def test_bad_labels(Split, y, message):
    with pytest.raises(ValueError, match=message):
        list(Split().split(None, y))


@pytest.mark.parametrize("y", [["a", "a"], ["a", "a", "b", "b"]])
def test_too_few_classes_to_withhold_some(y):
    with pytest.raises(ValueError, match=r"at least 3 classes.*\['a'.*Use ClosedSetSplit"):
        OpenSetSplit().simulate(y)


@pytest.mark.parametrize(
    ("n_known", "positive", "message"),
    [
        (4, None, "n_known=4 must be from 1 to 3"),
        (0, None, "'n_known' .* Got 0"),
        ("half", None, "'n_known' .* Got 'half'"),
        (1, "a", "n_known=1 must be from 2 to 3"),
        (2, "z", "positive='z' is not a class of y"),
    ],
)
def test_bad_numbers_of_known_classes(n_known, positive, message):
    with pytest.raises(ValueError, match=message):
        OpenSetSplit(n_known=n_known).simulate(list("aabbccdd"), positive)


def test_x_and_y_of_different_length():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        next(OpenSetSplit().split(np.zeros((3, 1)), labels(4)))


def test_repr():
    assert repr(OpenSetSplit(3, random_state=0)) == (
        "OpenSetSplit(n_known=None, n_repeats=3, random_state=0, test_size=0.5,\n"
        "       unknown_label='auto')"
    )
