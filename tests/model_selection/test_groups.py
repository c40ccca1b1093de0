"""Objects whose rows are alike: never on both sides of a simulation, in any search."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

from openset import CalibratedRejector, OpenSetSearchCV, OpenSetSVC, make_pipeline
from openset.calibration import KnownRejected
from openset.model_selection import ClosedSetSplit, OpenSetSplit, get_scorer
from openset.svm import MulticlassSVDD


def tracks(n_classes=6, n_objects=8, seed=0, spread=0.2):
    """Rows of objects of different sizes; objects of one class differ more than their rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, size=n_classes * n_objects)
    centre = 4 * rng.normal(size=(n_classes, 5)).repeat(n_objects, axis=0)
    centre += rng.normal(size=centre.shape)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    X = centre[groups] + spread * rng.normal(size=(len(groups), 5))
    return X, groups // n_objects, groups


def check(simulation, y, groups, n_known):
    """No group on both sides, every known class on both; nothing withheld is fitted."""
    known, fit, validation = simulation
    assert np.intersect1d(groups[fit], groups[validation]).size == 0
    assert np.intersect1d(fit, validation).size == 0
    assert_array_equal(np.unique(y[fit]), known)
    assert len(known) == n_known and np.isin(known, y[validation]).all()
    left_out = np.setdiff1d(np.arange(len(y)), np.concatenate([fit, validation]))
    assert np.isin(groups[left_out], groups[fit]).all()
    assert not np.isin(y[left_out], known).any()


def test_objects_of_one_class():
    _, y, groups = tracks()
    simulations = OpenSetSplit(20, random_state=0).simulate(y, groups=groups)
    shares = []
    for simulation in simulations:
        check(simulation, y, groups, 3)
        assert len(simulation.fit) + len(simulation.validation) == len(y)
        shares += [np.sum(y[simulation.fit] == c) / np.sum(y == c) for c in simulation.known]
    assert 0.45 < np.mean(shares) < 0.55 and min(shares) > 0.3 and max(shares) < 0.7


def test_objects_that_have_rows_of_many_classes():
    # As speakers who say all words: their rows of withheld words are left out.
    y, speakers = np.tile(np.repeat(np.arange(8), 3), 10), np.repeat(np.arange(10), 24)
    for simulation in OpenSetSplit(20, random_state=0).simulate(y, groups=speakers):
        check(simulation, y, speakers, 4)
        assert len(np.unique(speakers[simulation.fit])) == 5
        assert len(simulation.fit) == len(y) / 4 and len(simulation.validation) == len(y) / 2
    for simulation in ClosedSetSplit(5, test_size=0.2, random_state=0).simulate(y, groups=speakers):
        check(simulation, y, speakers, 8)
        assert len(simulation.validation) == len(y) / 5


def test_mixed_objects_and_any_labels_of_groups():
    rng = np.random.default_rng(3)
    y = rng.integers(5, size=400)
    groups = np.where(rng.random(400) < 0.5, y, rng.integers(100, 130, size=400))
    groups = np.where(rng.random(400) < 0.2, 50 + y, groups)
    names = np.array([f"track {g}" for g in groups])
    for labels in (groups, names, names.astype(object)):
        for simulation in OpenSetSplit(10, random_state=1).simulate(y, groups=labels):
            check(simulation, y, groups, 3)


@pytest.mark.parametrize("test_size", [0.5, 0.2, 0.93])
def test_one_row_per_object_is_a_split_without_groups(test_size):
    _, y, _ = tracks()
    splitter = OpenSetSplit(6, test_size=test_size, random_state=0)
    grouped = splitter.simulate(y, groups=np.arange(len(y)))
    for plain, simulation in zip(splitter.simulate(y), grouped, strict=True):
        for a, b in zip(plain, simulation, strict=True):
            assert_array_equal(a, b)


def test_bad_groups():
    _, y, groups = tracks()
    with pytest.raises(ValueError, match=r"groups has shape \(3,\), .* rows"):
        OpenSetSplit().simulate(y, groups=groups[:3])
    with pytest.raises(ValueError, match=r"groups has shape .* rows"):
        next(OpenSetSplit().split(None, y, groups[:, None]))
    holes = groups.astype(float)
    holes[7] = np.nan
    with pytest.raises(ValueError, match=r"groups\[7\] is missing"):
        OpenSetSplit().simulate(y, groups=holes)
    with pytest.raises(ValueError, match=r"all .* samples of class 5 are of one group"):
        OpenSetSplit().simulate(y, groups=np.where(y == 5, 0, groups))
    # Each class has two of three groups, so that one of the classes has both on the same side.
    with pytest.raises(ValueError, match="found no way in 100 draws"):
        ClosedSetSplit().simulate(list("aabbcc"), groups=[0, 1, 1, 2, 0, 2])


