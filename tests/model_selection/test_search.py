"""What the search does: presets, levels, ties, fallbacks, progress and interruption."""

import os
import re
import signal
import threading
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from openset import OneVsRestSVC, OpenSetSVC
from openset.evt import ExtremeValueMachine
from openset.model_selection import ClosedSetSplit, OpenSetSearchCV, OpenSetSplit, get_scorer

SMALL = {"gamma": [0.02, 0.2], "lam": [0.0, 0.5]}


@pytest.fixture(scope="module")
def blobs():
    """Five overlapping classes, 20 samples each."""
    return make_blobs([20] * 5, n_features=3, cluster_std=2.5, random_state=3)


def scores_of(search):
    names = sorted(
        name for name in search.cv_results_ if re.fullmatch(r"split\d+_test_score", name)
    )
    return np.column_stack([search.cv_results_[name] for name in names])


def values_of(search, name):
    """The numbers that were tried; the estimator's own width may have a name."""
    return sorted({v for v in search.cv_results_[f"param_{name}"] if not isinstance(v, str)})


@pytest.mark.parametrize("scaled", [False, True])
def test_default_preset(blobs, scaled):
    X, y = blobs
    X = 100 * X
    model = make_pipeline(StandardScaler(), OpenSetSVC()) if scaled else OpenSetSVC()
    prefix = "opensetsvc__" if scaled else ""
    search = OpenSetSearchCV(model, random_state=0).fit(X, y)
    assert (search.level_, search.scenario_, search.n_splits_) == ("model", "open", 6)
    assert values_of(search, f"{prefix}C") == [1.0, 8.0]
    fractions = [0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert values_of(search, f"{prefix}lam") == fractions
    rows = X[OpenSetSplit(6, random_state=0).simulate(y)[0].fit]
    if scaled:
        rows = StandardScaler().fit_transform(rows)
    expected = 2.0 ** np.arange(-5, 8, 2) / (rows.shape[1] * rows.var())
    settings = search.cv_results_["params"]  # the grid, finer widths, the estimator's own setting
    grid = settings[: 2 * 9 * 7]
    assert sorted({s[f"{prefix}gamma"] for s in grid}) == pytest.approx(expected)
    assert len({tuple(s.values()) for s in grid}) == len(grid)
    gammas = [s[f"{prefix}gamma"] for s in settings[:-1]]
    assert all(type(gamma) is float for gamma in gammas)  # frozen, whatever is fitted next
    assert settings[-1][f"{prefix}gamma"] == "scale"
    assert search.best_params_[f"{prefix}gamma"] in gammas


@pytest.mark.parametrize(("model", "n_lams"), [(OpenSetSVC(), 20), (OneVsRestSVC(), 1)])
def test_paper_preset(blobs, model, n_lams):
    X, y = blobs
    search = OpenSetSearchCV(model, preset="paper", random_state=0).fit(X, y)
    assert (search.level_, search.n_splits_) == ("class", 1)
    assert values_of(search, "gamma") == [2.0**k for k in range(-15, 16, 2)]
    assert "param_C" not in search.cv_results_
    assert len(search.cv_results_["params"]) == 5 * 16 * n_lams
    assert all(set(by_class) == set(range(5)) for by_class in search.best_params_.values())
    np.testing.assert_array_equal(
        search.best_estimator_.gamma_, list(search.best_params_["gamma"].values())
    )


def test_what_is_given_goes_before_the_preset(blobs):
    X, y = blobs
    search = OpenSetSearchCV(
        OpenSetSVC(), SMALL, preset="paper", level="model", n_repeats=2, random_state=0
    ).fit(X, y)
    assert (search.level_, search.n_splits_) == ("model", 2)
    assert len(search.cv_results_["params"]) == 4
    search = OpenSetSearchCV(OpenSetSVC(), SMALL, level="class", random_state=0).fit(X, y)
    assert (search.level_, search.n_splits_) == ("class", 6)


@pytest.mark.parametrize("level", ["model", "class"])
def test_form_of_the_results(blobs, level):
    X, y = blobs
    y = np.array(list("abcde"))[y]
    search = OpenSetSearchCV(
        OpenSetSVC(), SMALL, level=level, n_repeats=3, all_scores=True, random_state=0
    )
    frame = pd.DataFrame(search.fit(X, y).cv_results_)
    assert len(frame) == (4 if level == "model" else 20)
    splits = frame[[f"split{s}_test_score" for s in range(3)]]
    np.testing.assert_allclose(frame["mean_test_score"], splits.mean(axis=1))
    np.testing.assert_allclose(frame["std_test_score"], splits.std(axis=1, ddof=0))
    for row in frame.itertuples():
        assert row.params == {"gamma": row.param_gamma, "lam": row.param_lam}
    parts = [frame] if level == "model" else [part for _, part in frame.groupby("class")]
    for part in parts:
        ranks = part["mean_test_score"].round(12).rank(ascending=False, method="min")
        np.testing.assert_array_equal(part["rank_test_score"], ranks)
    if level == "model":
        best = frame.loc[search.best_index_]
        assert best["rank_test_score"] == 1
        assert (best["params"], best["mean_test_score"]) == (
            search.best_params_,
            search.best_score_,
        )
    else:
        assert list(frame["class"]) == np.repeat(list("abcde"), 4).tolist()
        for c, index, part in zip("abcde", search.best_index_, parts, strict=True):
            best = part.iloc[index]
            assert best["rank_test_score"] == 1
            assert best["params"] == {name: own[c] for name, own in search.best_params_.items()}


def test_grids_in_a_list(blobs):
    X, y = blobs
    grid = [{"gamma": [0.1, "scale"], "lam": [0.2]}, {"C": [2.0]}]
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-6), grid, n_repeats=2, random_state=0).fit(X, y)
    assert search.cv_results_["params"] == [
        {"gamma": 0.1, "lam": 0.2},
        {"gamma": "scale", "lam": 0.2},
        {"C": 2.0},
    ]
    np.testing.assert_array_equal(search.cv_results_["param_C"].mask, [True, True, False])
    for params, scores in zip(search.cv_results_["params"], scores_of(search), strict=True):
        for s, score in zip(OpenSetSplit(2, random_state=0).simulate(y), scores, strict=True):
            single = OpenSetSVC(tol=1e-6, ensure_bounded=False).set_params(**params)
            single.fit(X[s.fit], y[s.fit])
            expected = get_scorer("normalized_accuracy", require_bounded=True)(
                single, X[s.validation], y[s.validation]
            )
            assert score == pytest.approx(expected, abs=0.03)


