"""Widths x C with five folds, all classes: against liquidSVM, which shares as we do, and a loop."""

import os
import sysconfig
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
        "of scikit-learn's loop all settings of one fold are measured, times five. Below, wall "
        "seconds on a machine that should be quiet.",
        [
            [["rows", "program", "CPU seconds", "times ours", "test error"]],
            [["rows", "program", "threads", "wall seconds", "times ours with two"]],
        ],
    )
    _race(n, section)
    return section


def _race(n, section):
    X, y = letter()
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:n], order[-5000:]
    data = X[train], y[train], X[test], y[test]
    _search(*(rows[:60] for rows in data[:2]), {"gamma": [1.0, 2.0], "C": [1.0, 2.0]})  # compiled
    grid = {"gamma": 2.0 ** np.linspace(-3, 6, 10), "C": 2.0 ** np.linspace(-3, 10, 10)}
    ours = _timed(OURS, lambda: _search(*data[:2], grid))
    error = (ours.answer.predict_known(data[2]) != data[3]).mean()
    runs = [(ours, f"{error:.4f}")]
    if program := peer(LiquidSVM):
        theirs = _timed(program, lambda: program.search(*data[:2]))
        runs.append((theirs, f"{program.error(theirs.answer, *data[2:]):.4f}"))
        factor, largest = WANTED.get(n, (1.0, 1.0))
        section.targets.append(
            at_least(f"widths x C, {n} rows, against liquidSVM", factor, _ratio(theirs, ours))
        )
        section.targets.append(at_most(f"widths x C, {n} rows: test error", largest, error))
    if n <= 2000:
        stock = OneVsRestClassifier(SVC(tol=TOL, cache_size=CACHE)), "estimator__"
        own = OneVsRestSVC(tol=TOL, cache_size=CACHE), ""
        ways = {"GridSearchCV over SVC": stock, "GridSearchCV over OneVsRestSVC": own}
        for name, way in ways.items():
            loop = _timed(Way(f"{name}, scaled"), lambda way=way: _loop(*data[:2], grid, *way))
            loop.times = [FOLDS * seconds for seconds in loop.times]
            runs.append((loop, ""))
            if way is stock:
                section.targets.append(
                    at_least(f"widths x C, {n} rows, against {name}", 150, _ratio(loop, ours))
                )
    for run, note in runs:
        cells = f"{run.seconds:.3g}", f"{_ratio(run, ours):.1f}", note
        section.tables[0].append([str(n), run.program.name, *cells])
    walls = [(OURS, jobs, lambda jobs=jobs: _search(*data[:2], grid, jobs)) for jobs in (2, 1)]
    if program:
        walls.append((program, 2, lambda: program.search(*data[:2], threads=2)))
    walls = [(_timed(way, search, perf_counter), threads) for way, threads, search in walls]
    for run, threads in walls:
        cells = str(threads), f"{run.seconds:.3g}", f"{_ratio(run, walls[0][0]):.1f}"
        section.tables[1].append([str(n), run.program.name, *cells])
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


def _search(X, y, grid, n_jobs=1):
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
