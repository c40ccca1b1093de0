"""Extreme values: the Weibull fits, the EVM at scale, and what a grid of thresholds costs."""

from time import perf_counter

import numpy as np
from scipy.stats import weibull_min

from openset import ExtremeValueMachine
from openset.evt import fit_weibull
from openset.model_selection import OpenSetSearchCV

from .. import memory
from ..data import letter
from ..programs import N_JOBS
from ..report import Section, at_least, at_most

TAIL = 50


def run(quick):
    X, y = letter(2_000 if quick else 20_000)
    seconds, megabytes = memory.apart(_fit, X, y)
    ours, theirs, apart = _weibull(200 if quick else 2_000)
    one, many = _thresholds(*letter(2_000))
    section = Section(
        "Extreme values",
        f"EVM: letter, {len(y)} rows, tail {TAIL}, {N_JOBS} threads, in a process of its own after "
        f"a small fit that compiles. Weibull: tails of {TAIL} values, against "
        "`scipy.stats.weibull_min.fit(floc=0)`, of which 50 are timed; shapes differ by at most "
        f"{apart:.0e} (relative). Thresholds: an open-set search of the EVM with 1 and with 20 "
        "thresholds on 2000 rows, five fits in both.",
        [
            [
                ["what", "seconds"],
                ["EVM fit", f"{seconds:.3g}"],
                ["Weibull fit, ours", f"{ours:.2e}"],
                ["Weibull fit, scipy", f"{theirs:.2e}"],
                ["search, 1 threshold", f"{one:.3g}"],
                ["search, 20 thresholds", f"{many:.3g}"],
            ]
        ],
    )
    section.targets += [
        at_most("EVM fit, two cores", 30, seconds, " s"),
        at_most("EVM fit: memory", 2000, megabytes, " MB"),
        at_least("Weibull fit, against scipy", 100, theirs / ours),
        at_most("20 thresholds, in searches of 1", 1.5, many / one),
    ]
    return section


def _fit(X, y):
    machine = ExtremeValueMachine(tail_size=TAIL, n_jobs=N_JOBS)
    machine.fit(X[:500], y[:500])
    start = perf_counter()
    machine.fit(X, y)
    return perf_counter() - start


def _weibull(n):
    z = 1.0 + np.random.default_rng(0).weibull(3.0, size=(n, TAIL))
    fit_weibull(z[:10])
    start = perf_counter()
    _, shape = fit_weibull(z)
    ours = (perf_counter() - start) / n
    start = perf_counter()
    expected = np.array([weibull_min.fit(row, floc=0)[0] for row in z[:50]])
    theirs = (perf_counter() - start) / 50
    return ours, theirs, np.max(np.abs(shape[:50] / expected - 1))


def _thresholds(X, y):
    def seconds(n):
        grid = {"threshold": np.linspace(0.05, 0.95, n).tolist()}
        search = OpenSetSearchCV(ExtremeValueMachine(tail_size=TAIL), grid, random_state=0)
        start = perf_counter()
        search.fit(X, y)
        return perf_counter() - start

    seconds(1)
    return seconds(1), seconds(20)
