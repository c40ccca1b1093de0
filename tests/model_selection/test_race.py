"""The default search drops settings that are far behind, and keeps the answer."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import PISVM, OpenSetSearchCV, OpenSetSVC
from openset.model_selection._race import Race


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


@pytest.fixture(scope="module")
def search(digits):
    return OpenSetSearchCV(OpenSetSVC(tol=1e-2), random_state=0).fit(*digits)


def _raced(search):
    """Settings that took part in the race: all but the last row, the estimator's own."""
    return search.cv_results_["params"][:-1]


def _split_scores(search):
    names = [f"split{s}_test_score" for s in range(search.n_splits_)]
    return np.column_stack([search.cv_results_[name] for name in names])


def test_same_answer_as_the_whole_grid(digits, search):
    gammas = sorted({params["gamma"] for params in _raced(search)})
    grid = OpenSetSVC.search_spec.grids["default"] | {"gamma": gammas}
    settings = {"all_scores": True, "random_state": 0, "refit": False}
    whole = OpenSetSearchCV(OpenSetSVC(tol=1e-2), grid, **settings).fit(*digits)
    assert not np.isnan(_split_scores(whole)).any()
    assert search.best_score_ == pytest.approx(whole.best_score_, abs=0.003)
    # Where both have a score they agree: what was dropped does not change the others.
    raced, full = _split_scores(search)[:-1], _split_scores(whole)
    order = {str(params): row for row, params in enumerate(whole.cv_results_["params"])}
    full = full[[order[str(params)] for params in _raced(search)]]
    both = np.isfinite(raced) & np.isfinite(full)
    np.testing.assert_allclose(raced[both], full[both], atol=0.02)


def test_widths_next_to_the_best_are_tried(digits, search):
    params, means = _raced(search), search.cv_results_["mean_test_score"]
    n_grid = np.prod([len(v) for v in OpenSetSVC.search_spec.grids["default"].values()])
    grid, finer = params[:n_grid], params[n_grid:]
    best = grid[int(np.nanargmax(means[:n_grid]))]
    # From the best setting of the grid on, in steps of sqrt(2), for the same C and lambdas nearby.
    steps = {2 * np.log2(p["gamma"] / best["gamma"]) for p in finer}
    assert {round(step) for step in steps} == {-1, 1}
    np.testing.assert_allclose(sorted(steps), np.round(sorted(steps)), atol=1e-9)
    assert {p["C"] for p in finer} == {best["C"]}
    lams = list(OpenSetSVC.search_spec.grids["default"]["lam"])
    at = lams.index(best["lam"])
    assert {lams.index(p["lam"]) for p in finer} >= {*range(max(at - 2, 0), min(at + 3, len(lams)))}
    assert len({tuple(p.values()) for p in params}) == len(params)
    assert search.best_score_ == np.nanmax(means)


def test_most_settings_drop_out(search):
    scores = _split_scores(search)
    assert not np.isnan(scores[:, 0]).any()
    finished = ~np.isnan(scores).any(axis=1)
    assert 1 <= finished.sum() < len(scores) / 2
    assert finished[search.best_index_]
    # Who dropped out was behind after the simulations it took part in, and ranks last.
    dropped = np.isnan(scores[:, 1])
    assert scores[dropped, 0].max() < scores[~dropped, 0].max() - 0.02
    ranks = search.cv_results_["rank_test_score"]
    assert ranks[finished].max() <= ranks[~finished].min()


def test_many_classes_after_a_first_look():
    # Hopeless settings do not take part, and the answer is that of the whole grid.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(64), 12)
    X = rng.normal(size=(64, 4))[y] + 0.15 * rng.normal(size=(len(y), 4))
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-2), n_repeats=3, random_state=0).fit(X, y)
    scores = _split_scores(search)[:-1]
    looked_at_only = np.isnan(scores).all(axis=1)
    assert 0.2 * len(scores) < looked_at_only.sum() < len(scores)
    gammas = sorted({params["gamma"] for params in _raced(search)})
    grid = OpenSetSVC.search_spec.grids["default"] | {"gamma": gammas}
    settings = {"n_repeats": 3, "all_scores": True, "random_state": 0, "refit": False}
    whole = OpenSetSearchCV(OpenSetSVC(tol=1e-2), grid, **settings).fit(X, y)
    assert search.best_score_ == pytest.approx(whole.best_score_, abs=0.003)
    # Settings that were left out were far behind on all classes, too.
    means = dict(
        zip(map(str, whole.cv_results_["params"]), _split_scores(whole)[:, 0], strict=True)
    )
    left_out = [
        means[str(p)] for p, gone in zip(_raced(search), looked_at_only, strict=True) if gone
    ]
    assert max(left_out) < max(means.values()) - 0.03


def test_deterministic_for_every_number_of_threads(digits, search):
    again = OpenSetSearchCV(OpenSetSVC(tol=1e-2), random_state=0, n_jobs=2).fit(*digits)
    assert again.best_params_ == search.best_params_
    np.testing.assert_array_equal(_split_scores(again), _split_scores(search))


def test_own_grid_is_tried_whole(digits):
    grid = {"gamma": [2.0**k for k in range(-6, 3)], "lam": [0.0, 0.5]}
    settings = {"all_scores": True, "random_state": 0, "refit": False}
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-2), grid, **settings).fit(*digits)
    assert len(search.cv_results_["params"]) == 18
    assert not np.isnan(_split_scores(search)).any()


def test_behind_a_pipeline_and_with_thresholds(digits):
    search = OpenSetSearchCV(
        make_pipeline(MinMaxScaler(), PISVM(tol=1e-2)), random_state=0, n_repeats=3, refit=False
    ).fit(*digits)
    tried = set(search.cv_results_["param_pisvm__threshold"])
    assert tried == set(PISVM.search_spec.grids["default"]["threshold"])
    assert np.isfinite(_split_scores(search)[search.best_index_]).all()


def test_all_unbounded_still_ends():
    # Samples of 52 classes without any structure: small widths leave nothing bounded.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(208, 2)), np.tile(np.arange(52), 4)
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-2), n_repeats=3, random_state=0).fit(X, y)
    assert np.all(search.bounded_)


def test_leaders_that_fail_late_make_way(digits, monkeypatch):
    # Settings 3 and 5 lead the race, and have unbounded regions in the last simulation only.
    scores = {3: 0.9, 5: 0.8, 7: 0.6, 8: 0.5}

    def run(self, candidates, data, which, table, as_fitted=False):
        for number, _ in candidates:
            table.scores[number, which] = 0.3 if as_fitted else scores.get(number, 0.2)
            if number in (3, 5) and which[-1] == len(data.splits) - 1:
                table.scores[number, which[-1]] = -np.inf

    monkeypatch.setattr(Race, "_score", run)
    search = OpenSetSearchCV(OpenSetSVC(), random_state=0, refit=False).fit(*digits)
    assert search.best_index_ == 7
    assert search.best_score_ == pytest.approx(0.6)
    # Without any other, the estimator's own setting remains, which is fitted with bounded regions.
    scores = dict.fromkeys(range(1000), -np.inf) | {3: 0.9, 5: 0.8}
    search.fit(*digits)
    assert search.best_index_ == len(search.cv_results_["params"]) - 1
    assert search.best_score_ == pytest.approx(0.3)
