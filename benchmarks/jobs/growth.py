"""How time grows with rows, classes and features, and how much memory the largest fit takes."""

import numpy as np

from .. import memory
from ..data import clusters, letter_repeated
from ..programs import CACHE, OURS, ScikitLearn, programs
from ..quality import judge
from ..race import race
from ..report import Section, agreement, at_most

GAMMA = 8.0


def run(quick):
    rows = [500, 1000, 2000] if quick else [1_000, 5_000, 10_000, 20_000, 40_000]
    classes = [2, 10] if quick else [2, 5, 10, 25, 50, 100]
    features = [4, 64] if quick else [4, 16, 64, 256, 1024]
    small = 400 if quick else 2_000
    section = Section(
        "Growth",
        "Seconds. Rows: one binary problem at solver level, letter repeated with noise, class 1 "
        f"against the rest, gamma {GAMMA:g}. Classes and features: one-vs-rest on {small} rows of "
        "normal clusters, gamma 1 / d, 16 features or 10 classes. The exponent is the slope of a "
        "line through the logarithms, for rows from the second size on.",
    )

    exponents, runs = _curve(section, "rows", rows, _binary_tasks, first=1)
    _curve(section, "classes", classes, lambda k: _fit_tasks(*clusters(small, 16, k)))
    _curve(section, "features", features, lambda d: _fit_tasks(*clusters(small, d, 10)))
    ours, theirs = exponents
    section.targets.append(at_most("growth in rows: exponent, scikit-learn's", theirs, ours))
    section.targets += agreement(f"growth, {rows[-1]} rows", _judge(runs, rows[-1]))
    if memory.KNOWN:
        for what, fit in {"binary": _fit_binary, "8 classes": _fit_eight_classes}.items():
            _, peak = memory.apart(fit, rows[-1])
            what = f"growth, {rows[-1]} rows: peak memory, {what}"
            section.targets.append(at_most(what, CACHE + 1024, peak, " MB"))
    return section


def _curve(section, what, sizes, tasks, first=0):
    """Add the table of times over `sizes`; return the exponents and the runs of the last."""
    runs = [race(tasks(size), f"{size} {what}") for size in sizes]
    times = np.array([[run.seconds for run in row] for row in runs])
    exponents = np.polyfit(np.log(sizes[first:]), np.log(times[first:]), 1)[0]
    table = [["program", *(f"{size} {what}" for size in sizes), "exponent"]]
    for run, seconds, exponent in zip(runs[0], times.T, exponents, strict=True):
        table.append([run.program.name, *(f"{s:.3g}" for s in seconds), f"{exponent:.2f}"])
    section.tables.append(table)
    return exponents, runs[-1]


def _binary_problem(n_rows):
    X, y = letter_repeated(n_rows)
    return X, np.where(y == 1, 1.0, -1.0)


def _binary_tasks(n_rows):
    X, signs = _binary_problem(n_rows)
    return [(program, program.binary(X, signs, GAMMA)) for program in programs(ScikitLearn)]


def _judge(runs, n_rows):
    X, signs = _binary_problem(n_rows)
    found = [run.program.multipliers(run.answer, signs) for run in runs]
    return [judge(X, signs[None], GAMMA, beta[None]) for beta in found]


def _fit_tasks(X, y):
    gamma = 1 / X.shape[1]
    return [(program, program.one_vs_rest(X, y, gamma)) for program in programs(ScikitLearn)]


def _fit_binary(n_rows):
    _binary_tasks(n_rows)[0][1]()


def _fit_eight_classes(n_rows):
    X, y = letter_repeated(n_rows)
    OURS.one_vs_rest(X, np.minimum(y, 8), GAMMA)()
