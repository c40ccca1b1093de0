"""One-vs-rest on wide data with many classes."""

import numpy as np

from ..data import clinc
from ..programs import OURS, TOL, Intelex, ScikitLearn, programs
from ..quality import Quality, judge
from ..race import race
from ..report import Section, agreement, at_least, at_most, fit_table

GAMMA = 1.0
SAMPLE = 10


def run(quick):
    X, y = clinc(20 if quick else 150)
    signs = np.where(y == np.unique(y)[:, None], 1.0, -1.0)
    sample = np.arange(SAMPLE) * (len(signs) // SAMPLE)
    # One column per class: the machines of the sample, each against all other rows.
    indicator = (signs[sample] > 0).astype(int).T
    tasks = [(OURS, OURS.one_vs_rest(X, y, GAMMA))]
    for program in programs(ScikitLearn, Intelex)[1:]:
        tasks.append((program, program.one_vs_rest(X, indicator, GAMMA)))
    runs = race(tasks, "fit")

    whole = judge(X, signs, GAMMA, OURS.machines(runs[0].answer, X, signs))
    qualities = [Quality(*(x[sample] for x in whole))]
    scale = len(signs) / SAMPLE
    for run in runs[1:]:
        beta = run.program.machines(run.answer, X, signs[sample])
        qualities.append(judge(X, signs[sample], GAMMA, beta))
        run.times = [scale * time for time in run.times]
    section = Section(
        "One-vs-rest, wide",
        f"clinc150-minilm, {X.shape[0]} x {X.shape[1]}, {len(signs)} classes, gamma {GAMMA:g}. "
        f"openset fits all classes, the others {SAMPLE} of them, each against all rows, and their "
        f"time is multiplied by {scale:g}. Objectives and gaps in the table are those of the "
        "sample.",
        [fit_table([("fit", runs, qualities)])],
    )
    for run in runs[1:]:
        if type(run.program) is ScikitLearn:
            ratio = run.seconds / runs[0].seconds
            section.targets.append(at_least("clinc, against scikit-learn", 15, ratio))
    section.targets.append(at_most("clinc: KKT gap, all classes", 1.1 * TOL, whole.gap.max()))
    section.targets += agreement("clinc", qualities)
    return section
