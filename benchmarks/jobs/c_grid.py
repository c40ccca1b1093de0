"""Widths x C with five folds, all classes: against liquidSVM, which shares as we do, and a loop."""

import os
import sysconfig
from functools import partial
from time import perf_counter, process_time

import numpy as np
from sklearn.model_selection import ParameterGrid
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from openset import OneVsRestSVC, OpenSetSearchCV

from ..data import letter
from ..programs import CACHE, OURS, TOL, Way, peer
from ..race import Run
from ..report import Section, at_least, at_most

FOLDS = 5
# Draws of rows: CPU seconds are medians over them, and test errors are compared on each.
DRAWS = {2000: 5, 5000: 3}
GRID = {"gamma": 2.0 ** np.linspace(-3, 6, 10), "C": 2.0 ** np.linspace(-3, 10, 10)}
WANTED = {2000: (4.0, 0.110), 5000: (3.0, 0.063)}


class LiquidSVM:
    """Built from its sdist; one-against-all with the hinge loss over its own default grid."""

    name = distribution = "liquidSVM"

    def __init__(self):
        # Its import asks for a variable that Python renamed.
        names = sysconfig.get_config_vars()
        names["SO"] = names["EXT_SUFFIX"]
        import liquidSVM

        self._fit = liquidSVM.mcSVM

    def search(self, X, y, threads=1):
        rules = {"mcType": "OvA_hinge", "folds": FOLDS, "threads": threads, "display": 0}
        return self._fit(X, y.astype(float), **rules)

    def error(self, model, X, y):
        return float((model.predict(X).ravel().astype(int) != y).mean())


def run(n, quick):
    n = 300 if quick else n
    section = Section(
        f"Widths x C with cross-validation, {n} rows",
        "letter, 26 classes against all others, 10 gammas x 10 C, five folds, one choice per class "
        "(openset: `OpenSetSearchCV(OneVsRestSVC(), ..., preset='paper', scenario='closed', "
        "n_repeats=5, level='class')`). **CPU seconds of one thread**, since the machine may be "
        "shared; liquidSVM has its own default grid, and openset the same number of gammas and C; "
        "of scikit-learn's loop all settings of one fold are measured, times five. Medians over "
        f"{DRAWS.get(n, 1)} draws of the rows; the loops are run on the first. Then test errors "
        "on 5,000 other rows, by draw. Last, wall seconds on a machine that should be quiet.",
        [
            [["rows", "program", "CPU seconds", "times ours"]],
            [["draw", "openset", "liquidSVM", "ratio", "scores of ours that were needed"]],
            [["rows", "program", "threads", "wall seconds", "times ours with two"]],
        ],
    )
    _race(n, section)
    return section


def grow(quick):
    """How CPU time grows with rows."""
    sizes = [200, 400] if quick else [1_000, 2_000, 5_000, 10_000]
    program = peer(LiquidSVM)
    _compile()
    section = Section(
        "Widths x C with cross-validation: growth",
        "The job `c-grid-2000` with other numbers of rows, one draw; CPU seconds of one thread. "
        "The exponent is the slope of a line through the logarithms.",
        [[["program", *(f"{n} rows" for n in sizes), "exponent"]]],
    )
    searches = {"openset": _search} | ({"liquidSVM": program.search} if program else {})
    exponents = {}
    for name, search in searches.items():
        tasks = [partial(search, *_draw(n, 0)[:2]) for n in sizes]
        times = [_timed(Way(name), task).seconds for task in tasks]
        exponents[name] = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        cells = *(f"{seconds:.3g}" for seconds in times), f"{exponents[name]:.2f}"
        section.tables[0].append([name, *cells])
    if program:
        section.targets.append(
            at_most("widths x C: exponent in rows", exponents["liquidSVM"], exponents["openset"])
        )
    return section


def _draw(n, seed):
    """Rows to search on and their classes, and 5,000 other rows with theirs."""
    X, y = letter()
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[-5000:]
    return X[train], y[train], X[test], y[test]


def _compile():
    _search(*_draw(400, 0)[:2], {"gamma": [1.0, 2.0], "C": [1.0, 2.0]})


