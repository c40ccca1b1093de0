"""New classes: what `add_classes` costs beyond a fit of everything."""

from copy import deepcopy

import numpy as np

from openset import OpenSetSVC

from ..data import Absent, clinc, letter
from ..programs import CACHE, N_JOBS, TOL, Way
from ..race import race
from ..report import Section, at_most

GAMMAS = [0.5, 2.0, 8.0]
BEFORE = 20
NEW_INTENTS = 5


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
        ratio, apart = _compare(X, y, y <= BEFORE, y <= BEFORE + 1, table, gamma=gamma)
        where = f"new classes, gamma {gamma:g}"
        section.targets.append(at_most(f"{where}: times a fit", 1.1, 1 / ratio))
        section.targets.append(at_most(f"{where}: decision values differ", 10 * TOL, apart))
    try:
        X, y = clinc(20 if quick else 150)
    except Absent as reason:
        print(f"left out: {reason}")
        return section
    section.text += (
        f" The last rows: {NEW_INTENTS} classes added to the others of CLINC150, {X.shape[0]} x "
        f"{X.shape[1]}, C 8."
    )
    old = np.isin(y, np.unique(y)[:-NEW_INTENTS])
    ratio, apart = _compare(X, y, old, np.ones(len(y), bool), table, gamma=2.0, C=8.0)
    section.targets.append(at_most("new classes, CLINC150: times a fit", 1.1, 1 / ratio))
    section.targets.append(at_most("new classes, CLINC150: values differ", 10 * TOL, apart))
    return section


def _compare(X, y, before, after, table, **params):
    """Time of a fit over that of `add_classes`, and how far decision values are apart."""
    added, fitted = _race(X, y, before, after, params)
    for way in (added, fitted):
        model = way.answer
        table.append(
            [
                f"{params['gamma']:g}",
                way.program.name,
                f"{way.seconds:.3g}",
                str(len(way.times)),
                str(model.n_iter_.sum()),
                f"{model.dual_objective_.sum():.7g}",
                f"{model.kkt_gap_.max():.2e}",
            ]
        )
    expected = fitted.answer.decision_function(X)
    apart = np.abs(added.answer.decision_function(X) - expected).max()
    return fitted.seconds / added.seconds, apart


def _race(X, y, before, after, params):
    settings = {"tol": TOL, "cache_size": CACHE, "n_jobs": N_JOBS, **params}
    present = OpenSetSVC(**settings).fit(X[before], y[before])
    tasks = [
        (Way("add_classes"), lambda: deepcopy(present).add_classes(X[after], y[after])),
        (Way("fit"), lambda: OpenSetSVC(**settings).fit(X[after], y[after])),
    ]
    return race(tasks, f"new classes, gamma {params['gamma']:g}")
