"""What the race of the default search loses against the whole grid."""

from dataclasses import replace
from itertools import permutations
from time import perf_counter

import numpy as np
from sklearn.preprocessing import minmax_scale

from openset import OpenSetSVC
from openset.model_selection import OpenSetSearchCV
from openset.model_selection._evaluate import Candidate, SearchData
from openset.model_selection._plan import make_plan, make_settings
from openset.model_selection._race import in_the_race

from ..data import Absent, _load, clinc, letter
from ..programs import N_JOBS
from ..report import Section, at_most

# Largest loss in mean score.
LOSS = 0.003

# Where the whole grid is solved: 150 classes take hours on one core.
DEVICE = "cpu"


def run(quick):
    header = [
        "data",
        "rows",
        "race, s",
        "grid, s",
        "chosen",
        "its score",
        "best score",
        "worst of 20",
    ]
    table = [header]
    section = Section(
        "The race",
        "The default search against its whole grid on the same simulations: the mean score, "
        "over the simulations and in the whole grid, of the setting that the race chooses, and the "
        "best one. *Worst of 20*: the largest loss over 20 orders of the simulations.",
        [table],
    )
    for name, data in DATA.items():
        try:
            X, y = data()
        except Absent as reason:
            print(f"left out: {reason}")
            continue
        if quick:
            X, y = X[::10], y[::10]
        _compare(name, X, y, table, section)
    return section


def _compare(name, X, y, table, section):
    settings = {"random_state": 0, "n_jobs": N_JOBS, "refit": False}
    start = perf_counter()
    search = OpenSetSearchCV(OpenSetSVC(), **settings).fit(X, y)
    raced = perf_counter() - start
    gammas = sorted({params["gamma"] for params in search.cv_results_["params"][:-1]})
    grid = OpenSetSVC.search_spec.grids["default"] | {"gamma": gammas}
    start = perf_counter()
    whole = OpenSetSearchCV(OpenSetSVC(), grid, all_scores=True, device=DEVICE, **settings)
    whole.fit(X, y)
    complete = perf_counter() - start
    results = whole.cv_results_
    means = dict(zip(map(str, results["params"]), results["mean_test_score"], strict=True))
    best = max(means.values())
    chosen = means.get(str(search.best_params_), search.best_score_)
    worst = max(_losses(search, whole, X, y, grid))
    params = ", ".join(f"{k} {v:.3g}" for k, v in search.best_params_.items())
    numbers = f"{chosen:.4f}", f"{best:.4f}", f"{worst:.4f}"
    table.append([name, str(len(y)), f"{raced:.3g}", f"{complete:.3g}", params, *numbers])
    section.targets.append(at_most(f"race, {name}: loss", LOSS, max(best - chosen, worst)))


def _losses(search, whole, X, y, grid):
    """Losses of the drop-out rule for orders of the simulations, among settings that raced."""
    scores = np.column_stack(
        [whole.cv_results_[f"split{s}_test_score"] for s in range(whole.n_splits_)]
    )
    classes, codes = np.unique(y, return_inverse=True)
    plan = make_plan(search, OpenSetSVC())
    splits = plan.simulate(classes, codes, OpenSetSVC(), search.random_state)
    data = SearchData(X, y, codes, np.ones(len(y)), classes, splits, None, N_JOBS)
    candidates = [Candidate(*c) for c in enumerate(make_settings(OpenSetSVC(), grid, "model"))]
    started = search.cv_results_["params"][: len(candidates)]
    looked = np.isnan(search.cv_results_["split0_test_score"][: len(candidates)])
    gone = {str(params) for params, out in zip(started, looked, strict=True) if out}
    candidates = [c for c in candidates if str(c.params) not in gone]
    orders = list(permutations(range(scores.shape[1])))
    for order in orders[:: len(orders) // 20][:20]:
        left, drawn = candidates, replace(data, splits=[splits[s] for s in order])
        for n in (1, 2, 4):
            left = in_the_race(left, scores[:, order[:n]], drawn)
        means = scores.mean(axis=1)
        yield means.max() - max(means[c.number] for c in left)


def _embedded(name):
    bunch = _load(name)
    rows = (bunch.split == "train") & (bunch.target != "oos")
    return bunch.data[rows], bunch.target[rows]


def _pendigits():
    bunch = _load("pendigits")
    rows = np.random.default_rng(0).permutation(len(bunch.target))[:2000]
    return minmax_scale(bunch.data)[rows], bunch.target[rows]


def _letter():
    X, y = letter()
    rows = np.random.default_rng(0).permutation(len(y))[:2000]
    return X[rows], y[rows]


DATA = {
    "letter": _letter,
    "pendigits": _pendigits,
    "BANKING77": lambda: _embedded("banking77-minilm"),
    "CLINC150": clinc,
}
