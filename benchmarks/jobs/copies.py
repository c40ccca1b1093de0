"""Every row four times, against weights of four."""

import numpy as np

from openset import OpenSetSVC

from ..data import letter
from ..programs import CACHE, N_JOBS, TOL, Way
from ..race import race
from ..report import Section, at_most

TIMES = 4


def run(quick):
    X, y = letter(4_000 if quick else 20_000)
    rows = np.random.default_rng(0).permutation(np.repeat(np.arange(len(y)), TIMES))
    settings = {"gamma": 8.0, "tol": TOL, "cache_size": CACHE, "n_jobs": N_JOBS}
    weight = np.full(len(y), float(TIMES))
    copied, weighted = race(
        [
            (Way("copies"), lambda: OpenSetSVC(**settings).fit(X[rows], y[rows])),
            (Way("weights"), lambda: OpenSetSVC(**settings).fit(X, y, sample_weight=weight)),
        ],
        "letter",
    )
    table = [["way", "rows", "seconds", "runs", "dual objective", "KKT gap"]]
    for way, n in ((copied, len(rows)), (weighted, len(y))):
        model = way.answer
        quality = f"{model.dual_objective_.sum():.7g}", f"{model.kkt_gap_.max():.2e}"
        seconds = f"{way.seconds:.3g}", str(len(way.times))
        table.append([way.program.name, str(n), *seconds, *quality])
    scores = [way.answer.decision_function(X) for way in (copied, weighted)]
    section = Section(
        "Copies of rows",
        f"letter, every row {TIMES} times in random order, against weights of {TIMES}; gamma 8.",
        [table],
    )
    ratio = copied.seconds / weighted.seconds
    section.targets.append(at_most("copies: times a fit with weights", 1.2, ratio))
    apart = np.abs(scores[0] - scores[1]).max()
    section.targets.append(at_most("copies: decision values differ", 10 * TOL, apart))
    return section