def test_repeats_are_nested(blobs):
    X, y = blobs
    few, many = (
        OpenSetSearchCV(OpenSetSVC(), SMALL, n_repeats=n, random_state=0).fit(X, y) for n in (2, 4)
    )
    assert scores_of(many).shape == (4, 4)
    np.testing.assert_array_equal(scores_of(few), scores_of(many)[:, :2])


def test_closed_scenario_judges_by_accuracy(blobs):
    X, y = blobs
    search = OpenSetSearchCV(
        OpenSetSVC(tol=1e-6), {"gamma": [0.2]}, scenario="closed", n_repeats=2, random_state=0
    ).fit(X, y)
    assert search.scenario_ == "closed"
    for s, score in zip(
        ClosedSetSplit(2, random_state=0).simulate(y), scores_of(search)[0], strict=True
    ):
        model = OpenSetSVC(tol=1e-6, gamma=0.2, ensure_bounded=False).fit(X[s.fit], y[s.fit])
        right = model.predict(X[s.validation]) == y[s.validation]
        assert score == pytest.approx(right.mean(), abs=1 / len(right) + 1e-12)


@pytest.mark.parametrize("level", ["model", "class"])
def test_two_classes_cannot_teach_to_reject(blobs, level):
    X, y = blobs
    two = y < 2
    search = OpenSetSearchCV(OpenSetSVC(), SMALL, level=level, random_state=0)
    with pytest.warns(UserWarning, match="2 classes.*cannot learn to reject") as caught:
        search.fit(X[two], y[two])
    assert caught[0].filename == __file__
    assert search.scenario_ == "closed"
    assert search.decision_function(X).shape == (100, 2)
    asked = clone(search).set_params(scenario="closed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asked.fit(X[two], y[two])
    np.testing.assert_array_equal(scores_of(asked), scores_of(search))


@pytest.mark.filterwarnings("ignore:y has 1 class")
def test_one_class(blobs):
    X, y = blobs
    grid = {"gamma": [0.02, 0.2], "lam": [0.1, 0.5]}
    search = OpenSetSearchCV(OpenSetSVC(), grid, random_state=0).fit(X[y == 3], y[y == 3])
    # Judged by how many of its own it accepts, so the smaller fraction to leave outside is chosen.
    assert search.best_params_["lam"] == 0.1
    assert set(search.predict(X)) == {3, -1}


def test_ties_go_to_the_first_with_the_width_varying_slowest():
    X, y = make_blobs([10] * 4, centers=20 * np.eye(4), cluster_std=0.1, random_state=0)
    grid = {"C": [1.0, 8.0], "gamma": [0.5, 0.05, 5.0], "lam": [0.3, 0.0]}
    search = OpenSetSearchCV(OpenSetSVC(), grid, random_state=0).fit(X, y)
    order = [(p["gamma"], p["C"], p["lam"]) for p in search.cv_results_["params"]]
    assert order == [(g, C, v) for g in grid["gamma"] for C in grid["C"] for v in grid["lam"]]
    perfect = search.cv_results_["mean_test_score"] == 1.0
    assert perfect.sum() > 1
    assert search.best_index_ == np.flatnonzero(perfect)[0]
    assert np.all(search.cv_results_["rank_test_score"][perfect] == 1)


@pytest.mark.parametrize("level", ["model", "class"])
def test_where_no_setting_is_bounded_lambda_is_the_largest(level):
    # A class so large that lambda up to 0.02 leaves it unbounded.
    X, y = make_blobs([90, 12, 12], n_features=2, cluster_std=6.0, random_state=0)
    grid = {"gamma": [0.03, 0.3, 0.1], "lam": [0.0, 0.02]}
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-5), grid, level=level, n_repeats=4, random_state=0)
    whose = r" of the classes \[0\]" if level == "class" else ""
    with pytest.warns(UserWarning, match=f"regions{whose} in every.* values of lam") as told:
        search.fit(X, y)
    assert [warning.filename for warning in told] == [__file__]
    chosen = search.best_params_
    if level == "class":
        large = scores_of(search)[:6]
        chosen = {name: own[0] for name, own in chosen.items()}
        simulations = OpenSetSplit(4, random_state=0).simulate(y, positive=0)
    else:
        large = scores_of(search)
        simulations = OpenSetSplit(4, random_state=0).simulate(y)
        assert search.best_score_ == -np.inf
    assert np.all(np.isneginf(large).any(axis=1))
    assert chosen["lam"] == 0.02
    biases = []
    for gamma in grid["gamma"]:
        model = OpenSetSVC(gamma=gamma, lam=0.02, ensure_bounded=False, tol=1e-5)
        fits = [
            model.fit(X[s.fit], y[s.fit] == 0 if level == "class" else y[s.fit]).intercept_
            for s in simulations
        ]
        biases.append(max(b[1] if level == "class" else b.max() for b in fits))
    assert chosen["gamma"] == grid["gamma"][np.argmin(biases)]
    assert np.all(search.bounded_)  # the refit has mended it


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (OpenSetSVC(), {"gamma": [0.02, 0.2, 2.0], "C": [1.0, 8.0], "lam": [0.0, 0.2, 0.5]}),
        (ExtremeValueMachine(), {"tail_size": [5, 20], "threshold": [0.2, 0.5]}),
    ],
    ids=["engine", "thresholds"],
)
def test_threads_do_not_change_a_bit(blobs, model, grid):
    one, two = (
        OpenSetSearchCV(model, grid, n_repeats=3, n_jobs=n, random_state=0).fit(*blobs)
        for n in (1, 2)
    )
    assert one.cv_results_.keys() == two.cv_results_.keys()
    for name in one.cv_results_:
        np.testing.assert_array_equal(one.cv_results_[name], two.cv_results_[name])
    assert one.best_params_ == two.best_params_


