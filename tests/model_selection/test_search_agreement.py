"""The search finds what slow loops over scikit-learn's tools find."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

from openset import OneVsRestSVC, OpenSetSVC
from openset.model_selection import ClosedSetSplit, OpenSetSearchCV, OpenSetSplit, get_scorer

TIGHT = {"ensure_bounded": False, "tol": 1e-6}
REPEATS = 3
GRID = {"gamma": [0.03, 0.3, 3.0], "C": [1.0, 8.0], "lam": [0.0, 0.3, 0.6, 0.9]}


def digits():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(np.flatnonzero(y < 6))[:240]
    return X[rows] / 4, y[rows]


DATA = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": digits,
}


@pytest.fixture(params=DATA)
def data(request):
    return DATA[request.param]()


@pytest.fixture
def blobs():
    """Five overlapping classes, 24 samples each."""
    return make_blobs([24] * 5, n_features=3, cluster_std=2.5, random_state=3)


@pytest.fixture
def skewed():
    """A large class among small ones: without lambda it takes all that is far away."""
    return make_blobs([70, 14, 14, 14, 14], n_features=3, cluster_std=2.5, random_state=3)


def one_sample(y, simulations):
    """What a single answer can change in each normalized accuracy."""
    known = [np.isin(y[s.validation], s.known).sum() for s in simulations]
    unknown = [len(s.validation) - n for s, n in zip(simulations, known, strict=True)]
    return 0.5 / np.minimum(known, unknown) + 1e-12


def table(results):
    """Scores (n_splits,) by setting."""
    names = [name for name in results if name.startswith("split")]
    scores = np.column_stack([results[name] for name in names])
    return {tuple(sorted(p.items())): s for p, s in zip(results["params"], scores, strict=True)}


def assert_same_search(ours, stock, y):
    slack = one_sample(y, OpenSetSplit(REPEATS, random_state=0).simulate(y))
    mine, theirs = table(ours.cv_results_), table(stock.cv_results_)
    assert mine.keys() == theirs.keys()
    for setting, scores in theirs.items():
        with np.errstate(invalid="ignore"):
            off = np.where(scores == mine[setting], 0.0, np.abs(scores - mine[setting]))
        assert np.all(off <= slack), setting
    # The same choice up to ties: neither would be ashamed of what the other has chosen.
    chosen = [tuple(sorted(search.best_params_.items())) for search in (ours, stock)]
    for scores in (mine, theirs):
        best = max(s.mean() for s in scores.values())
        assert all(best - scores[setting].mean() <= slack.mean() for setting in chosen)
    if ours.best_params_ == stock.best_params_:
        assert ours.best_score_ == pytest.approx(stock.best_score_, abs=slack.mean())


@pytest.mark.parametrize("scaler", [None, MinMaxScaler, StandardScaler], ids=str)
def test_as_grid_search_cv(data, scaler):
    X, y = data
    model, grid = OpenSetSVC(**TIGHT), GRID
    if scaler is not None:
        model = make_pipeline(scaler(), model)
        grid = {f"opensetsvc__{name}": values for name, values in GRID.items()}
    ours = OpenSetSearchCV(model, grid, n_repeats=REPEATS, all_scores=True, random_state=0)
    ours.fit(X, y)
    stock = GridSearchCV(
        model,
        grid,
        scoring=get_scorer("normalized_accuracy"),
        cv=OpenSetSplit(REPEATS, random_state=0),
    ).fit(X, y)
    assert_same_search(ours, stock, y)
    best = clone(model).set_params(**ours.best_params_).fit(X, y)
    np.testing.assert_array_equal(ours.predict(X), best.predict(X))


def test_unbounded_machines_score_as_the_scorer_says(skewed):
    X, y = skewed
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # -inf is an answer, not an accident
        ours = OpenSetSearchCV(
            OpenSetSVC(tol=1e-6), GRID, n_repeats=REPEATS, all_scores=True, random_state=0
        )
        ours.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's own about -inf
        stock = GridSearchCV(
            OpenSetSVC(**TIGHT),
            GRID,
            scoring=get_scorer("normalized_accuracy", require_bounded=True),
            cv=OpenSetSplit(REPEATS, random_state=0),
        ).fit(X, y)
    assert_same_search(ours, stock, y)
    mine, theirs = table(ours.cv_results_), table(stock.cv_results_)
    for setting, scores in mine.items():
        np.testing.assert_array_equal(np.isneginf(scores), np.isneginf(theirs[setting]))
    split = np.isneginf(list(mine.values()))
    assert np.any(split.any(axis=1) & ~split.all(axis=1))  # one bad repeat is enough
    mean = ours.cv_results_["mean_test_score"]
    np.testing.assert_array_equal(np.isneginf(mean), split.any(axis=1))
    assert np.isfinite(ours.best_score_)
    assert np.all(ours.bounded_)


def test_plain_svm_without_scaling_of_c(blobs):
    X, y = blobs
    grid = {"gamma": [0.01, 0.1, 1.0], "C": [0.5, 4.0]}
    model = OneVsRestSVC(tol=1e-6)
    ours = OpenSetSearchCV(model, grid, n_repeats=REPEATS, all_scores=True, random_state=0)
    ours.fit(X, y)
    scorer = get_scorer("normalized_accuracy")
    stock = GridSearchCV(model, grid, scoring=scorer, cv=OpenSetSplit(REPEATS, random_state=0))
    assert_same_search(ours, stock.fit(X, y), y)


@pytest.mark.parametrize(
    ("scoring", "scenario"),
    [
        ("normalized_accuracy", "closed"),
        ("harmonic_normalized_accuracy", "open"),
        ("open_set_f1_macro", "open"),
        ("accuracy", "open"),
        ("oscr_area", "open"),
    ],
)
def test_other_measures(blobs, scoring, scenario):
    X, y = blobs
    grid = {"gamma": [0.02, 0.2], "lam": [0.1, 0.5]}
    splitter = (OpenSetSplit if scenario == "open" else ClosedSetSplit)(2, random_state=0)
    ours = OpenSetSearchCV(
        OpenSetSVC(**TIGHT),
        grid,
        scoring=scoring,
        scenario=scenario,
        n_repeats=2,
        all_scores=True,
        random_state=0,
    )
    stock = GridSearchCV(OpenSetSVC(**TIGHT), grid, scoring=get_scorer(scoring), cv=splitter)
    mine = table(ours.fit(X, y).cv_results_)
    for setting, scores in table(stock.fit(X, y).cv_results_).items():
        np.testing.assert_allclose(mine[setting], scores, atol=0.02)


@pytest.mark.parametrize("gamma", ["scale", "auto"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_named_widths_and_class_weights(blobs, gamma, class_weight):
    X, y = blobs
    rows = np.r_[0:100]  # unequal classes
    X, y = X[rows], y[rows]
    model = OpenSetSVC(class_weight=class_weight, **TIGHT)
    search = OpenSetSearchCV(
        model,
        {"gamma": [gamma, 0.3], "lam": [0.0, 0.4]},
        n_repeats=2,
        all_scores=True,
        random_state=0,
    ).fit(X, y)
    simulations = OpenSetSplit(2, random_state=0).simulate(y)
    slack = one_sample(y, simulations)
    for setting, scores in table(search.cv_results_).items():
        for s, score, allowed in zip(simulations, scores, slack, strict=True):
            single = clone(model).set_params(**dict(setting))
            if isinstance(class_weight, dict):
                single.set_params(class_weight=dict.fromkeys(s.known.tolist(), 1.0) | class_weight)
            single.fit(X[s.fit], y[s.fit])
            expected = get_scorer("normalized_accuracy")(single, X[s.validation], y[s.validation])
            assert abs(score - expected) <= allowed


def binary_score(accepted, y, positive, simulation):
    """Mean of the accuracies on samples of known and of unknown classes."""
    truth = y[simulation.validation]
    right = accepted == (truth == positive)
    known = np.isin(truth, simulation.known)
    return 0.5 * right[known].mean() + 0.5 * right[~known].mean()


def binary_slack(y, simulation):
    known = np.isin(y[simulation.validation], simulation.known)
    return 0.5 / min(known.sum(), (~known).sum()) + 1e-12


def by_class(search, labels):
    """{class: {setting: scores (n_splits,)}}."""
    results = search.cv_results_
    found = {}
    for c in labels:
        rows = np.flatnonzero(results["class"] == c)
        params = [results["params"][i] for i in rows]
        scores = [results[f"split{s}_test_score"][rows] for s in range(search.n_splits_)]
        found[c] = table({"params": params} | {f"split{s}": x for s, x in enumerate(scores)})
    return found


def test_per_class_as_a_loop_over_svc(blobs):
    X, y = blobs
    y = np.array(list("abcde"))[y]
    grid = {"gamma": [0.01, 0.1, 1.0], "C": [1.0, 4.0]}
    search = OpenSetSearchCV(
        OneVsRestSVC(tol=1e-6), grid, level="class", n_repeats=2, all_scores=True, random_state=0
    ).fit(X, y)
    splitter = OpenSetSplit(2, random_state=0)
    for c, settings in by_class(search, "abcde").items():
        simulations = splitter.simulate(y, positive=c)
        assert len(settings) == 6
        for setting, scores in settings.items():
            for s, score in zip(simulations, scores, strict=True):
                machine = SVC(tol=1e-6, **dict(setting)).fit(X[s.fit], y[s.fit] == c)
                accepted = machine.decision_function(X[s.validation]) >= 0
                expected = binary_score(accepted, y, c, s)
                assert abs(score - expected) <= binary_slack(y, s)


@pytest.mark.parametrize("scenario", ["open", "closed"])
def test_the_simulation_of_the_paper(blobs, scenario):
    """A fifth of the samples and, open, two of five classes are withheld; accuracy decides."""
    X, y = blobs
    grid = {"gamma": [0.01, 0.1, 1.0]}
    model = OneVsRestSVC(tol=1e-6)
    options = {"preset": "paper", "scenario": scenario, "random_state": 0}
    search = OpenSetSearchCV(model, grid, **options).fit(X, y)
    assert search.scoring_ == "accuracy"
    splitter = ClosedSetSplit(1, test_size=0.2, random_state=0)
    if scenario == "open":
        splitter = OpenSetSplit(1, test_size=0.2, n_known=3, random_state=0)
    for c, settings in by_class(search, range(5)).items():
        (s,) = splitter.simulate(y, positive=c)
        truth = y[s.validation] == c
        for setting, (score,) in settings.items():
            machine = SVC(tol=1e-6, **dict(setting)).fit(X[s.fit], y[s.fit] == c)
            accepted = machine.decision_function(X[s.validation]) >= 0
            assert abs(score - np.mean(accepted == truth)) <= 1 / len(truth) + 1e-12


@pytest.mark.parametrize("bounded", [False, True])
def test_per_class_as_a_loop_over_binary_fits(skewed, bounded):
    X, y = skewed
    grid = {"gamma": [0.02, 0.2, 2.0], "lam": [0.0, 0.5, 0.9]}
    model = OpenSetSVC(ensure_bounded=bounded, tol=1e-6)
    search = OpenSetSearchCV(
        model, grid, level="class", n_repeats=2, all_scores=True, random_state=0
    ).fit(X, y)
    splitter = OpenSetSplit(2, random_state=0)
    seen = set()
    for c, settings in by_class(search, range(5)).items():
        simulations = splitter.simulate(y, positive=c)
        for setting, scores in settings.items():
            for s, score in zip(simulations, scores, strict=True):
                machine = OpenSetSVC(**TIGHT).set_params(**dict(setting))
                machine.fit(X[s.fit], y[s.fit] == c)
                expected = -np.inf
                if machine.bounded_[1] or not bounded:
                    accepted = machine.decision_function(X[s.validation])[:, 1] >= 0
                    expected = binary_score(accepted, y, c, s)
                seen.add(np.isneginf(expected))
                assert score == expected or abs(score - expected) <= binary_slack(y, s)
        means = {setting: scores.mean() for setting, scores in settings.items()}
        chosen = {name: values[c] for name, values in search.best_params_.items()}
        assert means[tuple(sorted(chosen.items()))] == max(means.values())
    assert seen == ({True, False} if bounded else {False})
    # The values by class are parameters of the estimator.
    alone = clone(model).set_params(**search.best_params_).fit(X, y)
    np.testing.assert_array_equal(search.decision_function(X), alone.decision_function(X))
    assert set(search.best_params_["lam"]) == set(range(5))
    assert search.best_score_ == pytest.approx(
        np.mean(
            [max(s.mean() for s in own.values()) for own in by_class(search, range(5)).values()]
        )
    )


def test_weights_act_as_repeated_rows(blobs):
    X, y = blobs
    weight = np.random.default_rng(0).integers(0, 4, size=len(y))
    grid = {"gamma": [0.1], "lam": [0.0, 0.4]}
    kept = weight > 0
    model = OpenSetSVC(**TIGHT)
    options = {"n_repeats": 3, "all_scores": True, "random_state": 0}
    search = OpenSetSearchCV(model, grid, **options).fit(X, y, weight)
    X, y, weight = X[kept], y[kept], weight[kept]
    simulations = OpenSetSplit(3, random_state=0).simulate(y)
    slack = one_sample(y, simulations)
    plain = OpenSetSearchCV(model, grid, **options).fit(X, y)
    assert table(plain.cv_results_).keys() == table(search.cv_results_).keys()
    assert any(
        np.any(scores != table(plain.cv_results_)[setting])
        for setting, scores in table(search.cv_results_).items()
    )
    for setting, scores in table(search.cv_results_).items():
        for s, score, allowed in zip(simulations, scores, slack, strict=True):
            repeated = np.repeat(s.fit, weight[s.fit])
            single = clone(model).set_params(**dict(setting)).fit(X[repeated], y[repeated])
            expected = get_scorer("normalized_accuracy")(single, X[s.validation], y[s.validation])
            assert abs(score - expected) <= allowed
    repeated = np.repeat(np.arange(len(y)), weight)
    refit = clone(model).set_params(**search.best_params_).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(search.decision_function(X), refit.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("pipeline", [False, True])
@pytest.mark.parametrize("level", ["model", "class"])
def test_rows_of_weight_zero_are_not_there(blobs, pipeline, level):
    X, y = blobs
    weight = np.tile([1.0, 0.0, 2.0, 0.5], 30)
    kept = weight > 0
    model = make_pipeline(MinMaxScaler(), OpenSetSVC()) if pipeline else OpenSetSVC()
    search = OpenSetSearchCV(model, preset="paper", level=level, random_state=0)
    whole = clone(search).fit(X, y, sample_weight=weight)
    part = clone(search).fit(X[kept], y[kept], sample_weight=weight[kept])
    assert whole.best_params_ == part.best_params_
    for name in ("split0_test_score", "mean_test_score"):
        np.testing.assert_array_equal(whole.cv_results_[name], part.cv_results_[name])
    np.testing.assert_array_equal(whole.decision_function(X), part.decision_function(X))


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_callable_scores_as_the_measure_of_its_name(skewed, pipeline):
    X, y = skewed
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=len(y))
    model, prefix = OpenSetSVC(tol=1e-6), ""
    if pipeline:
        model, prefix = make_pipeline(StandardScaler(), model), "opensetsvc__"
    grid = {f"{prefix}gamma": [0.05, 0.5], f"{prefix}lam": [0.0, 0.4]}
    named, called = (
        OpenSetSearchCV(
            model, grid, scoring=scoring, n_repeats=REPEATS, all_scores=True, random_state=1
        ).fit(X, y, sample_weight=weight)
        for scoring in ("normalized_accuracy", get_scorer("normalized_accuracy"))
    )
    slack = one_sample(y, OpenSetSplit(REPEATS, random_state=1).simulate(y))
    theirs = table(called.cv_results_)
    for setting, scores in table(named.cv_results_).items():
        np.testing.assert_array_equal(np.isneginf(scores), np.isneginf(theirs[setting]))
        finite = np.isfinite(scores)
        assert np.all(np.abs(scores[finite] - theirs[setting][finite]) <= slack[finite])
    assert np.isneginf(list(theirs.values())).any()
    assert np.isfinite(called.best_score_)


def test_a_grid_over_c_chooses_as_separate_fits():
    """Each C starts from the one before; on 20 draws the answers are those of fits alone."""
    X, y = make_blobs([16] * 3, n_features=3, cluster_std=2.5, random_state=3)
    grid = {"gamma": [0.02, 0.2, 2.0], "C": [100.0, 0.1, 1.0, 10.0]}
    rules = {"level": "class", "scenario": "closed", "scoring": "accuracy", "n_repeats": 2}
    for seed in range(20):
        search = OpenSetSearchCV(OneVsRestSVC(tol=1e-6), grid, random_state=seed, **rules)
        results = clone(search).set_params(all_scores=True).fit(X, y).cv_results_
        search.fit(X, y)
        splits = list(ClosedSetSplit(2, random_state=seed).split(None, y))
        expected = np.empty((3, len(results["params"]) // 3))
        for k, params in enumerate(results["params"][: expected.shape[1]]):
            right = []
            for fit, held in splits:
                model = OneVsRestSVC(tol=1e-6, **params).fit(X[fit], y[fit])
                accepted = model.predict_set(X[held])
                right.append((accepted == (y[held][:, None] == model.classes_)).mean(axis=0))
            expected[:, k] = np.mean(right, axis=0)
        np.testing.assert_allclose(results["mean_test_score"], expected.ravel(), atol=1e-12)
        for c, k in zip(search.classes_, expected.round(12).argmax(axis=1), strict=True):
            chosen = {name: values[c] for name, values in search.best_params_.items()}
            assert chosen == results["params"][k]