def _race(n, section):
    _compile()
    program = peer(LiquidSVM)
    ours, theirs, errors = Run(OURS), Run(program), []
    for seed in range(DRAWS.get(n, 1)):
        *rows, X, y = _draw(n, seed)
        run = _timed(OURS, lambda rows=rows: _search(*rows))
        ours.times += run.times
        error = (run.answer.predict_known(X) != y).mean()
        cells = ["", ""]
        if program:
            other = _timed(program, lambda rows=rows: program.search(*rows))
            theirs.times += other.times
            peer_error = program.error(other.answer, X, y)
            cells = [f"{peer_error:.4f}", f"{error / peer_error:.2f}"]
        errors.append(error)
        share = f"{_share_of_scores(run.answer):.0%}"
        section.tables[1].append([str(seed), f"{error:.4f}", *cells, share])
    data = _draw(n, 0)
    runs = [ours]
    if program:
        runs.append(theirs)
        factor, largest = WANTED.get(n, (1.0, 1.0))
        section.targets.append(
            at_least(f"widths x C, {n} rows, against liquidSVM", factor, _ratio(theirs, ours))
        )
        error = float(np.median(errors))
        section.targets.append(at_most(f"widths x C, {n} rows: test error", largest, error))
    if n <= 2000:
        stock = OneVsRestClassifier(SVC(tol=TOL, cache_size=CACHE)), "estimator__"
        own = OneVsRestSVC(tol=TOL, cache_size=CACHE), ""
        ways = {"GridSearchCV over SVC": stock, "GridSearchCV over OneVsRestSVC": own}
        for name, way in ways.items():
            loop = _timed(Way(f"{name}, scaled"), lambda way=way: _loop(*data[:2], GRID, *way))
            loop.times = [FOLDS * seconds for seconds in loop.times]
            runs.append(loop)
            if way is stock:
                section.targets.append(
                    at_least(f"widths x C, {n} rows, against {name}", 150, _ratio(loop, ours))
                )
    for run in runs:
        cells = f"{run.seconds:.3g}", f"{_ratio(run, ours):.1f}"
        section.tables[0].append([str(n), run.program.name, *cells])
    walls = [(OURS, jobs, lambda jobs=jobs: _search(*data[:2], GRID, jobs)) for jobs in (2, 1)]
    if program:
        walls.append((program, 2, lambda: program.search(*data[:2], threads=2)))
    walls = [(_timed(way, search, perf_counter), threads) for way, threads, search in walls]
    for run, threads in walls:
        cells = str(threads), f"{run.seconds:.3g}", f"{_ratio(run, walls[0][0]):.1f}"
        section.tables[2].append([str(n), run.program.name, *cells])
    section.targets.append(
        at_least(f"widths x C, {n} rows, two threads", 1.9, _ratio(walls[1][0], walls[0][0]))
    )


def _ratio(run, ours):
    return run.seconds / ours.seconds


def _timed(program, function, clock=process_time):
    """One run: it takes long enough, and CPU seconds hardly depend on what else runs."""
    if hasattr(os, "sched_setaffinity"):  # liquidSVM leaves the thread that called it on one core
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    begin = clock()
    answer = function()
    return Run(program, [clock() - begin], answer)


def _share_of_scores(search):
    names = [f"split{s}_test_score" for s in range(search.n_splits_)]
    return np.mean([~np.isnan(search.cv_results_[name]) for name in names])


def _search(X, y, grid=GRID, n_jobs=1):
    kept = np.isin(y, np.flatnonzero(np.bincount(y) > 1))
    rules = {"preset": "paper", "scenario": "closed", "n_repeats": FOLDS, "level": "class"}
    model = OneVsRestSVC(tol=TOL, cache_size=CACHE)
    return OpenSetSearchCV(model, grid, **rules, random_state=0, n_jobs=n_jobs).fit(
        X[kept], y[kept]
    )


def _loop(X, y, grid, model, prefix):
    """What GridSearchCV does for one fold."""
    fit = np.arange(len(y)) % FOLDS > 0
    for setting in ParameterGrid({prefix + name: values for name, values in grid.items()}):
        model.set_params(**setting)
        model.fit(X[fit], y[fit]).predict(X[~fit])