def test_random_state(blobs):
    X, y = blobs
    same = [OpenSetSearchCV(OpenSetSVC(), SMALL, random_state=7).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(*map(scores_of, same))
    other = OpenSetSearchCV(OpenSetSVC(), SMALL, random_state=8).fit(X, y)
    assert np.any(scores_of(other) != scores_of(same[0]))


def test_without_refit(blobs):
    X, y = blobs
    search = OpenSetSearchCV(OpenSetSVC(), SMALL, refit=False, random_state=0).fit(X, y)
    whole = OpenSetSearchCV(OpenSetSVC(), SMALL, random_state=0).fit(X, y)
    assert search.best_params_ == whole.best_params_
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(NotFittedError, match="refit=False"):
        search.predict(X)


def test_progress_only_when_asked(blobs, capfd):
    X, y = blobs
    OpenSetSearchCV(OpenSetSVC(), SMALL, random_state=0).fit(X, y)
    assert capfd.readouterr() == ("", "")
    OpenSetSearchCV(OpenSetSVC(), SMALL, n_repeats=3, random_state=0, verbose=1).fit(X, y)
    out, err = capfd.readouterr()
    assert out == ""
    assert re.search(r"\[#+\] (\d+)/\1, 0 s left \n$", err)
    assert err.count("\n") == 1  # one bar, whatever the rounds


def test_interrupted_in_a_scorer(blobs):
    X, y = blobs
    scorer = get_scorer("normalized_accuracy")
    calls = []

    def scoring(estimator, X, y):
        calls.append(scorer(estimator, X, y))
        if len(calls) == 6:
            raise KeyboardInterrupt
        return calls[-1]

    search = OpenSetSearchCV(OpenSetSVC(), SMALL, scoring=scoring, n_repeats=2, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    found = scores_of(search)
    assert found.shape == (4, 2)
    np.testing.assert_array_equal(np.isnan(found).ravel(), [False] * 5 + [True] * 3)
    whole = OpenSetSearchCV(OpenSetSVC(), SMALL, n_repeats=2, random_state=0).fit(X, y)
    done = ~np.isnan(found) & np.isfinite(scores_of(whole))
    np.testing.assert_allclose(found[done], scores_of(whole)[done], atol=0.03)
    assert np.isfinite(search.cv_results_["mean_test_score"]).sum() <= 2
    assert not hasattr(search, "best_params_")


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_ctrl_c_in_the_engine(n_jobs):
    X, y = load_digits(return_X_y=True)
    search = OpenSetSearchCV(OpenSetSVC(), n_repeats=60, n_jobs=n_jobs, random_state=0)
    search.fit(X[:100], y[:100])  # compiled
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert time.monotonic() - start < 5
    found = scores_of(search)
    assert found.shape == (126, 60)  # the grid
    assert np.isnan(found).any()


def test_the_estimator_is_left_alone(blobs):
    X, y = blobs
    model = make_pipeline(StandardScaler(), OpenSetSVC(gamma=0.3))
    before = repr(model.get_params())
    search = OpenSetSearchCV(model, {"opensetsvc__lam": [0.1, 0.5]}, random_state=0).fit(X, y)
    assert repr(model.get_params()) == before
    assert not hasattr(model[-1], "classes_")
    assert search.best_estimator_[-1].ensure_bounded
