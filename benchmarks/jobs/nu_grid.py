"""Widths x nu of one-class SVMs: 16 x 21 settings of 12 classes, against scikit-learn in a loop."""

from time import process_time

import numpy as np
from sklearn.svm import OneClassSVM

from openset import MulticlassOneClassSVM, OpenSetSearchCV
from openset.model_selection import ClosedSetSplit

from ..data import letter_sample
from ..programs import OURS, TOL, Way
from ..race import REPEATS, Run
from ..report import Section, at_least

NUS = [0.001, *np.arange(0.05, 1.0, 0.05).tolist(), 0.999]
# scikit-learn fits every nu of each STEP-th width.
STEP = 4


def run(quick):
    X, y = letter_sample(12, 300 if quick else 1500)
    gammas = (2.0 ** np.arange(-15, 16, 2)).tolist()
    grid = {"gamma": gammas, "nu": NUS}
    split = next(ClosedSetSplit(random_state=0).split(None, y))
    ours, theirs = Run(OURS), Run(Way("scikit-learn, scaled"))
    for turn in range(1 + REPEATS):
        times = _seconds(_search, X, y, grid), STEP * _seconds(_loop, X, y, grid, *split)
        if turn:
            ours.times.append(times[0])
            theirs.times.append(times[1])
    ratio = theirs.seconds / ours.seconds
    rows = [["program", "CPU seconds", "times ours"], [OURS.name, f"{ours.seconds:.3g}", "1.0"]]
    rows.append([theirs.program.name, f"{theirs.seconds:.3g}", f"{ratio:.1f}"])
    text = (
        f"letter, 12 classes, {len(y)} rows, {len(gammas)} gammas x {len(NUS)} nu, one split into "
        "halves, scores of the other half; **CPU seconds of one thread**, since the machine may "
        f"be shared. scikit-learn fits a OneClassSVM per class and setting, at every {STEP}th "
        "gamma, and its time is scaled."
    )
    target = at_least("nu path, against scikit-learn", 5, ratio)
    return Section("Widths x nu of one-class SVMs", text, [rows], [target])


def _seconds(function, *arguments):
    begin = process_time()
    function(*arguments)
    return process_time() - begin


def _search(X, y, grid):
    rules = {"scenario": "closed", "n_repeats": 1, "random_state": 0, "refit": False, "n_jobs": 1}
    return OpenSetSearchCV(MulticlassOneClassSVM(tol=TOL), grid, **rules).fit(X, y)


def _loop(X, y, grid, fit, held):
    for gamma in grid["gamma"][::STEP]:
        for nu in grid["nu"]:
            for c in np.unique(y):
                machine = OneClassSVM(gamma=gamma, nu=nu, tol=TOL)
                machine.fit(X[fit][y[fit] == c]).decision_function(X[held])
