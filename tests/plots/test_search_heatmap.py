import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from openset.model_selection import OpenSetSearchCV
from openset.plots import SearchHeatmapDisplay
from openset.svm import OpenSetSVC

GRID = {"gamma": [0.25, 1.0, 4.0], "lam": [0.0, 0.2, 0.4, 0.6], "C": [1.0, 2.0]}


@pytest.fixture(scope="module")
def search(boat):
    search = OpenSetSearchCV(OpenSetSVC(), GRID, n_repeats=2, all_scores=True, random_state=0)
    return search.fit(*boat)


def test_cells_are_the_best_over_the_other_parameters(search, ax):
    display = SearchHeatmapDisplay.from_estimator(search, ax=ax)
    assert (display.x_name, display.y_name) == ("lam", "gamma")
    results = search.cv_results_
    for i, gamma in enumerate(GRID["gamma"]):
        for j, lam in enumerate(GRID["lam"]):
            scores = [
                score
                for score, params in zip(results["mean_test_score"], results["params"], strict=True)
                if params["gamma"] == gamma and params["lam"] == lam
            ]
            assert display.scores[i, j] == max(scores)


def test_the_star_is_the_best_setting(search, ax):
    display = SearchHeatmapDisplay.from_estimator(search, ax=ax)
    x, y = display.star_.get_xydata()[0]
    assert display.x_values[int(x)] == search.best_params_["lam"]
    assert display.y_values[int(y)] == search.best_params_["gamma"]


def test_unbounded_settings_are_left_open(search, ax):
    display = SearchHeatmapDisplay.from_estimator(search, ax=ax)
    shown = display.image_.get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), ~np.isfinite(display.scores))
    assert np.isneginf(display.scores).any()


def test_names_of_the_axes(search, ax):
    display = SearchHeatmapDisplay.from_estimator(search, params=("gamma", "C"), ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("gamma", "C")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["$2^{-2}$", "$2^{0}$", "$2^{2}$"]
    assert display.colorbar_.ax.get_ylabel() == "normalized accuracy"


def test_search_for_each_class(boat, ax):
    grid = {"gamma": GRID["gamma"], "lam": GRID["lam"]}
    search = OpenSetSearchCV(OpenSetSVC(), grid, level="class", n_repeats=1, random_state=0)
    search.fit(*boat)
    display = SearchHeatmapDisplay.from_estimator(search, class_label=3, ax=ax)
    rows = search.cv_results_["class"] == 3
    assert np.nanmax(display.scores) == search.cv_results_["mean_test_score"][rows].max()
    with pytest.raises(ValueError, match=r"pass class_label= one of \[1, 2, 3\], not None"):
        SearchHeatmapDisplay.from_estimator(search, ax=ax)
    with pytest.raises(ValueError, match="not 8"):
        SearchHeatmapDisplay.from_estimator(search, class_label=8, ax=ax)


def test_search_of_scikit_learn(boat, ax):
    grid = [{"gamma": [1.0], "lam": [0.1, 0.2]}, {"gamma": [2.0], "lam": [0.2]}]
    search = GridSearchCV(OpenSetSVC(), grid, cv=2).fit(*boat)
    scores = SearchHeatmapDisplay.from_estimator(search, params=("lam", "gamma"), ax=ax).scores
    assert np.isnan(scores[1, 0])
    assert np.isfinite(scores[[0, 0, 1], [0, 1, 1]]).all()


def test_parameters_that_are_no_numbers(boat, ax):
    grid = {"kernel": ["rbf", "t_student"], "gamma": ["scale", 1.0]}
    search = OpenSetSearchCV(OpenSetSVC(lam=0.3), grid, n_repeats=1, random_state=0).fit(*boat)
    SearchHeatmapDisplay.from_estimator(search, params=("gamma", "kernel"), ax=ax)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["rbf", "t_student"]


def test_bad_input(search, boat, ax):
    with pytest.raises(ValueError, match="fit the search first"):
        SearchHeatmapDisplay.from_estimator(OpenSetSearchCV(OpenSetSVC()), ax=ax)
    with pytest.raises(ValueError, match=r"must be two of \['C', 'gamma', 'lam'\]"):
        SearchHeatmapDisplay.from_estimator(search, params=("gamma", "nu"), ax=ax)
    with pytest.raises(ValueError, match="leave class_label out"):
        SearchHeatmapDisplay.from_estimator(search, class_label=1, ax=ax)
    short = OpenSetSearchCV(OpenSetSVC(), {"gamma": [1.0, 2.0]}, n_repeats=1, random_state=0)
    with pytest.raises(ValueError, match="a heat map needs two parameters"):
        SearchHeatmapDisplay.from_estimator(short.fit(*boat), ax=ax)