def scored(model, X, y):
    return get_scorer("normalized_accuracy")(model, X, y)


def test_a_search_with_groups_agrees_with_fits_one_by_one():
    X, y, groups = tracks()
    search = OpenSetSearchCV(OpenSetSVC(), {"gamma": [0.01, 0.3]}, n_repeats=3, random_state=0)
    search.fit(X, y, groups=groups)
    for s, (_, fit, validation) in enumerate(
        OpenSetSplit(3, random_state=0).simulate(y, groups=groups)
    ):
        for i, gamma in enumerate([0.01, 0.3]):
            model = OpenSetSVC(gamma=gamma).fit(X[fit], y[fit])
            expected = scored(model, X[validation], y[validation])
            assert search.cv_results_[f"split{s}_test_score"][i] == pytest.approx(expected)
    assert len(search.withheld_scores_)


@pytest.mark.parametrize(
    ("estimator", "level"),
    [
        (OpenSetSVC(unknown_label=5), "model"),
        (OpenSetSVC(unknown_label=5), "class"),
        (MulticlassSVDD(unknown_label=5), "model"),  # refuses known unknowns: all are judged
    ],
)
def test_levels_weights_and_known_unknowns(estimator, level):
    X, y, groups = tracks()
    options = {"n_repeats": 2, "random_state": 0, "refit": False, "level": level}
    weight = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    rows = weight > 0
    search = OpenSetSearchCV(estimator, {"gamma": [0.05, 0.5]}, **options)
    twin = OpenSetSearchCV(estimator, {"gamma": [0.05, 0.5]}, **options)
    search.fit(X, y, weight, groups=groups)
    twin.fit(X[rows], y[rows], weight[rows], groups=groups[rows])
    assert search.best_score_ == twin.best_score_
    assert np.isfinite(search.best_score_)
    with pytest.raises(ValueError, match="groups has shape"):
        search.fit(X, y, groups=groups[1:])


def test_searches_of_scikit_learn():
    X, y, groups = tracks()
    grid = {"gamma": [0.01, 0.3]}
    splitter = OpenSetSplit(3, random_state=0)
    ours = OpenSetSearchCV(OpenSetSVC(), grid, n_repeats=3, random_state=0).fit(X, y, groups=groups)
    options = {"scoring": scored, "cv": splitter}
    theirs = GridSearchCV(OpenSetSVC(), grid, **options).fit(X, y, groups=groups)
    expected = ours.cv_results_["mean_test_score"]
    assert theirs.cv_results_["mean_test_score"] == pytest.approx(expected)
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GridSearchCV(OpenSetSVC(), grid, **options).fit(X, y, groups=groups)
    assert routed.cv_results_["mean_test_score"] == pytest.approx(expected)
    # A splitter that knows nothing of unknowns keeps objects together, too.
    closed = GridSearchCV(OpenSetSVC(), grid, cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert closed.best_score_ > 0.5


def test_groups_are_routed():
    X, y, groups = tracks(n_objects=20)
    search = OpenSetSearchCV(OpenSetSVC(), {"gamma": [0.01, 0.3]}, n_repeats=2, random_state=0)
    rejector = CalibratedRejector(OpenSetSVC(gamma=0.05), criterion=KnownRejected(0.2))
    rejector.set_params(random_state=0)
    fold = GroupKFold(3)
    train = next(fold.split(X, y, groups))[0]
    expected = search.fit(X[train], y[train], groups=groups[train]).best_score_
    with sklearn.config_context(enable_metadata_routing=True):
        for model in (
            search.set_fit_request(groups=True, sample_weight=False),
            make_pipeline(rejector.set_fit_request(groups=True)),
        ):
            told = cross_validate(
                model, X, y, params={"groups": groups}, cv=fold, return_estimator=True
            )
            assert np.isfinite(told["test_score"]).all()
            if model is search:
                assert told["estimator"][0].best_score_ == expected
            else:
                fitted = told["estimator"][0][-1]
                rest = np.setdiff1d(np.arange(len(train)), fitted._fit_rows)
                own = groups[train]
                assert np.intersect1d(own[rest], own[fitted._fit_rows]).size == 0
    piped = make_pipeline(rejector.set_params(random_state=0))
    piped.fit(X, y, calibratedrejector__groups=groups)
    assert piped[-1].n_calibration_ < len(y) / 2
