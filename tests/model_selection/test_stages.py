"""A search over many classes goes from coarse to fine."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import PISVM, OpenSetSearchCV, OpenSetSVC


@pytest.fixture(scope="module")
def many():
    """52 classes of four samples in the plane."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(52), 4)
    return rng.uniform(size=(52, 2))[y] + rng.normal(scale=0.01, size=(len(y), 2)), y


@pytest.fixture(scope="module")
def search(many):
    return OpenSetSearchCV(OpenSetSVC(tol=1e-2), n_repeats=2, random_state=0).fit(*many)


def test_fine_is_as_good_as_coarse_and_as_full(many, search):
    table = {name: rows[:-1] for name, rows in search.cv_results_.items()}  # not the own setting
    gammas = np.unique(table["param_gamma"].astype(float))
    params = OpenSetSVC.search_spec.grids["default"]
    full = len(params["gamma"]) * len(params["lam"]) * len(params["C"])
    assert len(table["params"]) < full / 2
    # The coarse stage alone, from the rows of the table that belong to it.
    unit = gammas[-1] / 2 ** np.round(np.log2(gammas[-1] / gammas[0]))
    step = np.round(np.log2(table["param_gamma"].astype(float) / unit)).astype(int)
    in_coarse = (step % 4 == 0) & np.isin(table["param_lam"].astype(float), [0, 0.2, 0.4, 0.6, 0.8])
    assert np.sum(in_coarse) == 5 * 5 * 2
    assert search.best_score_ >= table["mean_test_score"][in_coarse].max()
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert not np.any(np.isnan(table["mean_test_score"]))
    # All settings tried at once: the same scores, and a best that is hardly better.
    grid = {"C": params["C"], "gamma": gammas.tolist(), "lam": params["lam"]}
    whole = OpenSetSearchCV(OpenSetSVC(tol=1e-2), grid, n_repeats=2, random_state=0).fit(*many)
    scores = dict(
        zip(
            map(str, whole.cv_results_["params"]), whole.cv_results_["mean_test_score"], strict=True
        )
    )
    again = [scores[str(setting)] for setting in table["params"]]
    np.testing.assert_allclose(table["mean_test_score"], again, atol=0.01)
    assert search.best_score_ >= whole.best_score_ - 0.02


def test_deterministic(many, search):
    again = OpenSetSearchCV(OpenSetSVC(tol=1e-2), n_repeats=2, random_state=0, n_jobs=2).fit(*many)
    assert again.best_params_ == search.best_params_
    np.testing.assert_array_equal(
        again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"]
    )


def test_few_classes_try_everything(many):
    X, y = many
    few = y < 50
    grid = OpenSetSVC.search_spec.grids["default"]
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-2), n_repeats=1, random_state=0, refit=False)
    n_settings = np.prod([len(values) for values in grid.values()])
    assert len(search.fit(X[few], y[few]).cv_results_["params"]) == n_settings + 1


def test_own_grid_is_tried_whole(many):
    grid = {"gamma": [2.0**k for k in range(9)], "lam": [0.0, 0.5]}
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-2), grid, n_repeats=1, random_state=0, refit=False)
    assert len(search.fit(*many).cv_results_["params"]) == 18


def test_behind_a_pipeline_and_with_thresholds(many):
    X, y = many
    search = OpenSetSearchCV(
        make_pipeline(MinMaxScaler(), PISVM(tol=1e-2)), n_repeats=1, random_state=0, refit=False
    ).fit(X, y)
    tried = {
        name.removeprefix("param_"): set(values)
        for name, values in search.cv_results_.items()
        if name.startswith("param_")
    }
    assert tried["pisvm__threshold"] == set(PISVM.search_spec.grids["default"]["threshold"])
    assert 5 <= len(tried["pisvm__gamma"]) < len(PISVM.search_spec.grids["default"]["gamma"])


def test_all_unbounded_still_ends():
    # One sample in the middle of each pair of another class; small widths leave nothing bounded.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(208, 2)), np.tile(np.arange(52), 4)
    search = OpenSetSearchCV(OpenSetSVC(tol=1e-2), n_repeats=1, random_state=0).fit(X, y)
    assert np.all(search.bounded_)
