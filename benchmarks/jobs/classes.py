"""New classes: learnt from the present solution on, against a fit of everything."""

import numpy as np

from openset import OpenSetSVC

from ..data import letter
from ..programs import CACHE, N_JOBS, TOL
from ..race import race
from ..report import Section, at_least, at_most

GAMMA = 8.0
BEFORE = 20


class _Way:
    def __init__(self, name):
        self.name = name


def _twin(model):
    # A copy would not remember the training samples: that does not travel.
    twin = OpenSetSVC()
    vars(twin).update(vars(model))
    return twin


def run(quick):
    X, y = letter(4_000 if quick else 20_000)
    before, after = y <= BEFORE, y <= BEFORE + 1
    settings = {"gamma": GAMMA, "tol": TOL, "cache_size": CACHE, "n_jobs": N_JOBS}
    present = OpenSetSVC(**settings).fit(X[before], y[before])
    tasks = [
        (_Way("add_classes"), lambda: _twin(present).add_classes(X[after], y[after])),
        (_Way("fit"), lambda: OpenSetSVC(**settings).fit(X[after], y[after])),
    ]
    added, fitted = race(tasks, f"{BEFORE} + 1 classes")
    difference = np.abs(
        added.answer.decision_function(X) - fitted.answer.decision_function(X)
    ).max()
    table = [["way", "seconds", "runs", "iterations", "dual objective", "KKT gap"]]
    for way in (added, fitted):
        model = way.answer
        table.append(
            [
                way.program.name,
                f"{way.seconds:.3g}",
                str(len(way.times)),
                str(model.n_iter_.sum()),
                f"{model.dual_objective_.sum():.7g}",
                f"{model.kkt_gap_.max():.2e}",
            ]
        )
    section = Section(
        "New classes",
        f"letter, {np.sum(after)} rows, one class added to {BEFORE}, gamma {GAMMA:g}: "
        "`OpenSetSVC.add_classes` against a fit of everything. Decision values on all of letter, "
        f"other classes included, differ by at most {difference:.1e}.",
        [table],
    )
    ratio = fitted.seconds / added.seconds
    section.targets.append(at_least("new classes, against a fit", 3, ratio))
    section.targets.append(at_most("new classes: decision values differ", 10 * TOL, difference))
    return section
