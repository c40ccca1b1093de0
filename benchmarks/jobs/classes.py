"""New classes: a warm start from the present solution, against a fit of everything."""

from copy import deepcopy

import numpy as np

from openset import OpenSetSVC

from ..data import letter
from ..programs import CACHE, N_JOBS, TOL
from ..race import race
from ..report import Section, at_least, at_most

GAMMAS = [0.5, 2.0, 8.0]
BEFORE = 20


class _Way:
    def __init__(self, name):
        self.name = name


def run(quick):
    X, y = letter(4_000 if quick else 20_000)
    after = y <= BEFORE + 1
    table = [["gamma", "way", "seconds", "runs", "iterations", "dual objective", "KKT gap"]]
    section = Section(
        "New classes",
        f"letter, {np.sum(after)} rows, one class added to {BEFORE}: `OpenSetSVC.add_classes` "
        "against a fit of everything. The decision values that are compared are those of all of "
        "letter, other classes included.",
        [table],
    )
    for gamma in GAMMAS:
        added, fitted = _race(X, y, gamma)
        for way in (added, fitted):
            model = way.answer
            table.append(
                [
                    f"{gamma:g}",
                    way.program.name,
                    f"{way.seconds:.3g}",
                    str(len(way.times)),
                    str(model.n_iter_.sum()),
                    f"{model.dual_objective_.sum():.7g}",
                    f"{model.kkt_gap_.max():.2e}",
                ]
            )
        ratio = fitted.seconds / added.seconds
        expected = fitted.answer.decision_function(X)
        apart = np.abs(added.answer.decision_function(X) - expected).max()
        where = f"new classes, gamma {gamma:g}"
        section.targets.append(at_least(f"{where}, against a fit", 3, ratio))
        section.targets.append(at_most(f"{where}: decision values differ", 10 * TOL, apart))
    return section


def _race(X, y, gamma):
    before, after = y <= BEFORE, y <= BEFORE + 1
    settings = {"gamma": gamma, "tol": TOL, "cache_size": CACHE, "n_jobs": N_JOBS}
    present = OpenSetSVC(**settings).fit(X[before], y[before])
    tasks = [
        (_Way("add_classes"), lambda: deepcopy(present).add_classes(X[after], y[after])),
        (_Way("fit"), lambda: OpenSetSVC(**settings).fit(X[after], y[after])),
    ]
    return race(tasks, f"{BEFORE} + 1 classes, gamma {gamma:g}")
