"""Settings drop out that cannot become the best: the choice is that of the whole table."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from openset import (
    OSNN,
    MulticlassOneClassSVM,
    OneVsRestSVC,
    OpenSetSearchCV,
    OpenSetSVC,
    ThresholdSVC,
)
from openset.model_selection import ClosedSetSplit, get_scorer
from openset.model_selection._race import Race, ScoreTable, best_index
from openset.plots import SearchHeatmapDisplay
from openset.utils import Progress

WIDE = {"gamma": [30.0, 3.0, 0.3, 0.03, 0.003], "C": [100.0, 0.1, 1.0, 10.0]}


def blobs(seed=0, n=24):
    return make_blobs([n] * 5, n_features=3, cluster_std=2.5, random_state=seed)


def scores_of(search):
    names = [f"split{s}_test_score" for s in range(search.n_splits_)]
    return np.column_stack([search.cv_results_[name] for name in names])


def both(model, grid, X, y, **options):
    """The search as it is, and with all scores."""
    options = {"random_state": 0, "refit": False} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            OpenSetSearchCV(model, grid, all_scores=every, **options).fit(X, y)
            for every in (False, True)
        ]


def assert_same_choice(raced, whole):
    np.testing.assert_array_equal(raced.best_index_, whole.best_index_)
    assert raced.best_params_ == whole.best_params_
    assert raced.best_score_ == whole.best_score_
    np.testing.assert_array_equal(raced.withheld_scores_, whole.withheld_scores_)
    mine, theirs = scores_of(raced), scores_of(whole)
    assert not np.isnan(theirs).any()
    scored = ~np.isnan(mine)
    np.testing.assert_array_equal(mine[scored], theirs[scored])
    return scored.mean()


class Drawn(Race):
    """A race over a table of scores, of machines that have some simulations each."""

    def __init__(self, scores, n_machines):
        table = ScoreTable(scores.shape[1])
        self.candidates = table.add([{"gamma": k // 3} for k in range(len(scores))])
        self.drawn, self.n_repeats = scores, scores.shape[1] // n_machines
        data = SimpleNamespace(splits=range(scores.shape[1]), scorers=[])
        super().__init__(None, data, table, "accuracy", True, Progress(0, "", False))

    def _score(self, candidates, data, which, table, as_fitted=False, wanted=None):
        assert np.isnan(table.scores[wanted]).all()  # nothing is scored twice
        table.scores[wanted] = self.drawn[wanted]

    def run(self):
        self.run_within_bounds(self.candidates, self.n_repeats, 1.0)
        return self.table.scores


@pytest.mark.parametrize("n_values", [3, 6, 1000])
def test_any_table_of_scores(n_values):
    # Few values give many ties, which go to the first; some settings fail.
    shares = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n_machines, n_repeats = rng.integers(1, 4), rng.integers(2, 7)
        level = rng.beta(3, 1, size=(12, n_machines, 1))
        scores = np.clip(level + 0.1 * rng.normal(size=(12, n_machines, n_repeats)), 0, 1)
        scores = np.round(scores * (n_values - 1)) / (n_values - 1)
        scores[rng.random(scores.shape) < 0.02] = -np.inf
        found = Drawn(scores.reshape(12, -1), n_machines).run().reshape(scores.shape)
        shares.append(np.mean(~np.isnan(found)))
        for b in range(n_machines):
            far, strength = np.full((12, n_repeats), np.nan), np.zeros(12)
            expected = best_index(scores[:, b], far, strength)
            assert best_index(found[:, b], far, strength) == expected
            np.testing.assert_array_equal(found[expected, b], scores[expected, b])
    assert np.mean(shares) < 0.9


def test_all_settings_that_fail_are_scored():
    scores = np.random.default_rng(0).random((6, 4))
    scores[:, 2] = -np.inf
    np.testing.assert_array_equal(Drawn(scores, 1).run(), scores)


MODELS = {
    "svm": (OneVsRestSVC(), WIDE),
    "bounded": (OpenSetSVC(), {"gamma": WIDE["gamma"], "lam": [0.0, 0.3, 0.6]}),
    "plane": (OpenSetSVC(ensure_bounded=False), WIDE | {"lam": [0.0, 0.4]}),
    "threshold": (ThresholdSVC(), WIDE | {"threshold": [0.0, 0.5]}),
    "one class": (MulticlassOneClassSVM(), {"gamma": WIDE["gamma"], "nu": [0.1, 0.5, 0.9]}),
    "named width": (OneVsRestSVC(), {"gamma": ["scale", 30.0, 0.003], "C": WIDE["C"]}),
    "pipeline": (
        make_pipeline(MinMaxScaler(), OneVsRestSVC()),
        {f"onevsrestsvc__{name}": values for name, values in WIDE.items()},
    ),
    "landmarks": (
        OpenSetSVC(landmarks=8, random_state=0),
        {"gamma": [30.0, 0.3], "lam": [0.0, 0.3]},
    ),
}


@pytest.mark.parametrize("scenario", ["open", "closed"])
@pytest.mark.parametrize("level", ["model", "class"])
@pytest.mark.parametrize("name", MODELS)
def test_same_choice(name, level, scenario):
    model, grid = MODELS[name]
    options = {"level": level, "scenario": scenario, "n_repeats": 4}
    shares = [assert_same_choice(*both(model, grid, *blobs(s), **options)) for s in range(2)]
    if name == "pipeline":
        assert shares == [1, 1]
    elif name not in ("one class", "landmarks"):
        assert min(shares) < 1


@pytest.mark.parametrize("scoring", ["harmonic_normalized_accuracy", "neg_fpr_at_95_tpr"])
def test_same_choice_by_other_measures(scoring):
    model, grid = MODELS["svm"]
    assert_same_choice(*both(model, grid, *blobs(), scoring=scoring, n_repeats=5))


@pytest.mark.parametrize("level", ["model", "class"])
def test_same_choice_with_known_unknowns_weights_and_threads(level):
    X, y = blobs()
    y = np.where(y == 4, -7, y)
    model, grid = OpenSetSVC(unknown_label=-7), {"gamma": WIDE["gamma"], "C": [0.1, 1.0, 10.0]}
    assert_same_choice(*both(model, grid, X, y, level=level, n_repeats=3, n_jobs=2))


def test_machines_are_races_of_their_own():
    raced, whole = both(*MODELS["svm"], *blobs(), level="class", n_repeats=4, scenario="closed")
    assert assert_same_choice(raced, whole) < 0.9
    dropped = np.isnan(scores_of(raced)[:, -1]).reshape(5, -1)
    assert len({tuple(own) for own in dropped}) > 1
    # The mean is NaN, and the rank the last.
    assert np.isnan(raced.cv_results_["mean_test_score"][dropped.ravel()]).all()
    ranks = raced.cv_results_["rank_test_score"].reshape(5, -1)
    for own, gone in zip(ranks, dropped, strict=True):
        assert own[~gone].max() <= own[gone].min(initial=len(own))


def test_the_choice_of_separate_fits():
    # Without anything of the search: its splits, a fit of each setting, the first of equals.
    dropped = []
    for seed in range(5):
        X, y = blobs(seed)
        search = OpenSetSearchCV(
            OneVsRestSVC(tol=1e-6), WIDE, level="class", scenario="closed", scoring="accuracy",
            n_repeats=4, random_state=seed, refit=False,
        ).fit(X, y)  # fmt: skip
        params = search.cv_results_["params"][:20]
        right = np.zeros((5, 20))
        for fit, held in ClosedSetSplit(4, random_state=seed).split(None, y):
            for k, setting in enumerate(params):
                model = OneVsRestSVC(tol=1e-6, **setting).fit(X[fit], y[fit])
                answers = model.predict_set(X[held]) == (y[held][:, None] == np.arange(5))
                right[:, k] += answers.mean(axis=0) / 4
        np.testing.assert_array_equal(search.best_index_, right.round(12).argmax(axis=1))
        assert search.best_score_ == pytest.approx(right.max(axis=1).mean())
        dropped.append(np.isnan(scores_of(search)).mean())
    assert min(dropped) > 0.05


def test_what_has_no_bound_is_scored_everywhere():
    X, y = blobs()
    accuracy = get_scorer("normalized_accuracy")
    options = {"n_repeats": 2, "random_state": 0, "refit": False}
    called = OpenSetSearchCV(OneVsRestSVC(), WIDE, scoring=accuracy, **options).fit(X, y)
    assert not np.isnan(scores_of(called)).any()
    # Nor do settings drop out that are fitted one by one.
    fitted = OpenSetSearchCV(OSNN(), {"threshold": [0.1, 0.5, 0.9]}, **options).fit(X, y)
    kernels = {"class_weight": [None, "balanced"], "gamma": [30.0, 0.3]}
    other = OpenSetSearchCV(OneVsRestSVC(), kernels, **options).fit(X, y)
    assert not np.isnan(scores_of(fitted)).any() and not np.isnan(scores_of(other)).any()


def test_all_scores_of_the_default_grid():
    X, y = blobs(n=12)
    options = {"n_repeats": 3, "random_state": 0, "refit": False}
    raced = OpenSetSearchCV(OpenSetSVC(), **options).fit(X, y)
    whole = OpenSetSearchCV(OpenSetSVC(), all_scores=True, **options).fit(X, y)
    assert np.isnan(scores_of(raced)).any()
    assert not np.isnan(scores_of(whole)).any()
    assert raced.describe() == whole.describe()


def test_a_heat_map_of_settings_that_dropped_out():
    raced, whole = both(*MODELS["svm"], *blobs(), n_repeats=4, scenario="closed")
    best = [SearchHeatmapDisplay.from_estimator(search).best for search in (raced, whole)]
    assert best[0] == best[1]
