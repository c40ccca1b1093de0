"""One-vs-rest on narrow data."""

from functools import cache

import numpy as np

from ..data import letter
from ..programs import Intelex, ScikitLearn, programs
from ..quality import judge
from ..race import race
from ..report import Section, agreement, at_least, fit_table

GAMMA = 8.0
_AT_LEAST = {"scikit-learn": 8, "scikit-learn-intelex": 10}


@cache
def fits(quick):
    """The runs of all programs; `predict` continues with their models."""
    X, y = letter(2_000 if quick else 20_000)
    tasks = [
        (program, program.one_vs_rest(X, y, GAMMA)) for program in programs(ScikitLearn, Intelex)
    ]
    return X, y, race(tasks, "fit")


def run(quick):
    X, y, runs = fits(quick)
    signs = np.where(y == np.unique(y)[:, None], 1.0, -1.0)
    qualities = [judge(X, signs, GAMMA, run.program.machines(run.answer, X, signs)) for run in runs]
    section = Section(
        "One-vs-rest",
        f"letter, {len(y)} rows, {len(signs)} classes, gamma {GAMMA:g}.",
        [fit_table([("fit", runs, qualities)])],
    )
    for run in runs[1:]:
        name = run.program.name
        ratio = run.seconds / runs[0].seconds
        section.targets.append(at_least(f"ovr, against {name}", _AT_LEAST[name], ratio))
    section.targets += agreement("ovr", qualities)
    return section
